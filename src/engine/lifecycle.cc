// How jobs come in and go out.
#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"

namespace pagoda::engine {
namespace {

FinishReason wish_of(const Job& job, Clock::time_point) { return job.asked(); }

FinishReason overdue(const Job& job, Clock::time_point now) {
  const auto& deadline = job.submission().deadline;
  return deadline && now >= *deadline ? FinishReason::kError : FinishReason::kNone;
}

sched::Request request_of(const Job& job) {
  const Submission& wanted = job.submission();
  sched::Request request{.prompt = wanted.prompt,
                         .max_new_tokens = job.most_ids(),
                         .stop_ids = wanted.stop_ids,
                         .priority = wanted.priority,
                         .cache_prompt = wanted.cache_prompt,
                         .cache_salt = wanted.cache_salt};
  request.choice = wanted.choice;
  if (wanted.on_logits) {
    request.prompt_want = sched::Want::kLogits;
  } else if (wanted.prompt_best) {
    request.prompt_want = sched::Want::kPromptLogprobs;
  }
  return request;
}

std::optional<Error> error_of(FinishReason reason) {
  if (reason == FinishReason::kCancelled) return fail(ErrorCode::kCancelled, "the request was cancelled");
  if (reason == FinishReason::kError) return fail(ErrorCode::kDeadlineExceeded, "the request's deadline has passed");
  return std::nullopt;
}

}  // namespace

/// Takes what other threads left: requests, wishes. False when the thread is to end. While jobs run it waits for
/// nobody: what a stopped thread keeps locked is taken after the next step.
bool Engine::take_in(bool may_wait) {
  bool stopping = false;
  {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (may_wait) {
      lock.lock();
    } else if (!lock.try_lock()) {
      return true;
    }
    attention_.store(false, std::memory_order_relaxed);
    incoming_.swap(inbox_);
    stopping = stopping_;
  }
  for (Follower& follower : incoming_) {
    ++counts_.accepted;
    const auto& deadline = follower.job->submission().deadline;
    if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
    if (follower.leader == nullptr) {
      add(std::move(follower.job));
    } else {
      followers_.push_back(std::move(follower));
    }
  }
  incoming_.clear();
  end_where(wish_of);
  return !stopping;
}

/// Never throws: a job that memory does not suffice for ends, and no other.
void Engine::add(std::shared_ptr<Job> job) {
  constexpr sched::SequenceId kNoSequence = -1;  // until the scheduler has named it, when nothing may go wrong any more
  const auto sequence = or_out_of_memory([&]() -> Result<sched::SequenceId> {
    active_.emplace(kNoSequence, Active{.job = job});
    return scheduler_->add(request_of(*job));
  });
  auto entry = active_.extract(kNoSequence);
  if (!sequence.ok()) return close_unstarted(std::move(job), FinishReason::kError, sequence.error());
  entry.key() = entry.mapped().sequence = *sequence;
  active_.insert(std::move(entry));
  if (job->submission().choice == 0) counts_.prompt_tokens += std::ssize(job->submission().prompt);
}

/// Ends every job for which `reason` gives one, wherever it stands.
void Engine::end_where(FinishReason (*reason)(const Job& job, Clock::time_point now)) {
  const Clock::time_point now = Clock::now();
  for (auto entry = active_.begin(); entry != active_.end();) {
    Active& active = (entry++)->second;
    const FinishReason finish = reason(*active.job, now);
    if (finish != FinishReason::kNone) stop_sequence(active, finish, error_of(finish));
  }
  std::erase_if(followers_, [&](Follower& follower) {
    const FinishReason finish = reason(*follower.job, now);
    if (finish == FinishReason::kNone) return false;
    std::optional<Error> error = error_of(finish);
    close_unstarted(std::move(follower.job), finish, std::move(error));
    return true;
  });
}

void Engine::end_overdue() {
  end_where(overdue);
  next_deadline_.reset();
  const auto remember = [this](const Job& job) {
    const auto& deadline = job.submission().deadline;
    if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
  };
  for (const auto& [sequence, active] : active_) remember(*active.job);
  for (const Follower& follower : followers_) remember(*follower.job);
}

/// A leader's first id means that its prompt is in the cache.
void Engine::release_followers() {
  std::erase_if(followers_, [this](Follower& follower) {
    if (follower.leader->num_ids() == 0 && !follower.leader->ended()) return false;
    add(std::move(follower.job));
    return true;
  });
}

/// Ends a sequence that the scheduler would go on with.
void Engine::stop_sequence(Active& active, FinishReason reason, std::optional<Error> error) {
  if (const sched::Sequence* sequence = scheduler_->find(active.sequence)) active.ending.usage = sequence->usage();
  scheduler_->finish(active.sequence, reason);
  retire(active, reason, std::move(error));
}

void Engine::leave_slot(Active& active) {
  if (active.slot < 0) return;
  Active*& owner = by_slot_[static_cast<std::size_t>(active.slot)];
  if (owner == &active) owner = nullptr;
  active.slot = -1;
}

void Engine::retire(Active& active, FinishReason reason, std::optional<Error> error) {
  leave_slot(active);
  active.ending.finish = reason;
  active.ending.error = std::move(error);
  count_end(active);
  const sched::SequenceId sequence = active.sequence;
  closed_.push_back(std::move(active));
  active_.erase(sequence);
}

/// Ends a job that the scheduler has never seen.
void Engine::close_unstarted(std::shared_ptr<Job> job, FinishReason reason, std::optional<Error> error) {
  Active active{.job = std::move(job)};
  active.ending.finish = reason;
  active.ending.error = std::move(error);
  count_end(active);
  closed_.push_back(std::move(active));
}

void Engine::count_end(const Active& active) {
  const Ending& ending = active.ending;
  if (active.job->submission().choice == 0) counts_.cached_tokens += ending.usage.cached_tokens;
  if (ending.finish == FinishReason::kCancelled) {
    ++counts_.cancelled;
  } else if (ending.error) {
    const bool overdue = ending.error->code == ErrorCode::kDeadlineExceeded;
    counts_.overdue += overdue ? 1 : 0;
    ++(overdue ? counts_.cancelled : counts_.failed);
  } else {
    ++counts_.finished;
    counts_.stopped += ending.finish == FinishReason::kStop ? 1 : 0;
    counts_.request_s.add(std::chrono::duration<double>(Clock::now() - active.job->submitted()).count());
  }
}

/// The end of everything: no job is left without its last word.
void Engine::close_all(FinishReason reason, const Error& error) {
  while (!active_.empty()) stop_sequence(active_.begin()->second, reason, error);
  {
    const std::scoped_lock lock(mutex_);
    if (!lost_) lost_ = error;  // from now on nothing comes into the inbox
  }
  for (auto* list : {&followers_, &incoming_, &inbox_}) {
    for (Follower& follower : *list) {  // without a job: taken out already
      if (follower.job != nullptr) close_unstarted(std::move(follower.job), reason, error);
    }
    list->clear();
  }
  flush_closed();
}

/// No step can run any more. The scheduler is left as it is: what it holds dies with it.
void Engine::die(Error error) {
  dead_ = true;
  while (!active_.empty()) retire(active_.begin()->second, FinishReason::kError, error);
  close_all(FinishReason::kError, error);
}

}  // namespace pagoda::engine
