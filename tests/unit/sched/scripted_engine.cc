#include "unit/sched/scripted_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sched/check_batch.h"

namespace pagoda::sched {

namespace {

std::uint64_t follow(std::uint64_t before, std::int32_t id) {
  std::uint64_t digest = (before ^ static_cast<std::uint64_t>(id + 7)) * 0x9e3779b97f4a7c15u;
  return digest ^ (digest >> 31);
}

std::int32_t draw(std::uint64_t digest) { return static_cast<std::int32_t>(digest % kVocabulary); }

kv::KvCache make_cache(std::vector<kv::GroupConfig> groups) {
  return kv::KvCache::create({.groups = std::move(groups), .model_id = "scripted", .salt = "fixed"}).value();
}

}  // namespace

Ids solo(const Ids& prompt, std::int64_t count) {
  std::uint64_t digest = 0;
  for (const std::int32_t id : prompt) digest = follow(digest, id);
  Ids output;
  while (std::ssize(output) < count) {
    output.push_back(draw(digest));
    digest = follow(digest, output.back());
  }
  return output;
}

Ids prompt_of(std::int64_t length, std::int64_t shared, std::int32_t family) {
  static std::int32_t unique = 0;
  ++unique;
  Ids ids(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t id = i < shared ? i * 5 + family : i * 3 + unique + i / 7 * unique;
    ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id % kVocabulary);
  }
  return ids;
}

ScriptedEngine::ScriptedEngine(Limits limits, std::vector<kv::GroupConfig> groups)
    : cache(make_cache(std::move(groups))),
      scheduler(Scheduler::create(limits, cache).value()),
      last_id_(static_cast<std::size_t>(limits.max_running)),
      most_live_(cache.groups().size()) {
  for (const kv::GroupConfig& group : cache.groups()) {
    pages_.emplace_back(static_cast<std::size_t>(group.block_count * group.block_size));
  }
}

SequenceId ScriptedEngine::add(Request request) {
  Ids prompt = request.prompt;
  const Result<SequenceId> id = scheduler.add(std::move(request));
  EXPECT_TRUE(id.ok()) << id.error().message;
  told[*id].prompt = std::move(prompt);
  return *id;
}

bool ScriptedEngine::step() {
  while (const Batch* batch = scheduler.next()) launch(*batch);
  if (in_flight_.empty()) return false;
  const std::int64_t step = in_flight_.front();
  for (const Outcome& outcome : scheduler.complete(step, running_.front().drawn)) {
    Told& one = told[outcome.sequence];
    EXPECT_EQ(one.finish, FinishReason::kNone) << "sequence " << outcome.sequence << " ended before";
    if (outcome.id != kNoToken) {
      one.output.push_back(outcome.id);
      if (one.output.size() == 1) one.first_id_step = step;
    }
    one.finish = outcome.finish;
    one.usage = outcome.usage;
  }
  in_flight_.pop_front();
  running_.pop_front();
  check_blocks_in_flight();
  return true;
}

void ScriptedEngine::launch(const Batch& batch) {
  last_batch = &batch;
  last_tokens = std::ssize(batch.tokens);
  ++steps_;
  check_step(batch);
  in_flight_.push_back(batch.step);
  running_.push_back({&batch, {}});
  for (std::size_t row = 0; row < batch.rows.size(); ++row) {
    check_row(batch, row);
    const std::int32_t id = run_row(batch, row);
    if (batch.rows[row].wants_id) running_.back().drawn.push_back(id);
  }
  check_blocks_in_flight();
  if (steps_ % 8 == 0) cache.verify();
  for (std::size_t g = 0; g < pages_.size(); ++g) most_live_[g] = std::max(most_live_[g], cache.pool(g).live());
}

void ScriptedEngine::check_step(const Batch& batch) {
  const Limits& limits = scheduler.limits();
  const Status status = check(batch, cache.groups(),
                              {.max_rows = limits.max_running,
                               .max_tokens = limits.token_budget,
                               .max_blocks = limits.context / cache.block_size() + 1});
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (const Admission& admission : batch.admitted) {
    Told& one = told[admission.sequence];
    EXPECT_EQ(admission.resumed, one.next_position > 0 || one.resumes > 0);
    one.next_position = admission.cached_tokens;
    one.resumes += admission.resumed;
    one.last_step = batch.step - 1;
    EXPECT_LT(admission.cached_tokens, std::ssize(one.prompt) + std::ssize(one.output));
  }
}

/// Each token once and in order; nobody but its owner holds a block that is written (CASES F1).
void ScriptedEngine::check_row(const Batch& batch, std::size_t index) {
  const Row& row = batch.rows[index];
  Told& one = told[row.sequence];
  EXPECT_EQ(row.start, one.next_position) << "sequence " << row.sequence << " in step " << batch.step;
  EXPECT_LE(row.count, scheduler.limits().max_row_tokens());
  one.next_position = row.end();
  if (one.first_step == 0) one.first_step = batch.step;
  one.longest_gap = std::max(one.longest_gap, batch.step - one.last_step);
  one.last_step = batch.step;
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    for (const std::int64_t slot : batch.write_slots(row, g)) {
      const auto block = static_cast<kv::BlockId>(slot / cache.block_size());
      EXPECT_EQ(cache.pool(g).references(block), 1u) << "step " << batch.step << " writes a shared block";
    }
  }
  if (row.want != Want::kPromptLogprobs) return;
  EXPECT_EQ(row.start + row.want_from, one.logprobs_answered);
  one.logprobs_answered = row.start + row.want_to;
  for (std::int32_t i = row.want_from; i < row.want_to; ++i) {
    EXPECT_EQ(batch.targets[static_cast<std::size_t>(row.token_offset + i)],
              one.prompt[static_cast<std::size_t>(row.start + i + 1)]);
  }
}

std::uint64_t& ScriptedEngine::page(const Batch& batch, std::size_t row, std::size_t group, std::int64_t position) {
  const std::int32_t size = cache.block_size();
  const kv::BlockId block = batch.block_table(row, group)[static_cast<std::size_t>(position / size)];
  EXPECT_NE(block, kv::kNoBlock) << "group " << group << " lost position " << position;
  return pages_[group][static_cast<std::size_t>(kv::slot_index(block < 0 ? 0 : block, size, position))];
}

std::int32_t ScriptedEngine::run_row(const Batch& batch, std::size_t index) {
  const Row& row = batch.rows[index];
  std::uint64_t digest = 0;
  for (std::int64_t i = 0; i < row.count; ++i) {
    const std::int64_t position = row.start + i;
    std::int32_t id = batch.row_tokens(row)[static_cast<std::size_t>(i)];
    if (i == 0 && row.first_id_on_device) {
      EXPECT_EQ(id, kNoToken);
      id = last_id_[static_cast<std::size_t>(row.slot)];
      ++on_device_rows_;
    }
    digest = follow(position == 0 ? 0 : page(batch, index, 0, position - 1), id);
    for (std::size_t g = 0; g < pages_.size(); ++g) page(batch, index, g, position) = digest;
    for (std::size_t g = 1; g < pages_.size(); ++g) {  // all that the query sees (CASES E4)
      const std::int64_t window = cache.groups()[g].window;
      const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
      for (std::int64_t p = first; p <= position; ++p) {
        EXPECT_EQ(page(batch, index, g, p), page(batch, index, 0, p)) << "group " << g << ", position " << p;
      }
    }
  }
  last_id_[static_cast<std::size_t>(row.slot)] = draw(digest);
  return draw(digest);
}

/// What a step in flight names is held by somebody, and no slot is given twice.
void ScriptedEngine::check_blocks_in_flight() const {
  std::map<std::int32_t, SequenceId> owners;
  for (const Running& running : running_) {
    for (const Row& row : running.batch->rows) {
      EXPECT_EQ(owners.try_emplace(row.slot, row.sequence).first->second, row.sequence) << "slot " << row.slot;
    }
    for (std::size_t g = 0; g < pages_.size(); ++g) {
      for (const kv::BlockId block : running.batch->groups[g].block_tables) {
        EXPECT_TRUE(block == kv::kNoBlock || cache.pool(g).references(block) > 0) << "block " << block;
      }
    }
  }
}

void ScriptedEngine::expect_idle() {
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.next(), nullptr);
  for (const kv::GroupUsage& usage : cache.stats().groups) {
    EXPECT_EQ(usage.live, 0);
    EXPECT_EQ(usage.free + usage.cached, usage.total);
  }
  EXPECT_EQ(cache.stats().sequences, 0);
  cache.verify();
}

void ScriptedEngine::expect_solo_outputs() {
  for (const auto& [id, one] : told) {
    EXPECT_EQ(one.output, solo(one.prompt, std::ssize(one.output))) << "sequence " << id;
    if (one.finish == FinishReason::kNone) continue;
    EXPECT_EQ(one.usage.prompt_tokens, std::ssize(one.prompt));
    EXPECT_EQ(one.usage.completion_tokens, std::ssize(one.output));
  }
}

}  // namespace pagoda::sched
