#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/sched/scripted_engine.h"

namespace pagoda::sched {
namespace {

using ::testing::HasSubstr;

std::vector<kv::GroupConfig> one_group(std::int64_t blocks) {
  return {{.name = "full", .block_size = 8, .block_count = blocks}};
}

void expect_refused(ScriptedEngine& engine, Request request, ErrorCode code, const std::string& words) {
  const Result<SequenceId> id = engine.scheduler.add(std::move(request));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, code);
  EXPECT_THAT(id.error().message, HasSubstr(words));
}

TEST(SchedulerTest, LimitsOutOfRangeAreRefusedByName) {
  kv::KvCache cache = kv::KvCache::create({.groups = one_group(9)}).value();
  const auto refused = [&](const Limits& limits) { return Scheduler::create(limits, cache).error().message; };
  EXPECT_THAT(refused({.context = 0}), HasSubstr("context is 0"));
  EXPECT_THAT(refused({.max_running = 0}), HasSubstr("max_running is 0"));
  EXPECT_THAT(refused({.max_queued = -1}), HasSubstr("max_queued is -1"));
  EXPECT_THAT(refused({.token_budget = 0}), HasSubstr("token_budget is 0"));
  EXPECT_THAT(refused({.prefill_chunk = -5}), HasSubstr("prefill_chunk is -5"));
  EXPECT_THAT(refused({.decode_burst = 0}), HasSubstr("decode_burst is 0"));
  EXPECT_THAT(refused({.steps_in_flight = 3}), HasSubstr("steps_in_flight is 3; 1 to 2"));
}

TEST(SchedulerTest, WhatCanNeverRunIsRefusedAtOnce) {
  ScriptedEngine engine({.context = 100, .max_running = 1, .max_queued = 1}, one_group(10));
  expect_refused(engine, {}, ErrorCode::kEmptyPrompt, "no tokens");
  expect_refused(engine, {.prompt = prompt_of(101)}, ErrorCode::kPromptTooLong, "101 tokens, the context holds 100");
  expect_refused(engine, {.prompt = {1}, .max_new_tokens = -1}, ErrorCode::kInvalidArgument, "max_tokens is -1");
  expect_refused(engine, {.prompt = prompt_of(70), .max_new_tokens = 11}, ErrorCode::kCacheCapacity,
                 "81 tokens need 11 blocks of cache group full, which has 10");
  EXPECT_EQ(engine.scheduler.most_tokens(), 80);
  engine.add(prompt_of(70), 10);
  engine.add({1}, 1);
  expect_refused(engine, {.prompt = {1}}, ErrorCode::kQueueFull, "2 requests run or wait, and no more than 2 may");
  EXPECT_EQ(engine.scheduler.stats().refused, 5);
  engine.drain();
  engine.expect_idle();
}

TEST(SchedulerTest, WhatDoesNotFitNowWaits) {
  ScriptedEngine engine({.context = 80}, one_group(10));
  const SequenceId first = engine.add(prompt_of(60), 12);
  const SequenceId second = engine.add(prompt_of(33), 5);
  engine.step();
  EXPECT_NE(engine.scheduler.find(first)->slot, -1);
  EXPECT_EQ(engine.scheduler.find(second)->slot, -1);
  EXPECT_EQ(engine.scheduler.stats().waiting, 1);
  engine.drain();
  EXPECT_GT(engine.told[second].first_step, engine.told[first].last_step);
  engine.expect_solo_outputs();
  engine.expect_idle();
}

// The head of the queue is not passed by, however small those behind it are.
TEST(SchedulerTest, TheHeadOfTheQueueIsNotPassedBy) {
  ScriptedEngine engine({.context = 80}, one_group(10));
  engine.add(prompt_of(40), 20);
  const SequenceId large = engine.add(prompt_of(60), 3);
  const SequenceId small = engine.add(prompt_of(3), 1);
  engine.drain();
  EXPECT_GE(engine.told[small].first_step, engine.told[large].first_step);
}

TEST(SchedulerTest, OutputEndsAtMaxTokensContextOrStopId) {
  ScriptedEngine engine({.context = 50}, one_group(30));
  const Ids prompt = prompt_of(44);
  const SequenceId counted = engine.add(prompt, 4);
  const SequenceId clipped = engine.add(prompt, 400);
  const SequenceId whole = engine.add(prompt_of(50), 400);
  const SequenceId none = engine.add(prompt_of(9), 0);
  const Ids expected = solo(prompt, 5);
  const SequenceId stopped = engine.add({.prompt = prompt, .max_new_tokens = 5, .stop_ids = {-1, expected[2]}});
  engine.drain();
  EXPECT_EQ(engine.told[counted].output, solo(prompt, 4));
  EXPECT_EQ(engine.told[counted].finish, FinishReason::kLength);
  EXPECT_EQ(engine.told[clipped].output.size(), 6u);  // 44 + 6 = 50
  EXPECT_EQ(engine.told[clipped].finish, FinishReason::kLength);
  EXPECT_EQ(engine.told[whole].output.size(), 0u);
  EXPECT_EQ(engine.told[whole].finish, FinishReason::kLength);
  EXPECT_EQ(engine.told[whole].next_position, 50);  // it was computed all the same
  EXPECT_EQ(engine.told[none].finish, FinishReason::kLength);
  const auto first_stop = std::ranges::find(expected, expected[2]) - expected.begin() + 1;
  EXPECT_EQ(engine.told[stopped].output, Ids(expected.begin(), expected.begin() + first_stop));
  EXPECT_EQ(engine.told[stopped].finish, FinishReason::kStop);
  engine.expect_idle();
}

TEST(SchedulerTest, PrefixHitsAreReportedAndStartAnywhere) {
  ScriptedEngine engine({.context = 200}, one_group(60));
  const Ids prompt = prompt_of(48);
  const SequenceId first = engine.add(prompt, 3);
  engine.drain();
  Ids longer = prompt;
  longer.push_back(5);
  const SequenceId same = engine.add(prompt, 3);
  const SequenceId more = engine.add(longer, 3);
  const SequenceId stranger = engine.add({.prompt = longer, .max_new_tokens = 3, .cache_salt = "other"});
  engine.drain();
  EXPECT_EQ(engine.told[first].usage.cached_tokens, 0);
  EXPECT_EQ(engine.told[same].usage.cached_tokens, 40);  // the last whole block is computed again
  EXPECT_EQ(engine.told[more].usage.cached_tokens, 48);
  EXPECT_EQ(engine.told[stranger].usage.cached_tokens, 0);
  engine.expect_solo_outputs();
}

TEST(SchedulerTest, ARequestMayKeepOutOfThePrefixCache) {
  ScriptedEngine engine({.context = 200}, one_group(60));
  const Ids prompt = prompt_of(48);
  engine.add({.prompt = prompt, .max_new_tokens = 3, .cache_prompt = false});
  engine.drain();
  const SequenceId first = engine.add(prompt, 3);  // finds nothing of the one before
  engine.drain();
  const SequenceId alone = engine.add({.prompt = prompt, .max_new_tokens = 3, .cache_prompt = false});
  engine.drain();
  const SequenceId again = engine.add(prompt, 3);
  engine.drain();
  EXPECT_EQ(engine.told[first].usage.cached_tokens, 0);
  EXPECT_EQ(engine.told[alone].usage.cached_tokens, 0);
  EXPECT_EQ(engine.told[again].usage.cached_tokens, 40);
  engine.expect_solo_outputs();
  engine.expect_idle();
}

TEST(SchedulerTest, PromptLogprobsAreWantedOfEachTokenOnceAndTakeNothingFromTheCache) {
  ScriptedEngine engine({.context = 200, .max_running = 4, .token_budget = 40, .prefill_chunk = 16}, one_group(30));
  const Ids prompt = prompt_of(75, 75);
  engine.add(prompt, 1);
  engine.drain();
  const SequenceId scored = engine.add({.prompt = prompt, .max_new_tokens = 2, .prompt_want = Want::kPromptLogprobs});
  const SequenceId lone = engine.add({.prompt = {4}, .max_new_tokens = 0, .prompt_want = Want::kPromptLogprobs});
  engine.drain();
  EXPECT_EQ(engine.told[scored].usage.cached_tokens, 0);
  EXPECT_EQ(engine.told[scored].logprobs_answered, 74);  // the last token's successor is output
  EXPECT_EQ(engine.told[lone].logprobs_answered, 0);
  engine.expect_solo_outputs();
  engine.expect_idle();
}

TEST(SchedulerTest, PreemptionKeepsPlaceIdsAndAnswers) {
  ScriptedEngine engine({.context = 150, .max_running = 4, .token_budget = 40, .prefill_chunk = 16}, one_group(19));
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(
        engine.add({.prompt = prompt_of(20 + i), .max_new_tokens = 60, .prompt_want = Want::kPromptLogprobs}));
  }
  engine.drain();
  EXPECT_GT(engine.scheduler.stats().preemptions, 0);
  EXPECT_EQ(engine.told[ids[0]].resumes, 0);  // the eldest gives way to nobody
  EXPECT_GT(engine.told[ids[2]].resumes, 0);
  for (const SequenceId id : ids) {
    EXPECT_EQ(engine.told[id].output.size(), 60u);
    EXPECT_EQ(engine.told[id].logprobs_answered, std::ssize(engine.told[id].prompt) - 1);
  }
  engine.expect_solo_outputs();
  engine.expect_idle();
}

TEST(SchedulerTest, HigherPriorityComesInFirstAndIsPreemptedLast) {
  ScriptedEngine engine({.context = 100, .max_running = 1}, one_group(40));
  const SequenceId running = engine.add(prompt_of(9), 3);
  engine.step();
  const SequenceId low = engine.add({.prompt = prompt_of(9), .max_new_tokens = 3, .priority = -1});
  const SequenceId usual = engine.add(prompt_of(9), 3);
  const SequenceId high = engine.add({.prompt = prompt_of(9), .max_new_tokens = 3, .priority = 2});
  engine.drain();
  EXPECT_LT(engine.told[running].last_step, engine.told[high].first_step);
  EXPECT_LT(engine.told[high].last_step, engine.told[usual].first_step);
  EXPECT_LT(engine.told[usual].last_step, engine.told[low].first_step);
}

TEST(SchedulerTest, FinishWorksInEveryState) {
  for (const std::int32_t in_flight : {1, 2}) {
    ScriptedEngine engine({.context = 100, .max_running = 1, .steps_in_flight = in_flight}, one_group(40));
    const SequenceId running = engine.add(prompt_of(30), 30);
    const SequenceId waiting = engine.add(prompt_of(30), 30);
    engine.step();
    EXPECT_TRUE(engine.scheduler.finish(waiting, FinishReason::kCancelled));
    EXPECT_FALSE(engine.scheduler.finish(waiting, FinishReason::kCancelled));
    EXPECT_EQ(engine.scheduler.find(waiting), nullptr);
    const Batch* batch = engine.scheduler.next();  // a step is in flight
    ASSERT_NE(batch, nullptr);
    const std::int64_t step = batch->step - (in_flight - 1);
    EXPECT_TRUE(engine.scheduler.finish(running, FinishReason::kStop));
    EXPECT_FALSE(engine.scheduler.finish(running, FinishReason::kStop));
    EXPECT_GT(engine.cache.pool(0).live(), 0);  // the step still names them
    for (std::int64_t open = step; open <= batch->step; ++open) {
      EXPECT_TRUE(engine.scheduler.complete(open, Ids{1}).empty());
    }
    EXPECT_FALSE(engine.scheduler.finish(running, FinishReason::kStop));
    EXPECT_FALSE(engine.scheduler.finish(999, FinishReason::kStop));
    engine.expect_idle();
  }
}

TEST(SchedulerTest, AFailedStepEndsItsSequencesOnly) {
  ScriptedEngine engine({.context = 100, .max_running = 2}, one_group(40));
  const SequenceId first = engine.add({.id = 71, .prompt = prompt_of(30), .max_new_tokens = 30});
  const SequenceId second = engine.add(prompt_of(30), 30);
  const SequenceId third = engine.add(prompt_of(30), 3);
  engine.step();
  const Batch* batch = engine.scheduler.next();
  const std::span<const Outcome> outcomes = engine.scheduler.abandon(batch->step);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].sequence, first);
  EXPECT_EQ(outcomes[0].request, 71);
  EXPECT_EQ(outcomes[1].sequence, second);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.finish, FinishReason::kError);
    EXPECT_EQ(outcome.id, kNoToken);
  }
  engine.drain();
  EXPECT_EQ(engine.told[third].finish, FinishReason::kLength);
  engine.expect_idle();
}

TEST(SchedulerTest, ARunnerMayReadTheNewestIdFromTheDevice) {
  ScriptedEngine engine({.context = 100, .max_running = 3, .steps_in_flight = 2}, one_group(40));
  engine.add(prompt_of(10), 20);
  engine.add(prompt_of(11), 20);
  engine.drain();
  EXPECT_EQ(engine.on_device_rows(), 2 * 19);  // all but the first id of each
  engine.expect_solo_outputs();
  engine.expect_idle();
}

// CASES E4 on the scheduler's side: a window of 21 in a pool that holds a tenth of the sequence.
TEST(SchedulerTest, E4_WindowedBlocksReturnAsASequenceAdvances) {
  const std::vector<kv::GroupConfig> groups = {{.name = "full", .block_size = 8, .block_count = 120},
                                               {.name = "window", .block_size = 8, .block_count = 9, .window = 21}};
  for (const std::int32_t in_flight : {1, 2}) {
    ScriptedEngine engine({.context = 900, .max_running = 1, .prefill_chunk = 16, .steps_in_flight = in_flight},
                          groups);
    engine.add(prompt_of(600), 250);
    engine.drain();
    EXPECT_EQ(engine.told[1].output.size(), 250u);
    EXPECT_EQ(engine.most_live(0), 107);  // ceil(849 / 8): the last id is never fed
    EXPECT_LE(engine.most_live(1), groups[1].peak_blocks(850, 18 * in_flight));
    engine.expect_solo_outputs();
    engine.expect_idle();
  }
}

}  // namespace
}  // namespace pagoda::sched
