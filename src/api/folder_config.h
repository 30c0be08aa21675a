// config.json of a directory that `quantize` writes.
#pragma once

#include <string>
#include <vector>

#include "api/describe.h"
#include "api/quantize_jobs.h"

namespace pagoda::api {

/// What a GGUF's tensor of RoPE's divisors holds; empty if there is none. Errors: those of reading.
Result<std::vector<float>> rope_divisors(const DescribedFile& described);

/// The input's own configuration, or for a GGUF one that says the same model, with how the weights are kept now.
/// `unquantised` are the modules that stay as they are. Errors: those of reading; kConfigUnknown for a model of which
/// Hugging Face's configurations cannot speak.
Result<std::string> folder_config(const DescribedFile& described, const QuantizeTarget& target,
                                  const std::vector<std::string>& unquantised);

}  // namespace pagoda::api
