#include "engine/engine.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::engine {

Result<std::unique_ptr<Engine>> Engine::start(Options options, std::unique_ptr<runtime::Runner> runner) {
  const runtime::RunnerInfo& info = runner->info();
  if (options.limits.max_running > info.max_slots || options.limits.token_budget > info.max_step_tokens ||
      options.limits.steps_in_flight > info.steps_in_flight || options.limits.context > info.context) {
    return fail(ErrorCode::kInvalidArgument,
                "the engine's limits ({} sequences, {} tokens a step, {} steps in flight, context {}) are over the "
                "runner's ({}, {}, {}, {})",
                options.limits.max_running, options.limits.token_budget, options.limits.steps_in_flight,
                options.limits.context, info.max_slots, info.max_step_tokens, info.steps_in_flight, info.context);
  }
  kv::KvCache cache = PAGODA_TRY(kv::KvCache::create(
      {.groups = info.groups, .keep_prefixes = options.keep_prefixes, .model_id = options.model_id, .salt = {}}));
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(options), std::move(runner), std::move(cache)));
  engine->scheduler_.emplace(PAGODA_TRY(sched::Scheduler::create(engine->options_.limits, engine->cache_)));
  engine->most_tokens_ = engine->scheduler_->most_tokens();
  engine->publish();
  engine->thread_ = std::thread([raw = engine.get()] { raw->loop(); });
  return engine;
}

Engine::Engine(Options options, std::unique_ptr<runtime::Runner> runner, kv::KvCache cache)
    : options_(std::move(options)), runner_(std::move(runner)), cache_(std::move(cache)) {
  vocab_ = runner_->info().vocab;
  const auto rows = static_cast<std::size_t>(options_.limits.max_running);
  in_flight_.reserve(static_cast<std::size_t>(options_.limits.steps_in_flight));
  closed_.reserve(rows + static_cast<std::size_t>(options_.limits.max_queued));
  ids_.reserve(rows);
  by_slot_.resize(rows, nullptr);
  slot_set_.resize(static_cast<std::size_t>(options_.limits.max_running), 0);
}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    attention_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status Engine::check(const Submission& submission) const {
  const std::int64_t prompt = std::ssize(submission.prompt);
  if (prompt == 0) return fail_param(ErrorCode::kEmptyPrompt, "prompt", "the prompt has no tokens");
  if (prompt > most_tokens_ || (prompt == most_tokens_ && submission.max_new_tokens > 0)) {
    return fail_param(ErrorCode::kPromptTooLong, "prompt",
                      "the prompt has {} tokens, and the context of {} has no room for an answer", prompt,
                      most_tokens_);
  }
  return Ok{};
}

Result<std::vector<std::shared_ptr<Job>>> Engine::submit(std::vector<Submission> choices) {
  for (const Submission& choice : choices) PAGODA_TRY(check(choice));
  const auto count = std::ssize(choices);
  const std::int64_t room = std::int64_t{options_.limits.max_running} + options_.limits.max_queued;

  if (count > room) {
    return fail_param(ErrorCode::kInvalidArgument, "n", "n is {}, and no more than {} choices may run or wait", count,
                      room);
  }

  std::vector<std::shared_ptr<Job>> jobs;
  for (Submission& choice : choices) {
    const std::int64_t most = std::min(choice.max_new_tokens, most_tokens_ - std::ssize(choice.prompt));
    jobs.push_back(std::make_shared<Job>(std::move(choice), std::max<std::int64_t>(most, 0)));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return *lost_;
    if (pending_.load(std::memory_order_relaxed) + count > room) {
      return fail(ErrorCode::kQueueFull, "{} requests run or wait, and no more than {} may", pending_.load(), room);
    }
    if (pending_.fetch_add(count, std::memory_order_relaxed) == 0) note_progress();
    for (const auto& job : jobs) inbox_.push_back({.leader = job == jobs[0] ? nullptr : jobs[0], .job = job});
    attention_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  return jobs;
}

void Engine::end(Job& job, FinishReason reason) {
  if (!job.ask_to_end(reason)) return;
  {
    const std::scoped_lock lock(mutex_);  // so that a thread about to sleep does not miss it
    attention_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
}

Snapshot Engine::snapshot() const {
  const std::scoped_lock lock(snapshot_mutex_);
  return published_;
}

Status Engine::health() const {
  const std::scoped_lock lock(mutex_);
  if (lost_) return *lost_;
  return Ok{};
}

void Engine::note_progress() { progress_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); }

Clock::duration Engine::stalled() const {
  if (pending_.load(std::memory_order_relaxed) == 0) return {};
  const Clock::duration got_on(progress_.load(std::memory_order_relaxed));
  return std::max(Clock::now().time_since_epoch() - got_on, Clock::duration::zero());
}

void Engine::publish() {
  published_at_ = Clock::now();
  counts_.scheduler = scheduler_->stats();
  counts_.followers = std::ssize(followers_);
  cache_.read_stats(counts_.cache);
  const std::scoped_lock lock(snapshot_mutex_);
  published_ = counts_;
}

}  // namespace pagoda::engine
