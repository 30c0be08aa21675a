// A model written as a Hugging Face directory.
#pragma once

#include <vector>

#include "api/describe.h"
#include "api/quantize_jobs.h"
#include "base/output.h"
#include "base/thread_pool.h"
#include "pagoda/quantize.h"

namespace pagoda::api {

/// What becomes of each tensor, by the names that Hugging Face's decoders give them. Embedding and head stay floats.
std::vector<TensorJob> folder_jobs(const DescribedFile& described, const QuantizeTarget& target);

/// Makes the directory at `output`'s work path: config.json, model.safetensors, the tokenizer and what belongs to it.
/// Before a tensor is written, the directory is read as any other model's, and has to describe the same model. Errors:
/// those of run_jobs; kConfigUnknown and kTokenizerUnsupported for what such a directory cannot say.
Result<std::vector<QuantizedTensor>> write_folder(const DescribedFile& described, const QuantizeTarget& target,
                                                  std::vector<TensorJob> jobs, const Output& output, ThreadPool& pool,
                                                  const QuantizeOptions& options);

}  // namespace pagoda::api
