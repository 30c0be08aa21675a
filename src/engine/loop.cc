// The engine's thread: take what came in, compose and run a step, hand out what it brought.
#include <exception>
#include <new>

#include "base/check.h"
#include "engine/engine.h"

namespace pagoda::engine {
namespace {

constexpr auto kPublishEvery = std::chrono::milliseconds(20);

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

/// One of the places where exceptions end: what memory or a third party throws becomes the error of every job.
void Engine::loop() {
  try {
    while (step()) {
    }
    while (!dead_ && !in_flight_.empty()) finish_step();
    close_all(FinishReason::kCancelled, fail(ErrorCode::kCancelled, "the model was closed"));
  } catch (const std::bad_alloc&) {
    die(out_of_memory());
  } catch (const std::exception& exception) {
    die(fail(ErrorCode::kInternal, "the engine stopped: {}", exception.what()));
  }
}

/// False when the thread is to end.
bool Engine::step() {
  if (attention_.load(std::memory_order_acquire) && !take_in(active_.empty())) return false;
  if (dead_) {
    flush_closed();
    sleep();
    return true;
  }
  if (next_deadline_ && Clock::now() >= *next_deadline_) end_overdue();
  start_steps();
  const bool worked = !in_flight_.empty();
  if (worked) finish_step();
  flush_closed();
  if (!followers_.empty()) release_followers();
  if (!worked) wait_for_work();
  return true;
}

void Engine::start_steps() {
  while (std::ssize(in_flight_) < options_.limits.steps_in_flight) {
    const sched::Batch* batch = scheduler_->next();
    if (batch == nullptr) return;
    const Clock::time_point now = Clock::now();
    for (const sched::Admission& admission : batch->admitted) set_slot(admission);
    for (const sched::Row& row : batch->rows) {
      Active* const active = owner_of(row);
      if (active != nullptr && active->ending.started == Clock::time_point{}) {
        active->ending.started = now;
        counts_.queue_s.add(seconds_between(active->job->submitted(), now));
      }
    }
    // Memory that a step finds missing is that step's error, and not the engine's end.
    const Status submitted = or_out_of_memory([&] { return runner_->submit(*batch); });
    in_flight_.push_back({.batch = batch, .begun = now, .error = {}});
    if (!submitted.ok()) in_flight_.back().error = submitted.error();
  }
}

/// Null if the row's sequence has ended meanwhile.
Engine::Active* Engine::owner_of(const sched::Row& row) {
  Active* const active = by_slot_[static_cast<std::size_t>(row.slot)];
  return active != nullptr && active->sequence == row.sequence ? active : nullptr;
}

void Engine::set_slot(const sched::Admission& admission) {
  const auto entry = active_.find(admission.sequence);
  if (entry == active_.end()) return;  // it ended before it got its first row
  Active& active = entry->second;
  leave_slot(active);
  active.slot = admission.slot;
  by_slot_[static_cast<std::size_t>(admission.slot)] = &active;
  char& set = slot_set_[static_cast<std::size_t>(admission.slot)];
  if (set != 0) runner_->clear_slot(admission.slot);
  set = 1;
  const sched::Sequence* sequence = scheduler_->find(admission.sequence);
  PAGODA_CHECK(sequence != nullptr, "sequence {}", admission.sequence);
  const Submission& wanted = active.job->submission();
  const Status status = runner_->set_slot(admission.slot, {.sampling = &wanted.sampling,
                                                           .seed = wanted.seed,
                                                           .choice = wanted.choice,
                                                           .tokens = sequence->tokens,
                                                           .prompt_tokens = sequence->prompt_tokens,
                                                           .end_ids = wanted.stop_ids,
                                                           .prompt_best = wanted.prompt_best.value_or(0)});
  if (status.ok()) return;
  // A lost device fails the step as well, and that ends every job.
  if (kind_of(status.error().code) == ErrorKind::kDevice) return;
  // The step is composed already: the row runs with defaults, and its result is dropped.
  const SamplingParams defaults;
  const Status plain = runner_->set_slot(
      admission.slot,
      {.sampling = &defaults, .tokens = sequence->tokens, .prompt_tokens = sequence->prompt_tokens, .end_ids = {}});
  PAGODA_CHECK(plain.ok(), "the runner refuses default parameters: {}", plain.error().message);
  stop_sequence(active, FinishReason::kError, status.error());
}

void Engine::finish_step() {
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  const std::int64_t number = step.batch->step;
  note_progress();
  if (step.error) return abandon_step(*step.batch, *step.error);
  const Result<runtime::StepResult> fetched = or_out_of_memory([&] { return runner_->fetch(); });
  note_progress();
  if (!fetched.ok()) return abandon_step(*step.batch, fetched.error());
  count_step(step, Clock::now());
  PAGODA_CHECK(fetched->step == number && fetched->rows.size() == step.batch->rows.size(), "step {} of {} rows, not {}",
               fetched->step, fetched->rows.size(), number);
  read_results(*step.batch, fetched->rows);
  take_outcomes(*step.batch, fetched->rows, scheduler_->complete(number, ids_));
  if (options_.verify_cache) cache_.verify();
}

void Engine::count_step(const StepInFlight& step, Clock::time_point now) {
  counts_.step_s.add(seconds_between(std::max(step.begun, step_ended_), now));
  counts_.step_rows.add(static_cast<double>(step.batch->rows.size()));
  counts_.step_tokens.add(static_cast<double>(step.batch->tokens.size()));
  step_ended_ = now;
}

/// Before the step is completed: collects the ids, hands out what prompts asked for, ends sequences whose logits are no
/// numbers.
void Engine::read_results(const sched::Batch& batch, std::span<const runtime::RowResult> results) {
  ids_.clear();
  for (std::size_t r = 0; r < results.size(); ++r) {
    const sched::Row& row = batch.rows[r];
    const runtime::RowResult& result = results[r];
    if (row.wants_id) ids_.push_back(result.non_finite ? sched::kNoToken : result.id);
    if (!result.non_finite && row.want == sched::Want::kNothing) continue;
    Active* const active = owner_of(row);
    if (active == nullptr) continue;
    if (result.non_finite) {
      ++counts_.non_finite_rows;
      stop_sequence(
          *active, FinishReason::kError,
          fail(ErrorCode::kNonFiniteLogits, "the model's logits at position {} are not finite", row.end() - 1));
    } else {
      read_prompt(row, result, *active);
    }
  }
}

void Engine::read_prompt(const sched::Row& row, const runtime::RowResult& result, Active& active) {
  Job& job = *active.job;
  const Submission& wanted = job.submission();
  const std::int64_t prompt = std::ssize(wanted.prompt);
  const std::int64_t first = row.start + row.want_from;
  if (row.want == sched::Want::kLogits) {
    const auto vocab = static_cast<std::size_t>(vocab_);
    const std::int64_t count = std::ssize(result.logits) / vocab_;
    for (std::int64_t i = 0; i < count && first + i < prompt; ++i) {
      if (first + i < active.logits_given) continue;  // it was preempted, and computes them again
      ++active.logits_given;
      if (wanted.on_logits(first + i, result.logits.subspan(static_cast<std::size_t>(i) * vocab, vocab))) continue;
      return stop_sequence(active, FinishReason::kCancelled, fail(ErrorCode::kCancelled, "the reader wants no more"));
    }
    return;
  }
  const auto best = static_cast<std::size_t>(wanted.prompt_best.value_or(0));
  for (std::int64_t i = 0; i < std::ssize(result.target_logprobs) && first + i + 1 < prompt; ++i) {
    if (first + i < job.num_prompt_scores()) continue;
    const auto at = static_cast<std::size_t>(i);
    job.push_prompt_score(result.target_logprobs[at], result.target_best.subspan(at * best, best));
  }
  job.notify();
}

void Engine::take_outcomes(const sched::Batch& batch, std::span<const runtime::RowResult> results,
                           std::span<const sched::Outcome> outcomes) {
  const Clock::time_point now = Clock::now();
  for (const sched::Outcome& outcome : outcomes) {
    const auto row = static_cast<std::size_t>(outcome.row);
    Active* const active = owner_of(batch.rows[row]);
    PAGODA_CHECK(active != nullptr, "an outcome for sequence {}, which has ended", outcome.sequence);
    active->ending.usage = outcome.usage;
    if (outcome.id != sched::kNoToken) take_id(*active, results[row], now);
    if (outcome.finish != FinishReason::kNone) {
      retire(*active, outcome.finish, {});
    } else if (outcome.id != sched::kNoToken) {
      active->job->notify();
    }
  }
}

void Engine::take_id(Active& active, const runtime::RowResult& result, Clock::time_point now) {
  Job& job = *active.job;
  job.push(result.id, result.logprob, result.best);
  if (active.ending.first_id == Clock::time_point{}) {
    active.ending.first_id = now;
    counts_.first_id_s.add(seconds_between(job.submitted(), now));
  } else {
    counts_.between_ids_s.add(seconds_between(active.ending.last_id, now));
  }
  active.ending.last_id = now;
  ++counts_.ids;
  if (job.submission().on_id) job.submission().on_id();
}

/// A step that failed ends its own sequences; a lost device ends everything.
void Engine::abandon_step(const sched::Batch& batch, const Error& error) {
  for (const sched::Outcome& outcome : scheduler_->abandon(batch.step)) {
    Active* const active = owner_of(batch.rows[static_cast<std::size_t>(outcome.row)]);
    if (active == nullptr) continue;
    active->ending.usage = outcome.usage;
    retire(*active, FinishReason::kError, error);
  }
  if (kind_of(error.code) == ErrorKind::kDevice) die(error);
}

void Engine::wait_for_work() {
  if (!scheduler_->idle()) {  // requests wait for blocks that a step's end will bring
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return;
  }
  for (std::size_t slot = 0; slot < slot_set_.size(); ++slot) {
    if (slot_set_[slot] != 0) runner_->clear_slot(static_cast<std::int32_t>(slot));
    slot_set_[slot] = 0;
  }
  publish();
  sleep();
}

void Engine::sleep() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return attention_.load(std::memory_order_acquire); });
}

void Engine::flush_closed() {
  if (!closed_.empty() || Clock::now() - published_at_ >= kPublishEvery) publish();
  for (Active& active : closed_) {
    pending_.fetch_sub(1, std::memory_order_relaxed);
    active.job->close(std::move(active.ending));
    active.job->notify();
  }
  closed_.clear();
}

}  // namespace pagoda::engine
