// How fast a model runs here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pagoda/model.h"

namespace pagoda {

/// Every prompt × depth × batch is a prefill test; every depth × batch a decode test.
struct BenchOptions {
  std::vector<std::int64_t> prompts = {512};  ///< tokens; empty: no prefill test
  std::int64_t generate = 128;                ///< decode steps a sample; 0: no decode test
  std::vector<std::int64_t> depths = {0};     ///< tokens that lie in the cache already
  std::vector<std::int64_t> batches = {1};    ///< sequences at once
  std::int64_t samples = 5;                   ///< timed runs, after one that is not; figures are their medians
};

struct BenchRow {
  std::string model;  ///< the file's stem
  std::string format;
  std::string kv_dtype;
  std::string precision;
  std::int64_t threads = 0;
  std::string device;       ///< the processor's own name
  std::string test;         ///< "prefill" or "decode"
  std::int64_t prompt = 0;  ///< 0 for decode
  std::int64_t depth = 0;
  std::int64_t batch = 0;
  double ms_per_step = 0;      ///< decode: one token of each sequence; prefill: the whole prompt of all
  double tok_s = 0;            ///< over all sequences of the batch
  double bytes_per_step = 0;   ///< weights and KV that a decode step must read; 0 for prefill
  double bandwidth_share = 0;  ///< bytes_per_step over time, as a share of what the device's memory gives; 0: unknown
  std::int64_t samples = 0;
};

/// Calls `on_row` after each test. The model should be idle. Errors: those of Model::generate; before any test,
/// kInvalidArgument for one that the context or the number of running sequences is too small for, kCacheCapacity for
/// one that does not fit into the KV cache as a whole.
Result<std::vector<BenchRow>> bench(const Model& model, const BenchOptions& options,
                                    const std::function<void(const BenchRow&)>& on_row = {});

}  // namespace pagoda
