// The loop that serves requests: ids in, ids and log-probabilities out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/job.h"
#include "engine/snapshot.h"
#include "kv/kv_cache.h"
#include "runtime/runner.h"
#include "sched/scheduler.h"

namespace pagoda::engine {

struct Options {
  sched::Limits limits;
  std::string model_id;       ///< part of every prefix key
  bool keep_prefixes = true;  ///< false: nothing is cached beyond its request
  bool verify_cache = false;  ///< after each step hold all counts of the cache against each other; for tests
};

/// So few letters that a string holds them in itself: copies of it need no memory.
inline Error out_of_memory() { return {.code = ErrorCode::kOutOfMemory, .message = "out of memory", .param = {}}; }

/// Owns a runner, the cache's bookkeeping and the scheduler, all of which only its own thread touches. Requests come in
/// by a queue; results go out by jobs, which never hold the thread up. All public functions may be called from any
/// thread; none waits for a step, but for the destructor.
class Engine {
 public:
  /// The runner's info says what cache groups there are. Error: kInvalidArgument (limits that contradict the runner).
  static Result<std::unique_ptr<Engine>> start(Options options, std::unique_ptr<runtime::Runner> runner);

  /// Ends all jobs with kCancelled and joins the thread.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes in the choices of one request, or none of them. The first runs through its prompt before the others start,
  /// so that they find it in the prefix cache. Errors: kEmptyPrompt, kPromptTooLong, kQueueFull; the engine's own
  /// error once its device is lost.
  Result<std::vector<std::shared_ptr<Job>>> submit(std::vector<Submission> choices);

  /// Ends a job within one step: see Job::ask_to_end. What has ended stays as it is.
  void end(Job& job, FinishReason reason);

  Snapshot snapshot() const;

  /// The error that ended the engine, if one has.
  Status health() const;

  /// Since the loop last got on, while it has jobs; else 0.
  Clock::duration stalled() const;

  /// The most tokens one sequence can have, prompt and answer.
  std::int64_t most_tokens() const { return most_tokens_; }
  std::int64_t vocab() const { return vocab_; }

 private:
  struct Active {
    std::shared_ptr<Job> job;
    sched::SequenceId sequence = 0;
    std::int32_t slot = -1;         // the last it had
    Ending ending{};                // filled as things happen
    std::int64_t logits_given = 0;  // prompt positions whose logits went to the sink
  };
  /// A job that waits until its leader's prompt is cached; without a leader it starts at once.
  struct Follower {
    std::shared_ptr<Job> leader;
    std::shared_ptr<Job> job;
  };
  struct StepInFlight {
    const sched::Batch* batch = nullptr;
    Clock::time_point begun;
    std::optional<Error> error;  // it could not be submitted
  };
  Engine(Options options, std::unique_ptr<runtime::Runner> runner, kv::KvCache cache);

  Status check(const Submission& submission) const;

  // The thread's own functions: steps (loop.cc), and the life of jobs (lifecycle.cc).
  void loop();
  bool step();
  void start_steps();
  void set_slot(const sched::Admission& admission);
  void finish_step();
  void count_step(const StepInFlight& step, Clock::time_point now);
  void read_results(const sched::Batch& batch, std::span<const runtime::RowResult> results);
  void read_prompt(const sched::Row& row, const runtime::RowResult& result, Active& active);
  void take_outcomes(const sched::Batch& batch, std::span<const runtime::RowResult> results,
                     std::span<const sched::Outcome> outcomes);
  void take_id(Active& active, const runtime::RowResult& result, Clock::time_point now);
  Active* owner_of(const sched::Row& row);
  void leave_slot(Active& active);
  void abandon_step(const sched::Batch& batch, const Error& error);
  void wait_for_work();
  void sleep();

  bool take_in(bool may_wait);
  void add(std::shared_ptr<Job> job);
  void end_where(FinishReason (*reason)(const Job& job, Clock::time_point now));
  void end_overdue();
  void release_followers();
  void stop_sequence(Active& active, FinishReason reason, std::optional<Error> error);
  void retire(Active& active, FinishReason reason, std::optional<Error> error);
  void close_unstarted(std::shared_ptr<Job> job, FinishReason reason, std::optional<Error> error);
  void count_end(const Active& active);
  void close_all(FinishReason reason, const Error& error);
  void flush_closed();
  void die(Error error);
  void publish();
  void note_progress();

  const Options options_;
  std::unique_ptr<runtime::Runner> runner_;
  kv::KvCache cache_;
  std::optional<sched::Scheduler> scheduler_;
  std::int64_t most_tokens_ = 0;
  std::int64_t vocab_ = 0;

  std::unordered_map<sched::SequenceId, Active> active_;
  std::vector<Active*> by_slot_;  // of active_: who owns each slot, or did last
  std::vector<Follower> followers_;
  std::vector<Active> closed_;           // ended in this step, and not yet told; with room for all there can be
  std::vector<StepInFlight> in_flight_;  // oldest first
  std::vector<Follower> incoming_;
  std::vector<std::int32_t> ids_;  // drawn in one step
  std::vector<char> slot_set_;     // one a slot: the runner holds something for it
  std::optional<Clock::time_point> next_deadline_;
  Clock::time_point published_at_;
  Clock::time_point step_ended_;
  bool dead_ = false;  // no step can run any more
  Snapshot counts_;

  // Over what requests bring. A thread that submits may be stopped while it holds this: between two steps the loop only
  // tries it, and comes back after the next.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Follower> inbox_;
  bool stopping_ = false;
  std::optional<Error> lost_;

  mutable std::mutex snapshot_mutex_;  // nobody but those who ask for figures
  Snapshot published_;

  std::atomic<bool> attention_{false};    // the inbox or a wish waits
  std::atomic<std::int64_t> pending_{0};  // jobs accepted and not ended
  std::atomic<Clock::rep> progress_{0};   // when the loop last got on
  std::thread thread_;
};

/// What `call` returns, or that memory ran out: in words that need none themselves.
template <class Call>
auto or_out_of_memory(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace pagoda::engine
