#include "engine/engine.h"

#include <atomic>
#include <limits>
#include <stdexcept>

#include "engine_fixture.h"

namespace pagoda::engine {
namespace {

TEST(EngineTest, GivesWhatTheRunnerDraws) {
  const Script script;
  const auto engine = make_engine(script);
  const auto job = start(*engine, ask(prompt_of(37), 29));
  ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(ids_of(*job), ScriptedRunner::expected(script, prompt_of(37), {}, 0, 0, 29));
  const Ending& ending = job->ending();
  EXPECT_EQ(ending.finish, FinishReason::kLength);
  EXPECT_FALSE(ending.error);
  EXPECT_EQ(ending.usage.prompt_tokens, 37);
  EXPECT_EQ(ending.usage.completion_tokens, 29);
  EXPECT_LE(ending.submitted, ending.started);
  EXPECT_LE(ending.started, ending.first_id);
  EXPECT_LT(ending.first_id, ending.last_id);
  EXPECT_EQ(used_blocks(engine->snapshot()), 0);
}

TEST(EngineTest, StepsInFlightAndWindowsChangeNothing) {
  for (const std::int32_t in_flight : {1, 2}) {
    Script script;
    script.steps_in_flight = in_flight;
    script.window = 19;
    const auto engine = make_engine(script);
    std::vector<std::shared_ptr<Job>> jobs;
    for (std::int64_t i = 0; i < 9; ++i) jobs.push_back(start(*engine, ask(prompt_of(5 + 13 * i), 31)));
    for (std::int64_t i = 0; i < 9; ++i) {
      Job& job = *jobs[static_cast<std::size_t>(i)];
      ASSERT_TRUE(wait_end(job));
      EXPECT_EQ(ids_of(job), ScriptedRunner::expected(script, prompt_of(5 + 13 * i), {}, 0, 0, 31)) << i;
    }
    EXPECT_EQ(used_blocks(engine->snapshot()), 0);
  }
}

TEST(EngineTest, AStopIdIsTheLastIdHandedOut) {
  const Script script;
  const auto expected = ScriptedRunner::expected(script, prompt_of(10), {}, 0, 0, 20);
  const auto engine = make_engine(script);
  Submission submission = ask(prompt_of(10), 20);
  submission.stop_ids = {expected[6]};
  const auto job = start(*engine, submission);
  ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(job->ending().finish, FinishReason::kStop);
  const auto first = std::find(expected.begin(), expected.end(), expected[6]);
  EXPECT_EQ(ids_of(*job), std::vector<std::int32_t>(expected.begin(), first + 1));
}

// CASES D4: each output equals its solo run, in both orders.
TEST(EngineTest, D4SamplingParametersStayWithTheirRequest) {
  const Script script;
  SamplingParams penalised;
  penalised.temperature = 0.f;
  penalised.repetition_penalty = 2.f;
  SamplingParams seeded;
  seeded.temperature = 0.7f;
  seeded.top_k = 1;
  const auto expected_first = ScriptedRunner::expected(script, prompt_of(9), penalised, 0, 0, 5);
  const auto expected_second = ScriptedRunner::expected(script, prompt_of(9), seeded, 99, 0, 4);
  ASSERT_NE(expected_first[0], expected_second[0]);
  for (const bool swapped : {false, true}) {
    const auto engine = make_engine(script);
    Submission first = ask(prompt_of(9), 5);
    first.sampling = penalised;
    Submission second = ask(prompt_of(9), 4);
    second.sampling = seeded;
    second.seed = 99;
    std::shared_ptr<Job> a, b;
    if (swapped) b = start(*engine, second);
    a = start(*engine, first);
    if (!swapped) b = start(*engine, second);
    ASSERT_TRUE(wait_end(*a) && wait_end(*b));
    EXPECT_EQ(ids_of(*a), expected_first);
    EXPECT_EQ(ids_of(*b), expected_second);
  }
}

// CASES D2: a row of NaN ends with an error, and its neighbours never notice.
TEST(EngineTest, D2ANonFiniteRowEndsItsOwnRequestOnly) {
  Script script;
  script.nan_from = 7;
  script.max_slots = 8;
  const auto engine = make_engine(script);
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::int32_t i = 0; i < 8; ++i) jobs.push_back(start(*engine, ask(prompt_of(20 + i, i == 3 ? 7 : 20 + i), 12)));
  for (std::int32_t i = 0; i < 8; ++i) {
    Job& job = *jobs[static_cast<std::size_t>(i)];
    ASSERT_TRUE(wait_end(job));
    if (i == 3) {
      EXPECT_EQ(job.ending().finish, FinishReason::kError);
      EXPECT_EQ(job.ending().error->code, ErrorCode::kNonFiniteLogits);
      EXPECT_EQ(job.num_ids(), 0);
    } else {
      EXPECT_EQ(ids_of(job), ScriptedRunner::expected(script, prompt_of(20 + i, 20 + i), {}, 0, 0, 12));
    }
  }
  const Snapshot snapshot = engine->snapshot();
  EXPECT_EQ(snapshot.non_finite_rows, 1);
  EXPECT_EQ(snapshot.failed, 1);
  EXPECT_EQ(snapshot.finished, 7);
  EXPECT_EQ(used_blocks(snapshot), 0);
}

// CASES C3 and I5: nothing is cut; the refusal names both numbers; the next request is served at once.
TEST(EngineTest, I5ATooLongPromptIsRefusedWithBothNumbers) {
  Script script;
  script.blocks = 100;
  const auto engine = make_engine(script);
  for (const std::int64_t length : {script.context, script.context + 1, 10 * script.context}) {
    std::vector<Submission> one;
    one.push_back(ask(prompt_of(length), 5));
    const auto refused = engine->submit(std::move(one));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kPromptTooLong);
    EXPECT_NE(refused.error().message.find(std::to_string(length)), std::string::npos);
    EXPECT_NE(refused.error().message.find(std::to_string(script.context)), std::string::npos);
  }
  const auto longest = start(*engine, ask(prompt_of(script.context - 1), 5));
  ASSERT_TRUE(wait_end(*longest));
  EXPECT_EQ(longest->ending().finish, FinishReason::kLength);
  EXPECT_EQ(longest->num_ids(), 1);
  const auto next = start(*engine, ask(prompt_of(4), 3));
  ASSERT_TRUE(wait_end(*next));
  EXPECT_EQ(next->num_ids(), 3);
  EXPECT_EQ(engine->snapshot().scheduler.waiting, 0);
  EXPECT_EQ(engine->snapshot().scheduler.running, 0);
}

TEST(EngineTest, ANewTokenBudgetOfZeroOnlyReadsThePrompt) {
  const auto engine = make_engine({});
  const auto job = start(*engine, ask(prompt_of(30), 0));
  ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(job->ending().finish, FinishReason::kLength);
  EXPECT_EQ(job->num_ids(), 0);
}

TEST(EngineTest, WhatCanNeverFitIsRefusedAndAFullQueueToo) {
  std::atomic<bool> go{false};
  Script script;
  script.blocks = 10;
  script.before_step = [&go](std::int64_t) -> Status {
    while (!go) std::this_thread::yield();
    return Ok{};
  };
  const auto engine = make_engine(script, 1);
  std::vector<Submission> large;
  large.push_back(ask(prompt_of(100), 1));
  EXPECT_EQ(engine->submit(std::move(large)).error().code, ErrorCode::kPromptTooLong);
  std::vector<Submission> empty;
  empty.push_back(ask({}, 1));
  EXPECT_EQ(engine->submit(std::move(empty)).error().code, ErrorCode::kEmptyPrompt);
  // 5 slots and one place in the queue.
  EXPECT_EQ(engine->submit(std::vector<Submission>(7, ask(prompt_of(3), 1))).error().code, ErrorCode::kInvalidArgument);
  const auto jobs = engine->submit(std::vector<Submission>(6, ask(prompt_of(3), 1)));
  ASSERT_TRUE(jobs.ok()) << jobs.error().message;
  EXPECT_EQ(engine->submit(std::vector<Submission>(1, ask(prompt_of(3), 1))).error().code, ErrorCode::kQueueFull);
  go = true;
  for (const auto& job : *jobs) ASSERT_TRUE(wait_end(*job));
}

// They all stand in the queue until the first step takes them, and are no reason to refuse one another.
TEST(EngineTest, AsManyAsMayRunAreTakenAtOnceWhateverTheQueueHolds) {
  for (const std::int32_t max_queued : {0, 1, 3}) {
    const auto engine = make_engine({}, max_queued);
    const auto jobs =
        engine->submit(std::vector<Submission>(static_cast<std::size_t>(5 + max_queued), ask(prompt_of(3), 2)));
    ASSERT_TRUE(jobs.ok()) << jobs.error().message;
    for (const auto& job : *jobs) {
      ASSERT_TRUE(wait_end(*job));
      EXPECT_EQ(job->ending().finish, FinishReason::kLength) << max_queued;
    }
  }
}

TEST(EngineTest, ASequenceIsRefusedByTheRunnerAloneAndNamesTheParameter) {
  const auto engine = make_engine({});
  Submission wrong = ask(prompt_of(9), 5);
  wrong.sampling.temperature = -1.f;
  const auto job = start(*engine, wrong);
  const auto neighbour = start(*engine, ask(prompt_of(9), 5));
  ASSERT_TRUE(wait_end(*job) && wait_end(*neighbour));
  EXPECT_EQ(job->ending().finish, FinishReason::kError);
  EXPECT_EQ(job->ending().error->param, "temperature");
  EXPECT_EQ(neighbour->num_ids(), 5);
  EXPECT_EQ(used_blocks(engine->snapshot()), 0);
}

TEST(EngineTest, LogprobsComeWithTheirIds) {
  const auto engine = make_engine({});
  Submission submission = ask(prompt_of(41), 7);
  submission.sampling.logprobs = 3;
  submission.prompt_best = 2;
  const auto job = start(*engine, submission);
  ASSERT_TRUE(wait_end(*job));
  for (std::int64_t i = 0; i < job->num_ids(); ++i) {
    const Scored scored = job->scored(i);
    EXPECT_EQ(scored.logprob, ScriptedRunner::logprob_of(job->id(i)));
    ASSERT_EQ(scored.best.size(), 3u);
    EXPECT_EQ(scored.best[2].id, job->id(i) + 2);
  }
  ASSERT_EQ(job->num_prompt_scores(), 40);
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int32_t target = submission.prompt[static_cast<std::size_t>(i + 1)];
    EXPECT_EQ(job->prompt_scored(i).logprob, ScriptedRunner::logprob_of(target)) << i;
    ASSERT_EQ(job->prompt_scored(i).best.size(), 2u);
    EXPECT_EQ(job->prompt_scored(i).best[1].id, target + 1);
  }
}

TEST(EngineTest, LogitsComeInOrderOnceEach) {
  const auto engine = make_engine({});
  std::vector<std::int64_t> positions;
  Submission submission = ask(prompt_of(77), 0);
  submission.on_logits = [&](std::int64_t position, std::span<const float> logits) {
    positions.push_back(position);
    return logits.size() == 97 && logits[5] == static_cast<float>(position * 1000 + 5);
  };
  const auto job = start(*engine, submission);
  ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(job->ending().finish, FinishReason::kLength);
  ASSERT_EQ(positions.size(), 77u);
  for (std::int64_t i = 0; i < 77; ++i) EXPECT_EQ(positions[static_cast<std::size_t>(i)], i);
}

TEST(EngineTest, ChoicesShareTheirPrompt) {
  const Script script;
  const auto engine = make_engine(script);
  std::vector<Submission> choices;
  for (std::int32_t i = 0; i < 4; ++i) {
    choices.push_back(ask(prompt_of(64), 6));
    choices.back().choice = i;
    choices.back().seed = 5;
  }
  const auto jobs = engine->submit(std::move(choices));
  ASSERT_TRUE(jobs.ok());
  for (std::int32_t i = 0; i < 4; ++i) {
    const Job& job = *(*jobs)[static_cast<std::size_t>(i)];
    ASSERT_TRUE(wait_end(job));
    EXPECT_EQ(ids_of(job), ScriptedRunner::expected(script, prompt_of(64), {}, 5, i, 6));
    EXPECT_EQ(job.ending().usage.cached_tokens, i == 0 ? 0 : 56);  // whole blocks, and one token is left to compute
  }
}

TEST(EngineTest, ADeadlineEndsWhatIsOverdueAndNothingElse) {
  Script script;
  script.before_step = [](std::int64_t) -> Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Ok{};
  };
  const auto engine = make_engine(script);
  Submission overdue = ask(prompt_of(10), 300);
  overdue.deadline = Clock::now() + std::chrono::milliseconds(40);
  const auto late = start(*engine, overdue);
  const auto other = start(*engine, ask(prompt_of(12), 40));
  ASSERT_TRUE(wait_end(*late) && wait_end(*other));
  EXPECT_EQ(late->ending().finish, FinishReason::kError);
  EXPECT_EQ(late->ending().error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_LT(late->num_ids(), 300);
  EXPECT_EQ(other->ending().finish, FinishReason::kLength);
  EXPECT_EQ(other->num_ids(), 40);
}

TEST(EngineTest, AFailedStepEndsItsSequencesAndTheEngineGoesOn) {
  Script script;
  script.before_step = [](std::int64_t step) -> Status {
    if (step == 4) return fail(ErrorCode::kOutOfMemory, "no memory for step 4");
    return Ok{};
  };
  const auto engine = make_engine(script);
  const auto job = start(*engine, ask(prompt_of(10), 50));
  ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(job->ending().error->code, ErrorCode::kOutOfMemory);
  const auto next = start(*engine, ask(prompt_of(10), 5));
  ASSERT_TRUE(wait_end(*next));
  EXPECT_EQ(next->num_ids(), 5);
  EXPECT_EQ(used_blocks(engine->snapshot()), 0);
}

TEST(EngineTest, ALostDeviceOrAnExceptionIsTheErrorOfEveryCall) {
  for (const bool throws : {false, true}) {
    Script script;
    script.before_step = [throws](std::int64_t step) -> Status {
      if (step < 6) return Ok{};
      if (throws) throw std::runtime_error("a library's exception");
      return fail(ErrorCode::kDeviceLost, "the device is lost");
    };
    const auto engine = make_engine(script);
    std::vector<Submission> choices(3, ask(prompt_of(9), 90));
    const auto jobs = engine->submit(std::move(choices));
    ASSERT_TRUE(jobs.ok());
    const ErrorCode code = throws ? ErrorCode::kInternal : ErrorCode::kDeviceLost;
    for (const auto& job : *jobs) {
      ASSERT_TRUE(wait_end(*job));
      EXPECT_EQ(job->ending().error->code, code);
    }
    std::vector<Submission> one(1, ask(prompt_of(4), 1));
    const auto refused = engine->submit(std::move(one));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, code);
  }
}

TEST(EngineTest, ClosingEndsWhatRunsAndWhatWaits) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    const auto engine = make_engine({});
    for (std::int32_t i = 0; i < 30; ++i) jobs.push_back(start(*engine, ask(prompt_of(20 + i), 300)));
  }
  std::int64_t cancelled = 0;
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->ended());
    cancelled += job->ending().finish == FinishReason::kCancelled ? 1 : 0;
  }
  EXPECT_GT(cancelled, 0);
}

TEST(EngineTest, LimitsOverTheRunnersAreRefused) {
  Options options;
  options.limits.max_running = 6;  // the script has 5 slots
  const auto engine = Engine::start(options, std::make_unique<ScriptedRunner>(Script{}));
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pagoda::engine
