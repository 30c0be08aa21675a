// Tensors read, encoded and written by pieces: the work of `quantize`.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "api/quantize_jobs.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "io/model_file.h"
#include "pagoda/quantize.h"

namespace pagoda::api {

/// Where a job's blocks go, by ranges of rows; from any thread, several at once.
using TensorSink =
    std::function<Status(std::int64_t first_row, std::int64_t num_rows, std::span<const std::byte> blocks)>;

/// Runs the jobs on the pool's workers; `sinks` has one a job. What is returned is in the jobs' order. Errors:
/// those of reading; kConfigRange for values that are no numbers or that the format cannot hold; kIoFailed; kCancelled.
Result<std::vector<QuantizedTensor>> run_jobs(const io::ModelFile& from, const std::vector<TensorJob>& jobs,
                                              const std::vector<TensorSink>& sinks, ThreadPool& pool,
                                              const QuantizeOptions& options);

}  // namespace pagoda::api
