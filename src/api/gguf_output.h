// A model written as a GGUF file.
#pragma once

#include <vector>

#include "api/describe.h"
#include "api/quantize_jobs.h"
#include "base/output.h"
#include "base/thread_pool.h"
#include "pagoda/quantize.h"

namespace pagoda::api {

/// What becomes of each tensor, by the names that GGUF files give them.
std::vector<TensorJob> gguf_jobs(const DescribedFile& described, const QuantizeTarget& target);

/// Writes the file at `output`'s work path: with the keys of a GGUF, or with those that say what a Hugging Face
/// directory says. Before a tensor is written, the header is read as any other model's, and has to describe the same
/// model. Errors: those of run_jobs; kConfigUnknown and kTokenizerUnsupported for what cannot be said in a GGUF.
Result<std::vector<QuantizedTensor>> write_gguf(const DescribedFile& described, const QuantizeTarget& target,
                                                std::vector<TensorJob> jobs, const Output& output, ThreadPool& pool,
                                                const QuantizeOptions& options);

}  // namespace pagoda::api
