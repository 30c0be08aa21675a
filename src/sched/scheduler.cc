#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda::sched {

namespace {

Status check_limits(const Limits& limits) {
  const auto in_range = [](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) -> Status {
    if (value >= least && value <= most) return Ok{};
    return fail(ErrorCode::kInvalidArgument, "{} is {}; {} to {}", name, value, least, most);
  };
  constexpr std::int64_t kMost = 1 << 30;
  PAGODA_TRY(in_range("context", limits.context, 1, kMost));
  PAGODA_TRY(in_range("max_running", limits.max_running, 1, kMost));
  PAGODA_TRY(in_range("max_queued", limits.max_queued, 0, kMost));
  PAGODA_TRY(in_range("token_budget", limits.token_budget, 1, kMost));
  PAGODA_TRY(in_range("prefill_chunk", limits.prefill_chunk, 1, kMost));
  PAGODA_TRY(in_range("decode_burst", limits.decode_burst, 1, kMost));
  PAGODA_TRY(in_range("token_tile", limits.token_tile, 1, kMost));
  return in_range("steps_in_flight", limits.steps_in_flight, 1, 2);
}

constexpr auto in_order = [](const auto& a, const auto& b) { return goes_before(*a, *b); };

}  // namespace

Result<Scheduler> Scheduler::create(const Limits& limits, kv::KvCache& cache) {
  PAGODA_TRY(check_limits(limits));
  return Scheduler(limits, cache);
}

Scheduler::Scheduler(const Limits& limits, kv::KvCache& cache) : limits_(limits), cache_(&cache) {
  for (std::int32_t slot = limits.max_running; slot-- > 0;) free_slots_.push_back(slot);
  steps_.resize(static_cast<std::size_t>(limits.steps_in_flight));
  const auto rows = static_cast<std::size_t>(limits.max_running);
  const std::int64_t row_blocks = ceil_div<std::int64_t>(limits.context, cache.block_size());
  for (Step& step : steps_) {
    step.batch.groups.resize(cache.groups().size());
    step.batch.reserve(limits.max_running, limits.token_budget, limits.max_running * row_blocks);
    step.owners.reserve(rows);
  }
  running_.reserve(rows);
  outcomes_.reserve(rows);
  admitted_.reserve(rows);
  candidates_.reserve(rows);
  write_plan_.reserve(ceil_div<std::int64_t>(limits.token_budget, cache.block_size()) +
                      1);  // a row may begin in a page
  promised_.resize(cache.groups().size());
}

Scheduler::~Scheduler() {
  for (const SequencePtr& sequence : running_) cache_->release(sequence->cache);
}

std::int64_t Scheduler::step_tokens(bool prefilling) const {
  return static_cast<std::int64_t>(prefilling ? limits_.max_row_tokens() : 1) * limits_.steps_in_flight;
}

std::int64_t Scheduler::most_tokens() const {
  return std::min(limits_.context, cache_->capacity_tokens(step_tokens(true)));
}

Result<SequenceId> Scheduler::add(Request request) {
  const Status accepted = check_request(request);
  if (!accepted.ok()) {
    ++stats_.refused;
    return accepted.error();
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_sequence_++;
  sequence->tokens = std::move(request.prompt);
  sequence->prompt_tokens = sequence->known();
  sequence->max_tokens = sequence->known() + std::min(request.max_new_tokens, limits_.context - sequence->known());
  sequence->request = std::move(request);
  const SequenceId id = sequence->id;
  enqueue(std::move(sequence));
  return id;
}

Status Scheduler::check_request(const Request& request) const {
  const std::int64_t prompt = std::ssize(request.prompt);
  if (prompt == 0) return fail_param(ErrorCode::kEmptyPrompt, "prompt", "the prompt has no tokens");
  if (request.max_new_tokens < 0) {
    return fail_param(ErrorCode::kInvalidArgument, "max_tokens", "max_tokens is {}; at least 0",
                      request.max_new_tokens);
  }
  if (prompt > limits_.context) {
    return fail_param(ErrorCode::kPromptTooLong, "prompt", "the prompt has {} tokens, the context holds {}", prompt,
                      limits_.context);
  }
  PAGODA_TRY(
      cache_->check_capacity(prompt + std::min(request.max_new_tokens, limits_.context - prompt), step_tokens(true)));
  // Until the next step even those wait that will run at once: what counts is all that is here.
  const std::int64_t here = std::ssize(running_) + std::ssize(waiting_);
  const std::int64_t most = std::int64_t{limits_.max_running} + limits_.max_queued;
  if (here >= most) {
    return fail(ErrorCode::kQueueFull, "{} requests run or wait, and no more than {} may", here, most);
  }
  return Ok{};
}

void Scheduler::enqueue(SequencePtr sequence) {
  const auto place = std::ranges::upper_bound(waiting_, sequence, in_order);
  waiting_.insert(place, std::move(sequence));
  head_waits_for_blocks_ = false;
}

void Scheduler::start_running(SequencePtr sequence) {
  const auto place = std::ranges::upper_bound(running_, sequence, in_order);
  running_.insert(place, std::move(sequence));
}

Scheduler::SequencePtr Scheduler::stop_running(Sequence& sequence) {
  PAGODA_CHECK(sequence.steps_in_flight == 0, "sequence {} is in {} steps", sequence.id, sequence.steps_in_flight);
  const auto place = std::ranges::find(running_, &sequence, &SequencePtr::get);
  PAGODA_CHECK(place != running_.end(), "sequence {} does not run", sequence.id);
  SequencePtr owned = std::move(*place);
  running_.erase(place);
  cache_->release(owned->cache);
  free_slots_.push_back(std::exchange(owned->slot, -1));
  head_waits_for_blocks_ = false;
  return owned;
}

const Batch* Scheduler::next() {
  if (next_step_ - oldest_step_ == limits_.steps_in_flight) return nullptr;
  Step& step = steps_[static_cast<std::size_t>(next_step_ % limits_.steps_in_flight)];
  compose(step);
  if (step.batch.rows.empty()) return nullptr;
  std::swap(step.batch.admitted, admitted_);
  admitted_.clear();
  ++next_step_;
  ++stats_.steps;
  return &step.batch;
}

std::span<const Outcome> Scheduler::complete(std::int64_t step, std::span<const std::int32_t> ids) {
  return close(step, ids, false);
}

std::span<const Outcome> Scheduler::abandon(std::int64_t step) { return close(step, {}, true); }

std::span<const Outcome> Scheduler::close(std::int64_t number, std::span<const std::int32_t> ids, bool failed) {
  PAGODA_CHECK(number == oldest_step_ && number < next_step_, "step {} ends; {} is the oldest, {} the next", number,
               oldest_step_, next_step_);
  Step& step = steps_[static_cast<std::size_t>(number % limits_.steps_in_flight)];
  PAGODA_CHECK(failed || std::ssize(ids) == step.batch.num_ids(), "{} ids for {} rows that want one", ids.size(),
               step.batch.num_ids());
  ++oldest_step_;
  outcomes_.clear();
  std::size_t next_id = 0;
  for (std::size_t i = 0; i < step.owners.size(); ++i) {
    const Row& row = step.batch.rows[i];
    Sequence& sequence = *step.owners[i];
    --sequence.steps_in_flight;
    sequence.drawing -= row.wants_id;
    const std::int32_t id = row.wants_id && !failed ? ids[next_id++] : kNoToken;
    if (!sequence.ended()) {
      if (failed) sequence.finish = FinishReason::kError;
      if (!failed) settle(sequence, row, id);
      report(sequence, i, id);
    }
    if (sequence.ended() && sequence.steps_in_flight == 0) stop_running(sequence);
  }
  return outcomes_;
}

void Scheduler::settle(Sequence& sequence, const Row& row, std::int32_t id) {
  sequence.computed = row.end();
  sequence.answered = std::max(sequence.answered, std::min(sequence.computed, sequence.prompt_tokens));
  cache_->commit(sequence.cache, std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.computed)));
  if (row.count > 1) head_waits_for_blocks_ = false;  // a prefill holds windowed blocks that a decode does not need
  if (id != kNoToken) {
    sequence.tokens.push_back(id);
    ++stats_.new_tokens;
    const std::vector<std::int32_t>& stops = sequence.request.stop_ids;
    if (std::ranges::find(stops, id) != stops.end()) sequence.finish = FinishReason::kStop;
  }
  const bool whole = sequence.known() == sequence.max_tokens && sequence.computed >= sequence.prompt_tokens;
  if (whole && !sequence.ended()) sequence.finish = FinishReason::kLength;
}

void Scheduler::report(const Sequence& sequence, std::size_t row, std::int32_t id) {
  if (sequence.ended()) ++stats_.finished;
  if (id == kNoToken && !sequence.ended()) return;
  outcomes_.push_back({.sequence = sequence.id,
                       .request = sequence.request.id,
                       .choice = sequence.request.choice,
                       .row = static_cast<std::int32_t>(row),
                       .id = id,
                       .finish = sequence.finish,
                       .usage = sequence.usage()});
}

bool Scheduler::finish(SequenceId id, FinishReason reason) {
  PAGODA_CHECK(reason != FinishReason::kNone, "sequence {} ends without a reason", id);
  const auto is_it = [id](const SequencePtr& sequence) { return sequence->id == id; };
  if (const auto queued = std::ranges::find_if(waiting_, is_it); queued != waiting_.end()) {
    waiting_.erase(queued);
    head_waits_for_blocks_ = false;
    ++stats_.cancelled;
    return true;
  }
  const auto running = std::ranges::find_if(running_, is_it);
  if (running == running_.end() || (*running)->ended()) return false;
  (*running)->finish = reason;
  ++stats_.cancelled;
  if ((*running)->steps_in_flight == 0) stop_running(**running);
  return true;
}

const Sequence* Scheduler::find(SequenceId id) const {
  const auto is_it = [id](const SequencePtr& sequence) { return sequence->id == id; };
  if (const auto it = std::ranges::find_if(running_, is_it); it != running_.end()) return it->get();
  const auto it = std::ranges::find_if(waiting_, is_it);
  return it == waiting_.end() ? nullptr : it->get();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.waiting = std::ssize(waiting_);
  stats.running = std::ssize(running_);
  return stats;
}

}  // namespace pagoda::sched
