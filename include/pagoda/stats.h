// Counters of a running model.
#pragma once

#include <cstdint>

namespace pagoda {

/// A snapshot, taken between two steps: its numbers belong together. Counts are since the model was opened.
struct Stats {
  // Requests. A request with n choices counts as n.
  std::int64_t queued = 0;   ///< accepted and not yet running
  std::int64_t running = 0;  ///< own a slot now
  std::int64_t accepted = 0;
  std::int64_t finished = 0;   ///< ended with stop or length
  std::int64_t cancelled = 0;  ///< by their reader, or past their deadline
  std::int64_t failed = 0;     ///< ended with an error
  std::int64_t non_finite_rows = 0;

  // Work done.
  std::int64_t steps = 0;
  std::int64_t prompt_tokens = 0;     ///< of accepted requests
  std::int64_t cached_tokens = 0;     ///< of those, found in the prefix cache
  std::int64_t generated_tokens = 0;  ///< sampled and handed out
  double busy_ms = 0;                 ///< time spent in steps

  // The KV cache, in blocks of `block_size` tokens: total = free + used + cached, over all cache groups.
  std::int64_t block_size = 0;
  std::int64_t blocks_total = 0;
  std::int64_t blocks_free = 0;
  std::int64_t blocks_used = 0;    ///< named by a running sequence
  std::int64_t blocks_cached = 0;  ///< kept only for reuse; given up when needed
  std::int64_t prefix_evictions = 0;
  std::int64_t preemptions = 0;
};

}  // namespace pagoda
