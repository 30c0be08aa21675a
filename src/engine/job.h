// One sequence to be generated, shared by the engine thread, which writes results, and one reader, who takes them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/hook.h"
#include "pagoda/types.h"

namespace pagoda::engine {

using Clock = std::chrono::steady_clock;

/// Takes raw logits of one prompt position, (vocabulary), lent for the call. On the engine thread. False: enough.
using LogitsSink = std::function<bool(std::int64_t position, std::span<const float> logits)>;

/// What is asked of the engine: ids in, ids and log-probabilities out.
struct Submission {
  std::vector<std::int32_t> prompt;  ///< at least one id, each inside the vocabulary
  SamplingParams sampling;           ///< `stop` strings and `max_tokens` are of no account here
  std::uint64_t seed = 0;            ///< with `choice` it names the stream of random numbers
  std::int32_t choice = 0;
  std::int64_t max_new_tokens = 0;     ///< ≥ 0
  std::vector<std::int32_t> stop_ids;  ///< drawing one of these ends the job; it is the last id handed out
  std::int32_t priority = 0;
  bool cache_prompt = true;
  std::string cache_salt;
  std::optional<Clock::time_point> deadline;
  std::optional<std::int32_t> prompt_best;  ///< hand out prompt log-probabilities, and this many best beside each
  LogitsSink on_logits;                     ///< if set, prompt logits go there
  std::function<void()> on_id;              ///< if set, called on the engine thread right after each id
};

/// How a job ended, and when it did what. Times that did not come to pass are the epoch.
struct Ending {
  FinishReason finish = FinishReason::kNone;
  std::optional<Error> error;
  Usage usage;
  Clock::time_point submitted;
  Clock::time_point started;   ///< the first step that worked on it began
  Clock::time_point first_id;  ///< was handed out
  Clock::time_point last_id;
};

/// A log-probability and the best ones at its place, best first.
struct Scored {
  float logprob = 0;
  std::span<const TokenLogprob> best;
};

/// Results are appended to arrays that are as long as the job can ever need, and counted by atomics: the engine never
/// waits for a reader, and a reader that takes nothing holds up nobody.
class Job {
 public:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using RawArray = std::unique_ptr<T[], Free>;

  /// `max_ids` bounds what will ever be pushed.
  Job(Submission submission, std::int64_t max_ids);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Submission& submission() const { return submission_; }
  Clock::time_point submitted() const { return submitted_; }

  // The reader's side. One thread at a time; counts only grow.

  std::int64_t num_ids() const { return num_ids_.load(std::memory_order_acquire); }
  std::int32_t id(std::int64_t index) const { return ids_[static_cast<std::size_t>(index)]; }
  /// Only if the sampling parameters ask for log-probabilities.
  Scored scored(std::int64_t index) const;

  std::int64_t num_prompt_scores() const { return num_prompt_scores_.load(std::memory_order_acquire); }
  /// Of prompt token index + 1.
  Scored prompt_scored(std::int64_t index) const;

  /// Set last: whoever sees it, sees all ids.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  const Ending& ending() const { return ending_; }

  /// Called on the engine thread after each change; must not block, nor call this object. When this returns, the hook
  /// before is not running and will not run again; changes up to then may not have been announced, and can be seen.
  void on_ready(std::function<void()> hook) { hook_.set(std::move(hook)); }

  // The engine thread's side.

  void push(std::int32_t id, float logprob, std::span<const TokenLogprob> best);
  void push_prompt_score(float logprob, std::span<const TokenLogprob> best);
  void close(Ending ending);
  /// Tells the reader about everything pushed since the last call.
  void notify() { hook_.call(); }

  std::int64_t most_ids() const { return max_ids_; }

  // Asked for by the reader, honoured by the engine within one step. The first wish counts.

  /// kStop: the reader has found a stop string. kCancelled: nobody wants the rest.
  bool ask_to_end(FinishReason reason);
  FinishReason asked() const { return asked_.load(std::memory_order_acquire); }

 private:
  const Submission submission_;
  const std::int64_t max_ids_;
  const std::int64_t max_prompt_scores_;
  const Clock::time_point submitted_ = Clock::now();
  const std::size_t best_;         // alternatives beside each id
  const std::size_t prompt_best_;  // and beside each prompt token

  RawArray<std::int32_t> ids_;
  RawArray<float> logprobs_;
  RawArray<TokenLogprob> best_ids_;
  RawArray<float> prompt_logprobs_;
  RawArray<TokenLogprob> prompt_best_ids_;
  Ending ending_;

  alignas(64) std::atomic<std::int64_t> num_ids_{0};
  std::atomic<std::int64_t> num_prompt_scores_{0};
  std::atomic<bool> ended_{false};
  alignas(64) std::atomic<FinishReason> asked_{FinishReason::kNone};

  Hook hook_;
};

}  // namespace pagoda::engine
