// Counters of a running model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pagoda/memory.h"

namespace pagoda {

/// How often a value fell where. counts[i] is of values over bounds[i - 1] and up to bounds[i]; the last one of values
/// over all bounds.
struct Histogram {
  std::span<const double> bounds{};    ///< ascending; they live as long as the program
  std::vector<std::int64_t> counts{};  ///< one more than there are bounds
  double sum = 0;

  std::int64_t count() const {
    std::int64_t all = 0;
    for (const std::int64_t each : counts) all += each;
    return all;
  }
};

/// Requests that `Model::generate` did not take, by reason.
struct Refusals {
  std::int64_t invalid = 0;          ///< a parameter, the prompt's JSON, or what the template says of it
  std::int64_t prompt_too_long = 0;  ///< over the context
  std::int64_t queue_full = 0;
  std::int64_t failed = 0;  ///< the device is lost, or memory has run out
};

/// A snapshot, taken between two steps: its numbers belong together. Counts are since the model was opened.
struct Stats {
  // Requests. A request with n choices counts as n, but for refusals.
  std::int64_t queued = 0;   ///< accepted and not yet running
  std::int64_t running = 0;  ///< own a slot now
  std::int64_t accepted = 0;
  std::int64_t finished = 0;   ///< ended with stop or length
  std::int64_t stopped = 0;    ///< of these, with stop
  std::int64_t cancelled = 0;  ///< by their reader, or past their deadline
  std::int64_t overdue = 0;    ///< of these, past their deadline
  std::int64_t failed = 0;     ///< ended with an error
  std::int64_t non_finite_rows = 0;
  Refusals refusals;

  // Work done.
  std::int64_t steps = 0;
  std::int64_t prompt_tokens = 0;     ///< of accepted requests
  std::int64_t cached_tokens = 0;     ///< of those, found in the prefix cache
  std::int64_t generated_tokens = 0;  ///< sampled and handed out
  /// Since the engine last got on, while it has something to do; else 0. The one number that is not of the snapshot but
  /// of now, so that a step that never ends is seen.
  double stalled_ms = 0;

  // Times in seconds.
  Histogram queue_s;        ///< from submission to the first step that worked on it
  Histogram first_token_s;  ///< from submission to the first token
  Histogram inter_token_s;  ///< between two tokens of one choice
  Histogram request_s;      ///< from submission to the end, of those that finished
  Histogram step_s;         ///< of one step, from the end of the one before if that was still running

  // Sizes.
  Histogram step_rows;    ///< sequences of a step
  Histogram step_tokens;  ///< of all its rows

  // The KV cache, in blocks of `block_size` tokens: total = free + used + cached, over all cache groups.
  std::int64_t block_size = 0;
  std::int64_t blocks_total = 0;
  std::int64_t blocks_free = 0;
  std::int64_t blocks_used = 0;           ///< named by a running sequence
  std::int64_t blocks_cached = 0;         ///< kept only for reuse; given up when needed
  std::int64_t prefix_lookup_tokens = 0;  ///< of sequences that came in, looked up in the prefix cache
  std::int64_t prefix_hit_tokens = 0;     ///< of those, found
  std::int64_t prefix_evictions = 0;
  std::int64_t preemptions = 0;

  ModelMemory memory;
};

}  // namespace pagoda
