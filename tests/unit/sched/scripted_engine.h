// Drives a Scheduler as the engine does, with a scripted runner in the model's place. Its pages hold, for each token, a
// digest of all tokens up to it, read from the page of the token before, and the id drawn is a function of the last
// digest: so ids are right only if every block, slot, position and id of every step was. Each step is held against the
// promises of the scheduler before it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "kv/kv_cache.h"
#include "sched/scheduler.h"

namespace pagoda::sched {

using Ids = std::vector<std::int32_t>;

inline constexpr std::int32_t kVocabulary = 101;

/// The ids that follow a prompt when it is alone.
Ids solo(const Ids& prompt, std::int64_t count);

/// `length` ids; the first `shared` are those of every prompt of the family.
Ids prompt_of(std::int64_t length, std::int64_t shared = 0, std::int32_t family = 0);

class ScriptedEngine {
 public:
  struct Told {  // of one sequence
    Ids prompt;
    Ids output;
    FinishReason finish = FinishReason::kNone;
    Usage usage;
    std::int64_t next_position = 0;  // that must be scheduled next
    std::int64_t first_step = 0;     // with a row
    std::int64_t first_id_step = 0;
    std::int64_t last_step = 0;
    std::int64_t longest_gap = 0;        // steps between two rows, while it ran
    std::int64_t logprobs_answered = 0;  // prompt positions
    std::int32_t resumes = 0;
  };

  ScriptedEngine(Limits limits, std::vector<kv::GroupConfig> groups);

  SequenceId add(Request request);
  SequenceId add(Ids prompt, std::int64_t max_new_tokens) {
    return add({.prompt = std::move(prompt), .max_new_tokens = max_new_tokens});
  }

  /// Composes and runs as many steps as may be in flight, then completes the oldest. False when nothing was to do.
  bool step();
  void drain() {
    while (step()) {
    }
  }
  void finish(SequenceId id) { scheduler.finish(id, FinishReason::kCancelled); }

  /// Every block free or cached, every slot back (CASES E1).
  void expect_idle();

  /// What was told of every sequence that ended by itself is what it says alone.
  void expect_solo_outputs();

  const std::deque<std::int64_t>& in_flight() const { return in_flight_; }
  std::int64_t most_live(std::size_t group) const { return most_live_[group]; }
  std::int64_t steps() const { return steps_; }
  std::int64_t on_device_rows() const { return on_device_rows_; }

  kv::KvCache cache;
  Scheduler scheduler;
  std::map<SequenceId, Told> told;
  const Batch* last_batch = nullptr;
  std::int64_t last_tokens = 0;  ///< of that one

 private:
  struct Running {
    const Batch* batch;
    Ids drawn;
  };

  void launch(const Batch& batch);
  void check_step(const Batch& batch);
  void check_row(const Batch& batch, std::size_t index);
  std::int32_t run_row(const Batch& batch, std::size_t index);
  void check_blocks_in_flight() const;
  std::uint64_t& page(const Batch& batch, std::size_t row, std::size_t group, std::int64_t position);

  std::vector<std::vector<std::uint64_t>> pages_;  // one a group: (blocks, block size)
  std::vector<std::int32_t> last_id_;              // by slot, as on a device
  std::deque<std::int64_t> in_flight_;
  std::deque<Running> running_;
  std::vector<std::int64_t> most_live_;
  std::int64_t steps_ = 0;
  std::int64_t on_device_rows_ = 0;
};

}  // namespace pagoda::sched
