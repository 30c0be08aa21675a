#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagoda::sched {

using RequestId = std::int64_t;   ///< the caller's own number; the scheduler only hands it back
using SequenceId = std::int64_t;  ///< given by Scheduler::add, ascending, never used again

/// What a row brings back for some of its tokens, besides the id drawn after the last.
enum class Want : std::uint8_t {
  kNothing,
  kPromptLogprobs,  ///< for each token the log-probability of the token that follows it (Batch::targets), best k beside
  kHidden,          ///< the last hidden state
  kLogits,
};

/// One choice to be generated. How its tokens are drawn is no matter of the scheduler: the engine gives the sampling
/// parameters to the runner when a slot is taken (Batch::admitted).
struct Request {
  RequestId id = 0;
  std::int32_t choice = 0;               ///< which of a request's n choices; each is a sequence of its own
  std::vector<std::int32_t> prompt{};    ///< token ids, at least one
  std::int64_t max_new_tokens = 0;       ///< ≥ 0; what passes the context's end is cut off there, with kLength
  std::vector<std::int32_t> stop_ids{};  ///< drawing one of these ends the sequence with kStop
  std::int32_t priority = 0;             ///< higher goes first; equal ones in order of arrival
  bool cache_prompt = true;              ///< false: takes nothing from the prefix cache and leaves nothing in it
  std::string cache_salt{};              ///< shares cached prefixes only with requests of the same salt
  Want prompt_want = Want::kNothing;     ///< wanted of every prompt token; then nothing is taken from the cache
};

}  // namespace pagoda::sched
