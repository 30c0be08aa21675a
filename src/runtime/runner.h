// What runs a Batch: the seam between the engine's loop and a device. A scripted one drives the engine's tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/group_config.h"
#include "sched/batch.h"

namespace pagoda::runtime {

/// What a slot has to know of the sequence that owns it. Nothing of it is kept by reference.
struct SlotSetup {
  const SamplingParams* sampling = nullptr;  ///< an empty optional: the default that SamplingParams names
  std::uint64_t seed = 0;                    ///< used, whether asked for or random
  std::int32_t choice = 0;
  std::span<const std::int32_t> tokens;   ///< prompt, then what was drawn before a preemption
  std::int64_t prompt_tokens = 0;         ///< leading tokens that are prompt
  std::span<const std::int32_t> end_ids;  ///< not drawn before sampling->min_tokens tokens of output
  std::int32_t prompt_best = 0;           ///< best log-probabilities beside each token, for Want::kPromptLogprobs
};

/// What one row of a step brings back.
struct RowResult {
  std::int32_t slot = 0;
  std::int32_t id = sched::kNoToken;  ///< if the row wants one
  bool non_finite = false;  ///< a NaN, +∞ or nothing but −∞ in the row's logits: no id; kNonFiniteLogits
  float logprob = 0;        ///< of `id`, if the slot's sampling.logprobs is set
  std::span<const TokenLogprob> best;  ///< sampling.logprobs many, best first

  /// Of tokens [want_from, count): Want::kPromptLogprobs: for each its target's log-probability (0 where there is no
  /// target) and prompt_best best ones, token after token; kLogits: (tokens, vocab); kHidden: (tokens, hidden).
  std::span<const float> target_logprobs;
  std::span<const TokenLogprob> target_best;
  std::span<const float> logits;
  std::span<const float> hidden;
};

struct StepResult {
  std::int64_t step = 0;
  std::span<const RowResult> rows;  ///< as the batch's rows
};

/// What a runner has taken beside the weights, for the ledger of memory.
struct RunnerMemory {
  std::int64_t cache_bytes = 0;      ///< of keys and values
  std::int64_t workspace_bytes = 0;  ///< activations, scratch, a step's inputs, what sampling knows of slots
  std::int64_t graph_bytes = 0;      ///< captured steps and the code they run, as measured; 0 on hosts
  std::int64_t free_bytes = 0;       ///< of the card once all was taken, whoever had it; 0 on hosts
};

struct RunnerInfo {
  std::vector<kv::GroupConfig> groups;  ///< what KvCache is made with
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< the most tokens of a sequence
  std::int32_t max_slots = 0;
  std::int32_t max_step_tokens = 0;  ///< of all rows of a step together
  std::int32_t steps_in_flight = 1;  ///< most steps submitted and not fetched
  RunnerMemory memory{};
  std::string tuning{};  ///< what was measured at start and chosen, in words; empty if nothing was
};

/// Owned and called by one thread. Errors are of the device (kDevice…) or kOutOfMemory; a batch that breaks the
/// contract of sched::Batch is our own fault. What a row brings back depends on its own sequence alone.
class Runner {
 public:
  virtual ~Runner() = default;

  virtual const RunnerInfo& info() const = 0;

  /// Gives a slot to a sequence (Batch::admitted); before the step of its first row is submitted. Error:
  /// kInvalidArgument, a parameter outside its range (its name in Error::param).
  virtual Status set_slot(std::int32_t slot, const SlotSetup& setup) = 0;
  virtual void clear_slot(std::int32_t slot) = 0;

  /// Starts a step; at most info().steps_in_flight of them at once. The batch is read before the call returns.
  virtual Status submit(const sched::Batch& batch) = 0;

  /// Waits for the oldest step in flight. What it returns is valid until the next fetch.
  virtual Result<StepResult> fetch() = 0;
};

}  // namespace pagoda::runtime
