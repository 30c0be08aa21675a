#include "engine/job.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "base/check.h"

namespace pagoda::engine {
namespace {

/// Left as it comes: a page of it is touched only when results reach it. (`new` would write the members' defaults, and
/// what a request may need at most can be gigabytes.)
template <class T>
Job::RawArray<T> raw_array(std::size_t count) {
  static_assert(std::is_aggregate_v<T> || std::is_trivially_default_constructible_v<T>);
  static_assert(std::is_trivially_destructible_v<T>);
  if (count == 0) return nullptr;
  auto* const memory = count <= SIZE_MAX / sizeof(T) ? static_cast<T*>(std::malloc(count * sizeof(T))) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return Job::RawArray<T>(memory);
}

void store_best(TokenLogprob* place, std::size_t width, std::span<const TokenLogprob> best) {
  for (std::size_t i = 0; i < width; ++i) place[i] = i < best.size() ? best[i] : TokenLogprob{.id = -1};
}

/// A vocabulary may be smaller than what was asked for: unused places carry the id -1.
std::span<const TokenLogprob> load_best(const TokenLogprob* place, std::size_t width) {
  std::size_t used = 0;
  while (used < width && place[used].id >= 0) ++used;
  return {place, used};
}

}  // namespace

Job::Job(Submission submission, std::int64_t max_ids)
    : submission_(std::move(submission)),
      max_ids_(max_ids),
      max_prompt_scores_(submission_.prompt_best ? std::ssize(submission_.prompt) - 1 : 0),
      best_(static_cast<std::size_t>(submission_.sampling.logprobs.value_or(0))),
      prompt_best_(static_cast<std::size_t>(submission_.prompt_best.value_or(0))) {
  const auto ids = static_cast<std::size_t>(max_ids_);
  const auto prompt = static_cast<std::size_t>(std::max<std::int64_t>(max_prompt_scores_, 0));
  ids_ = raw_array<std::int32_t>(ids);
  if (submission_.sampling.logprobs) {
    logprobs_ = raw_array<float>(ids);
    best_ids_ = raw_array<TokenLogprob>(ids * best_);
  }
  prompt_logprobs_ = raw_array<float>(prompt);
  prompt_best_ids_ = raw_array<TokenLogprob>(prompt * prompt_best_);
}

Job::~Job() = default;

Scored Job::scored(std::int64_t index) const {
  PAGODA_CHECK(logprobs_ != nullptr && index < num_ids(), "log-probability {} of {}", index, num_ids());
  const auto at = static_cast<std::size_t>(index);
  return {.logprob = logprobs_[at], .best = load_best(best_ids_.get() + at * best_, best_)};
}

Scored Job::prompt_scored(std::int64_t index) const {
  PAGODA_CHECK(index < num_prompt_scores(), "prompt log-probability {} of {}", index, num_prompt_scores());
  const auto at = static_cast<std::size_t>(index);
  return {.logprob = prompt_logprobs_[at], .best = load_best(prompt_best_ids_.get() + at * prompt_best_, prompt_best_)};
}

void Job::push(std::int32_t id, float logprob, std::span<const TokenLogprob> best) {
  const std::int64_t count = num_ids_.load(std::memory_order_relaxed);
  PAGODA_CHECK(count < max_ids_, "id {} of at most {}", count, max_ids_);
  const auto at = static_cast<std::size_t>(count);
  ids_[at] = id;
  if (logprobs_ != nullptr) {
    logprobs_[at] = logprob;
    store_best(best_ids_.get() + at * best_, best_, best);
  }
  num_ids_.store(count + 1, std::memory_order_release);
}

void Job::push_prompt_score(float logprob, std::span<const TokenLogprob> best) {
  const std::int64_t count = num_prompt_scores_.load(std::memory_order_relaxed);
  PAGODA_CHECK(count < max_prompt_scores_, "prompt score {} of at most {}", count, max_prompt_scores_);
  const auto at = static_cast<std::size_t>(count);
  prompt_logprobs_[at] = logprob;
  store_best(prompt_best_ids_.get() + at * prompt_best_, prompt_best_, best);
  num_prompt_scores_.store(count + 1, std::memory_order_release);
}

void Job::close(Ending ending) {
  PAGODA_CHECK(!ended_.load(std::memory_order_relaxed), "a job ends once");
  ending.submitted = submitted_;
  ending_ = std::move(ending);
  ended_.store(true, std::memory_order_release);
}

bool Job::ask_to_end(FinishReason reason) {
  FinishReason none = FinishReason::kNone;
  return asked_.compare_exchange_strong(none, reason, std::memory_order_acq_rel);
}

}  // namespace pagoda::engine
