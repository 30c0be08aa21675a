// A runner without a model: each id is a hash of every token that the row can see, read through its block table out of
// pages that earlier steps wrote. A block given to two sequences, freed too early or found wrongly in the prefix cache
// changes the ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/runner.h"

namespace pagoda::engine {

struct Script {
  std::int64_t vocab = 97;
  std::int64_t context = 400;
  std::int32_t max_slots = 5;
  std::int32_t max_step_tokens = 64;
  std::int32_t steps_in_flight = 1;
  std::int64_t blocks = 60;
  std::int32_t block_size = 8;
  std::int64_t window = 0;  ///< of a second group; 0: there is none
  /// Called on the engine thread before each step; what it returns or throws is the step's fate.
  std::function<Status(std::int64_t step)> before_step;
  /// Rows whose first prompt token is this id become NaN when they draw; -1: none.
  std::int32_t nan_from = -1;
  std::int64_t nan_step = 0;  ///< of these, only in this step; 0: in every one
  /// Ids are never drawn below this: no accidental stop id.
  std::int32_t lowest_id = 3;
};

class ScriptedRunner final : public runtime::Runner {
 public:
  explicit ScriptedRunner(Script script);

  const runtime::RunnerInfo& info() const override { return info_; }
  Status set_slot(std::int32_t slot, const runtime::SlotSetup& setup) override;
  void clear_slot(std::int32_t slot) override;
  Status submit(const sched::Batch& batch) override;
  Result<runtime::StepResult> fetch() override;

  /// What a request alone must yield.
  static std::vector<std::int32_t> expected(const Script& script, std::vector<std::int32_t> prompt,
                                            const SamplingParams& sampling, std::uint64_t seed, std::int32_t choice,
                                            std::int64_t count);
  static float logprob_of(std::int32_t id) { return -0.5f - static_cast<float>(id); }

 private:
  struct Slot {
    bool set = false;
    SamplingParams sampling;
    std::uint64_t key = 0;
    std::int32_t first_token = 0;
    std::int32_t prompt_best = 0;
    std::int32_t last_id = sched::kNoToken;
  };
  struct Computed {
    std::int64_t step = 0;
    std::vector<runtime::RowResult> rows;
    std::vector<std::vector<float>> floats;
    std::vector<std::vector<TokenLogprob>> best;
  };

  void compute(const sched::Batch& batch, std::size_t r, Computed& out);

  Script script_;
  runtime::RunnerInfo info_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::int32_t>> pages_;  // one a group: the token at each place
  std::vector<Computed> in_flight_;
  Computed fetched_;
};

}  // namespace pagoda::engine
