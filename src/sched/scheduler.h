// Which tokens of which sequences the next step computes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/kv_cache.h"
#include "kv/write_plan.h"
#include "sched/batch.h"
#include "sched/request.h"
#include "sched/sequence.h"

namespace pagoda::sched {

struct Limits {
  std::int64_t context = 4096;       ///< most tokens of a sequence, prompt and output together
  std::int32_t max_running = 16;     ///< slots
  std::int32_t max_queued = 1024;    ///< requests that may wait beside those that may run
  std::int32_t token_budget = 8192;  ///< most tokens of a step, all rows together
  std::int32_t prefill_chunk = 512;  ///< most prefill tokens of a row, and of all rows beside decodes (the quantum)
  std::int32_t decode_burst = 8;     ///< after this many steps in which no prefill got anything, they go before decodes
  std::int32_t steps_in_flight = 1;  ///< 1, or 2: a step is composed while the one before it runs
  std::int32_t token_tile = 1;       ///< tokens that a step's products take at once: one more than a multiple costs as
                                     ///< much as a tile, so a step that leaves prompt tokens over ends at a multiple

  /// What is left of a prompt is added to a chunk if it is at most this much: a tiny last chunk costs a whole step.
  std::int32_t absorbed_tokens() const { return prefill_chunk / 8 < 64 ? prefill_chunk / 8 : 64; }

  /// The most tokens of one row.
  std::int32_t max_row_tokens() const {
    const std::int32_t row = prefill_chunk + absorbed_tokens();
    return row < token_budget ? row : token_budget;
  }
};

/// What a completed step means for one sequence.
struct Outcome {
  SequenceId sequence = 0;
  RequestId request = 0;
  std::int32_t choice = 0;
  std::int32_t row = 0;                       ///< of the step's batch
  std::int32_t id = kNoToken;                 ///< the id drawn; kNoToken if none was
  FinishReason finish = FinishReason::kNone;  ///< kStop, kLength: this was its last. kError: its step failed
  Usage usage{};                              ///< so far
};

struct SchedulerStats {
  std::int64_t waiting = 0;
  std::int64_t running = 0;
  std::int64_t steps = 0;
  std::int64_t new_tokens = 0;
  std::int64_t finished = 0;
  std::int64_t cancelled = 0;  ///< by finish()
  std::int64_t refused = 0;    ///< by add()
  std::int64_t preemptions = 0;
};

/// Batches prefill chunks and decodes of many sequences. Of each step's budget, decodes take one token each first; of
/// what is left (at most one quantum if there are decodes, and whole tiles with them) the eldest prefill gets half, and
/// the others the rest, the one with least to compute first. New requests come in by priority, then arrival, when a
/// slot is free and their prompt fits beside what the running ones have yet to take; the head of the queue is never
/// passed by. When blocks run short the youngest of lowest priority gives its own back and waits again at its old
/// place; what it had is computed anew. Chunk borders and batch mates do not change a sequence's ids.
///
/// Not thread-safe: the engine thread owns it and calls, for each step, next → run → complete, in order. `cache` is
/// lent for the scheduler's life.
class Scheduler {
 public:
  /// Error: kInvalidArgument (a limit out of range).
  static Result<Scheduler> create(const Limits& limits, kv::KvCache& cache);

  Scheduler(Scheduler&&) noexcept = default;
  Scheduler& operator=(Scheduler&&) = delete;
  ~Scheduler();  ///< gives everything back; no step may be in flight

  /// Queues a request. Errors: kEmptyPrompt; kInvalidArgument; kPromptTooLong, with both numbers; kCacheCapacity, it
  /// can never fit; kQueueFull. A full cache is no error: the request waits.
  Result<SequenceId> add(Request request);

  /// Composes the next step. Null if there is nothing to do now: no sequence has a token to compute, or
  /// limits.steps_in_flight steps have not been completed. Valid until that step's complete().
  const Batch* next();

  /// Takes the results of the oldest step in flight: one id for each of its rows that wants one, in row order. What was
  /// drawn for a sequence that has ended meanwhile is dropped. Outcomes, in row order, are valid until the next call.
  std::span<const Outcome> complete(std::int64_t step, std::span<const std::int32_t> ids);

  /// The oldest step in flight failed: every sequence of it ends with kError, and gets an outcome.
  std::span<const Outcome> abandon(std::int64_t step);

  /// Ends a sequence, waiting or running: a stop string, a cancelled or overdue request. Blocks and slot return at
  /// once, or when the last step that names them completes. False if there is none, or it has ended. No outcome
  /// follows.
  bool finish(SequenceId sequence, FinishReason reason);

  /// Null if there is none, or it has ended and its blocks are back. Valid until the next call that is not const.
  const Sequence* find(SequenceId sequence) const;

  bool idle() const { return waiting_.empty() && running_.empty(); }
  const Limits& limits() const { return limits_; }
  SchedulerStats stats() const;

  /// The most tokens one sequence can have at all: the context, or less if the cache holds less.
  std::int64_t most_tokens() const;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  struct Step {
    Batch batch;
    std::vector<Sequence*> owners;  // of the rows
  };

  Scheduler(const Limits& limits, kv::KvCache& cache);

  // Composing a step (compose.cc).
  void compose(Step& step);
  std::int64_t in_tiles(std::int64_t used, std::int64_t more) const;
  bool able(const Sequence& sequence) const;
  std::span<Sequence* const> candidates(bool prefilling);
  void add_decodes(Step& step, std::int64_t& budget);
  void add_prefills(Step& step, std::int64_t quantum, std::int64_t& budget);
  bool add_row(Step& step, Sequence& sequence, std::int64_t count);
  static void want_of_prompt(const Sequence& sequence, Row& row);
  void add_pages(Batch::Group& group, std::size_t index, const kv::BlockTable& table, const Row& row);
  bool make_room(Sequence& sequence, std::int64_t count);
  void preempt(Sequence& sequence);
  void admit();
  bool admit_first();
  std::span<const std::int64_t> promised_blocks();

  // Coming and ending (scheduler.cc).
  Status check_request(const Request& request) const;
  std::int64_t step_tokens(bool prefilling) const;  // of one sequence, in all steps in flight
  void enqueue(SequencePtr sequence);
  void start_running(SequencePtr sequence);
  SequencePtr stop_running(Sequence& sequence);
  std::span<const Outcome> close(std::int64_t step, std::span<const std::int32_t> ids, bool failed);
  void settle(Sequence& sequence, const Row& row, std::int32_t id);
  void report(const Sequence& sequence, std::size_t row, std::int32_t id);

  Limits limits_;
  kv::KvCache* cache_;
  std::deque<SequencePtr> waiting_;   // by priority, then arrival
  std::vector<SequencePtr> running_;  // by priority, then arrival
  std::vector<std::int32_t> free_slots_;
  std::vector<Step> steps_;             // a ring, one for each step in flight
  std::vector<Admission> admitted_;     // that no batch has told yet
  bool head_waits_for_blocks_ = false;  // until something comes back, the head of the queue need not be tried
  std::vector<Outcome> outcomes_;
  SequenceId next_sequence_ = 1;
  std::int64_t next_step_ = 1;
  std::int64_t oldest_step_ = 1;        // not completed
  std::int64_t last_prefill_step_ = 0;  // in which a prefill had a row, or none wanted one
  SchedulerStats stats_;

  // Kept from step to step for their memory.
  std::vector<Sequence*> candidates_;
  kv::KvWritePlan write_plan_;
  std::vector<std::int64_t> promised_;
};

}  // namespace pagoda::sched
