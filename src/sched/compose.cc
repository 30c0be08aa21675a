// How a step is put together: who gets how many tokens of it.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace pagoda::sched {

void Scheduler::compose(Step& step) {
  step.batch.clear();
  step.batch.step = next_step_;
  step.owners.clear();
  std::int64_t budget = limits_.token_budget;
  const std::int64_t quantum = std::min(limits_.token_budget, limits_.prefill_chunk);
  if (candidates(true).empty()) last_prefill_step_ = next_step_ - 1;
  const bool prefill_first = next_step_ - last_prefill_step_ > limits_.decode_burst;
  if (prefill_first) add_prefills(step, quantum, budget);
  add_decodes(step, budget);
  admit();
  add_decodes(step, budget);  // newcomers that have but one token to compute
  if (prefill_first) return;
  const std::int64_t used = std::ssize(step.batch.tokens);
  add_prefills(step, in_tiles(used, used == 0 ? budget : std::min(quantum, budget)), budget);
}

/// So many of `more` tokens beside `used` ones that together they fill tiles; all of them if that took half and more of
/// them away.
std::int64_t Scheduler::in_tiles(std::int64_t used, std::int64_t more) const {
  const std::int64_t fit = (used + more) / limits_.token_tile * limits_.token_tile - used;
  return fit > more / 2 ? fit : more;
}

/// A sequence that could have a row of this step and has none yet.
bool Scheduler::able(const Sequence& sequence) const {
  return sequence.slot >= 0 && !sequence.ended() && sequence.last_step != next_step_ && sequence.ready() > 0 &&
         !sequence.all_drawn();
}

/// All that are able to, in the order in which they are served. Decodes: whoever waited longest first. Prefills: the
/// eldest, then by priority and by what is left to compute. Valid until the next call.
std::span<Sequence* const> Scheduler::candidates(bool prefilling) {
  candidates_.clear();
  for (const SequencePtr& sequence : running_) {
    if (able(*sequence) && sequence->prefilling() == prefilling) candidates_.push_back(sequence.get());
  }
  if (!prefilling) {
    std::ranges::sort(candidates_, [](const Sequence* a, const Sequence* b) {
      return a->last_step != b->last_step ? a->last_step < b->last_step : goes_before(*a, *b);
    });
  } else if (!candidates_.empty()) {  // those that run are in order: the eldest is in front
    std::sort(candidates_.begin() + 1, candidates_.end(), [](const Sequence* a, const Sequence* b) {
      const bool differ = a->request.priority == b->request.priority && a->ready() != b->ready();
      return differ ? a->ready() < b->ready() : goes_before(*a, *b);
    });
  }
  return candidates_;
}

void Scheduler::add_decodes(Step& step, std::int64_t& budget) {
  for (Sequence* sequence : candidates(false)) {
    if (budget == 0) return;
    if (able(*sequence) && add_row(step, *sequence, 1)) --budget;
  }
}

/// The eldest of the highest priority gets half of the quantum, and what others of that priority do not need; they come
/// shortest rest first. So a short prompt is answered soon beside a long one, which goes on all the same; equal ones
/// are computed one after the other, in large chunks, not all at once in small ones; and everybody is the eldest one
/// day.
void Scheduler::add_prefills(Step& step, std::int64_t quantum, std::int64_t& budget) {
  const std::span<Sequence* const> rows = candidates(true);
  const std::int64_t chunk = limits_.prefill_chunk;
  std::int64_t others = 0;
  for (const Sequence* sequence : rows) {
    const bool equal = sequence != rows.front() && sequence->request.priority == rows.front()->request.priority;
    if (equal) others += std::min(sequence->ready(), chunk);
  }
  std::int64_t most = std::max(ceil_div<std::int64_t>(quantum, 2), quantum - others);
  // Where tiles count, what is left of a prompt is no step of its own as long as others go on.
  const bool absorbs = limits_.token_tile == 1 || rows.size() == 1;
  for (Sequence* sequence : rows) {
    const std::int64_t left = sequence->ready();
    std::int64_t count = std::min({left, most, chunk});
    if (count > 0 && left - count <= limits_.absorbed_tokens() && left <= budget && absorbs) count = left;
    if (count > 0 && able(*sequence) && add_row(step, *sequence, count)) {  // not able: preempted for another
      quantum = std::max<std::int64_t>(quantum - count, 0);
      budget -= count;
      last_prefill_step_ = next_step_;
    }
    most = quantum;
  }
}

bool Scheduler::add_row(Step& step, Sequence& sequence, std::int64_t count) {
  if (!make_room(sequence, count)) return false;
  Batch& batch = step.batch;
  Row row{.slot = sequence.slot,
          .sequence = sequence.id,
          .start = sequence.scheduled,
          .count = static_cast<std::int32_t>(count),
          .token_offset = std::ssize(batch.tokens)};
  const std::int64_t expected = sequence.known() + sequence.drawing;
  row.wants_id = row.end() == expected && expected < sequence.max_tokens;
  row.first_id_on_device = row.start >= sequence.known();
  want_of_prompt(sequence, row);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::size_t>(row.start + i);
    const bool scored = row.want == Want::kPromptLogprobs && i >= row.want_from && i < row.want_to;
    batch.tokens.push_back(row.first_id_on_device ? kNoToken : sequence.tokens[position]);
    batch.targets.push_back(scored ? sequence.tokens[position + 1] : kNoToken);
  }
  for (std::size_t g = 0; g < batch.groups.size(); ++g) {
    add_pages(batch.groups[g], g, sequence.cache.table(g), row);
  }
  batch.rows.push_back(row);
  step.owners.push_back(&sequence);
  sequence.scheduled = row.end();
  sequence.drawing += row.wants_id;
  sequence.last_step = next_step_;
  ++sequence.steps_in_flight;
  return true;
}

/// The part of the row's tokens that are of the prompt and were not answered before a preemption. The last token of a
/// prompt is followed by output: no log-probability of the prompt is drawn from it.
void Scheduler::want_of_prompt(const Sequence& sequence, Row& row) {
  if (sequence.request.prompt_want == Want::kNothing) return;
  const bool followed = sequence.request.prompt_want == Want::kPromptLogprobs;
  const std::int64_t from = std::max(row.start, sequence.answered);
  const std::int64_t to = std::min(row.end(), sequence.prompt_tokens - (followed ? 1 : 0));
  if (from >= to) return;
  row.want = sequence.request.prompt_want;
  row.want_from = static_cast<std::int32_t>(from - row.start);
  row.want_to = static_cast<std::int32_t>(to - row.start);
}

/// Names only blocks that the row's queries see: those before them may return while the step is in flight.
void Scheduler::add_pages(Batch::Group& group, std::size_t index, const kv::BlockTable& table, const Row& row) {
  const kv::GroupConfig& config = cache_->groups()[index];
  const std::span<const kv::BlockId> blocks = table.blocks();
  const auto unseen = static_cast<std::size_t>(config.first_needed_block(row.start));
  group.block_tables.insert(group.block_tables.end(), unseen, kv::kNoBlock);
  group.block_tables.insert(group.block_tables.end(), blocks.begin() + static_cast<std::ptrdiff_t>(unseen),
                            blocks.end());
  group.table_begin.push_back(std::ssize(group.block_tables));
  const Status planned = write_plan_.assign(static_cast<std::int32_t>(index), table, row.start, row.count);
  PAGODA_CHECK(planned.ok(), "{}", planned.error().message);
  PAGODA_CHECK(write_plan_.written_tokens() == row.count, "{} of {} tokens from {} on have a place",
               write_plan_.written_tokens(), row.count, row.start);
  write_plan_.append_slots(group.write_slots);
}

/// A place for `count` more tokens, at the cost of juniors if it must be. Without juniors that no step names, the
/// sequence sits this step out: elders end and give back, or take from it what they need.
bool Scheduler::make_room(Sequence& sequence, std::int64_t count) {
  for (;;) {
    const Status extended = cache_->extend(sequence.cache, count);
    if (extended.ok()) return true;
    PAGODA_CHECK(extended.error().code == ErrorCode::kCachePressure, "{}", extended.error().message);
    const auto junior = std::find_if(running_.rbegin(), running_.rend(), [&](const SequencePtr& other) {
      return other->steps_in_flight == 0 && goes_before(sequence, *other);
    });
    if (junior == running_.rend()) return false;
    preempt(**junior);
  }
}

void Scheduler::preempt(Sequence& sequence) {
  std::erase_if(admitted_, [&](const Admission& admission) { return admission.sequence == sequence.id; });
  SequencePtr owned = stop_running(sequence);
  sequence.scheduled = sequence.computed = 0;
  ++sequence.preemptions;
  ++stats_.preemptions;
  enqueue(std::move(owned));
}

void Scheduler::admit() {
  while (!waiting_.empty() && !free_slots_.empty() && !head_waits_for_blocks_) head_waits_for_blocks_ = !admit_first();
}

bool Scheduler::admit_first() {
  Sequence& sequence = *waiting_.front();
  sequence.tokens.reserve(static_cast<std::size_t>(sequence.max_tokens));  // before there is anything to give back
  const kv::OpenRequest request{
      .ids = sequence.tokens,
      .cache_salt = sequence.request.cache_salt,
      .reuse = sequence.request.cache_prompt &&
               (sequence.request.prompt_want == Want::kNothing || sequence.answered == sequence.prompt_tokens),
      .publish = sequence.request.cache_prompt,
      .room_tokens = std::min<std::int64_t>(1, sequence.max_tokens - sequence.known()),
      .most_tokens = sequence.max_tokens,
      .step_tokens = step_tokens(true),
      .headroom_blocks = promised_blocks()};
  Result<kv::CachedSequence> opened = cache_->open(request);
  if (!opened.ok()) {
    PAGODA_CHECK(opened.error().code == ErrorCode::kCachePressure && !running_.empty(), "alone: {}",
                 opened.error().message);
    return false;
  }
  sequence.cache = std::move(opened).value();
  sequence.scheduled = sequence.computed = sequence.cache.token_len();
  if (sequence.preemptions == 0) sequence.cached_tokens = sequence.scheduled;
  sequence.last_step = next_step_ - 1;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  admitted_.push_back({.slot = sequence.slot,
                       .sequence = sequence.id,
                       .request = sequence.request.id,
                       .choice = sequence.request.choice,
                       .prompt_tokens = sequence.prompt_tokens,
                       .cached_tokens = sequence.scheduled,
                       .resumed = sequence.preemptions > 0});
  SequencePtr owned = std::move(waiting_.front());
  waiting_.pop_front();
  start_running(std::move(owned));
  return true;
}

/// What the running sequences have yet to take for what is known of them and a block beyond, in each group: a newcomer
/// must leave it to them, or it would soon be preempted.
std::span<const std::int64_t> Scheduler::promised_blocks() {
  std::ranges::fill(promised_, 0);
  for (const SequencePtr& sequence : running_) {
    if (sequence->ended()) continue;
    const std::int64_t tokens = std::min(sequence->max_tokens, sequence->known() + cache_->block_size());
    for (std::size_t g = 0; g < promised_.size(); ++g) {
      promised_[g] += cache_->outstanding_blocks(sequence->cache, g, tokens, step_tokens(sequence->prefilling()));
    }
  }
  return promised_;
}

}  // namespace pagoda::sched
