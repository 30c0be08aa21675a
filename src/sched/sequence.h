#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "pagoda/types.h"
#include "sched/request.h"

namespace pagoda::sched {

/// A request on its way. Positions count from 0 over prompt and output together:
///
///   computed ≤ scheduled ≤ known + drawing,   computed ≤ known
///
/// A token is *known* when the host has its id, *scheduled* when a step was composed that computes it, *computed* when
/// that step has ended. `drawing` ids are being drawn by steps in flight.
struct Sequence {
  SequenceId id = 0;
  Request request;                   ///< its prompt moves to `tokens`
  std::vector<std::int32_t> tokens;  ///< known ids: prompt, then output
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = 0;     ///< prompt and output together, within the context
  std::int64_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache when it first came in
  std::int64_t scheduled = 0;
  std::int64_t computed = 0;
  std::int64_t answered = 0;   ///< prompt tokens of which `prompt_want` was brought back; a preemption keeps it
  std::int64_t last_step = 0;  ///< that it had a row in; when it comes in, the one before
  std::int32_t drawing = 0;
  std::int32_t steps_in_flight = 0;
  std::int32_t slot = -1;  ///< -1: waiting
  std::int32_t preemptions = 0;
  FinishReason finish = FinishReason::kNone;  ///< set: ended; its blocks go when its last step in flight has ended
  kv::CachedSequence cache;

  std::int64_t known() const { return std::ssize(tokens); }
  std::int64_t new_tokens() const { return known() - prompt_tokens; }
  std::span<const std::int32_t> output() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(prompt_tokens));
  }
  bool ended() const { return finish != FinishReason::kNone; }

  Usage usage() const {
    return {.prompt_tokens = prompt_tokens, .cached_tokens = cached_tokens, .completion_tokens = new_tokens()};
  }

  /// Tokens that the next step could compute: known or being drawn, and not yet scheduled.
  std::int64_t ready() const { return known() + drawing - scheduled; }

  /// Still has more than its newest token to compute: prompt, or what a preemption threw away.
  bool prefilling() const { return scheduled + 1 < known(); }

  /// Its last tokens are being drawn: no more steps are needed for them.
  bool all_drawn() const { return known() + drawing >= max_tokens && scheduled >= prompt_tokens; }
};

/// The order of everything: higher priority first, then who came first.
inline bool goes_before(const Sequence& a, const Sequence& b) {
  return a.request.priority != b.request.priority ? a.request.priority > b.request.priority : a.id < b.id;
}

}  // namespace pagoda::sched
