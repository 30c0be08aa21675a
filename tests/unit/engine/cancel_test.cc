// Every way and moment to end a request early, and a soak: all blocks and slots come back (CASES E1, I1).
#include <atomic>
#include <random>

#include "engine_fixture.h"

namespace pagoda::engine {
namespace {

// Cancels at every step of a request's life, in a hook that runs on the engine thread: no timing decides.
TEST(CancelTest, I1AtEveryStep) {
  for (std::int64_t at = 1; at <= 40; ++at) {
    Script script;
    Engine* running = nullptr;
    std::shared_ptr<Job> victim;
    std::atomic<bool> ready{false};
    script.before_step = [&](std::int64_t step) -> Status {
      while (!ready.load(std::memory_order_acquire)) std::this_thread::yield();
      if (step == at) running->end(*victim, FinishReason::kCancelled);
      return Ok{};
    };
    const auto engine = make_engine(script);
    running = engine.get();
    victim = start(*engine, ask(prompt_of(100), 30));
    const auto neighbour = start(*engine, ask(prompt_of(50, 5), 30));
    ready.store(true, std::memory_order_release);
    ASSERT_TRUE(wait_end(*victim) && wait_end(*neighbour));
    EXPECT_EQ(ids_of(*neighbour), ScriptedRunner::expected(script, prompt_of(50, 5), {}, 0, 0, 30)) << at;
    if (victim->ending().finish == FinishReason::kCancelled) {
      EXPECT_EQ(victim->ending().error->code, ErrorCode::kCancelled);
      EXPECT_EQ(victim->ending().usage.completion_tokens, victim->num_ids());
    } else {
      EXPECT_GT(at, 30) << "it ended before its cancellation was seen";
    }
    EXPECT_EQ(used_blocks(engine->snapshot()), 0) << at;
    EXPECT_EQ(engine->snapshot().scheduler.running, 0);
  }
}

TEST(CancelTest, WithinOneStep) {
  Script script;
  std::atomic<std::int64_t> steps{0};
  script.before_step = [&](std::int64_t step) -> Status {
    steps.store(step);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Ok{};
  };
  const auto engine = make_engine(script);
  const auto job = start(*engine, ask(prompt_of(10), 300));
  ASSERT_TRUE(eventually([&] { return job->num_ids() > 5; }));
  const std::int64_t asked_at = steps.load();
  engine->end(*job, FinishReason::kCancelled);
  ASSERT_TRUE(wait_end(*job));
  EXPECT_LE(steps.load(), asked_at + 2);
}

TEST(CancelTest, TheFirstWishCounts) {
  Script script;
  const auto engine = make_engine(script);
  const auto job = start(*engine, ask(prompt_of(10), 300));
  ASSERT_TRUE(eventually([&] { return job->num_ids() > 2; }));
  engine->end(*job, FinishReason::kStop);
  engine->end(*job, FinishReason::kCancelled);
  ASSERT_TRUE(wait_end(*job));
  if (job->num_ids() < 300) {
    EXPECT_EQ(job->ending().finish, FinishReason::kStop);
    EXPECT_FALSE(job->ending().error);
  }
}

TEST(CancelTest, FollowersAndWaitingOnesToo) {
  Script script;
  script.max_slots = 2;
  script.before_step = [](std::int64_t) -> Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Ok{};
  };
  const auto engine = make_engine(script);
  const auto jobs = engine->submit(std::vector<Submission>(6, ask(prompt_of(90), 200)));
  ASSERT_TRUE(jobs.ok());
  for (const auto& job : *jobs) engine->end(*job, FinishReason::kCancelled);
  for (const auto& job : *jobs) ASSERT_TRUE(wait_end(*job));
  EXPECT_EQ(engine->snapshot().cancelled, 6);
  EXPECT_EQ(used_blocks(engine->snapshot()), 0);
}

TEST(CancelTest, AHookIsNeverCalledAfterItsRemoval) {
  const auto engine = make_engine({});
  for (std::int32_t i = 0; i < 50; ++i) {
    const auto job = start(*engine, ask(prompt_of(10 + i), 60));
    auto calls = std::make_unique<std::atomic<int>>(0);
    job->on_ready([raw = calls.get()] { raw->fetch_add(1); });
    ASSERT_TRUE(eventually([&] { return calls->load() > 0 || job->ended(); }));
    job->on_ready({});
    calls.reset();  // a late call would write into freed memory
  }
}

// CASES E1: prompts at k·block - 1, k·block, k·block + 1, eight at a time.
TEST(SoakTest, E1BlocksReturnAtEveryPromptLength) {
  Script script;
  script.max_slots = 8;
  script.blocks = 120;
  const auto engine = make_engine(script);
  for (const std::int64_t length : {7, 8, 9, 15, 16, 17, 63, 64, 65}) {
    std::vector<std::shared_ptr<Job>> jobs;
    for (std::int32_t i = 0; i < 40; ++i) jobs.push_back(start(*engine, ask(prompt_of(length, i), 9)));
    for (const auto& job : jobs) ASSERT_TRUE(wait_end(*job));
    EXPECT_EQ(used_blocks(engine->snapshot()), 0) << length;
  }
}

TEST(SoakTest, TwoThousandRandomRequestsAQuarterCancelled) {
  Script script;
  script.window = 21;
  script.blocks = 70;
  script.context = 150;
  script.steps_in_flight = 2;
  const auto engine = make_engine(script, 5000);
  std::mt19937 random(12345);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  struct Asked {
    std::shared_ptr<Job> job;
    std::vector<std::int32_t> expected;
    bool cancelled = false;
  };
  std::vector<Asked> asked;
  for (std::int32_t i = 0; i < 2000; ++i) {
    // Few different beginnings, so that prefixes are found, shared and evicted.
    Submission submission = ask(prompt_of(pick(1, 110), static_cast<std::int32_t>(pick(0, 5))), pick(0, 30));
    submission.seed = static_cast<std::uint64_t>(pick(0, 3));
    submission.sampling.temperature = static_cast<float>(pick(0, 2));
    submission.priority = static_cast<std::int32_t>(pick(0, 2));
    Asked one;
    one.expected = ScriptedRunner::expected(script, submission.prompt, submission.sampling, submission.seed, 0,
                                            submission.max_new_tokens);
    one.cancelled = pick(0, 3) == 0;
    one.job = start(*engine, std::move(submission));
    if (one.cancelled && pick(0, 1) == 0) std::this_thread::sleep_for(std::chrono::microseconds(pick(0, 300)));
    if (one.cancelled) engine->end(*one.job, FinishReason::kCancelled);
    asked.push_back(std::move(one));
  }
  for (const Asked& one : asked) {
    ASSERT_TRUE(wait_end(*one.job));
    const auto ids = ids_of(*one.job);
    if (one.job->ending().finish == FinishReason::kCancelled) {
      EXPECT_TRUE(one.cancelled);
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), one.expected.begin()));
    } else {
      EXPECT_EQ(one.job->ending().finish, FinishReason::kLength);
      EXPECT_EQ(ids, one.expected);
    }
  }
  const Snapshot snapshot = engine->snapshot();
  EXPECT_EQ(used_blocks(snapshot), 0);
  for (const kv::GroupUsage& group : snapshot.cache.groups) EXPECT_EQ(group.free + group.cached, group.total);
  EXPECT_EQ(snapshot.accepted, 2000);
  EXPECT_EQ(snapshot.finished + snapshot.cancelled, 2000);
  EXPECT_GT(snapshot.cached_tokens, 0);
}

// Readers, writers and the loop at once; what ThreadSanitizer looks at.
TEST(SoakTest, ManyThreads) {
  Script script;
  const auto engine = make_engine(script, 5000);
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> wrong{0};
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (std::int32_t i = 0; i < 60; ++i) {
        const auto prompt =
            prompt_of(1 + static_cast<std::int64_t>(random() % 90), static_cast<std::int32_t>(random() % 4));
        const auto job = start(*engine, ask(prompt, 20));
        std::atomic<int> calls{0};
        job->on_ready([&] { calls.fetch_add(1); });
        const bool cancel = random() % 4 == 0;
        const auto stop_at = static_cast<std::int64_t>(random() % 20);
        while (!job->ended()) {
          if (cancel && job->num_ids() >= stop_at) engine->end(*job, FinishReason::kCancelled);
          if (random() % 64 == 0) (void)engine->snapshot();
          std::this_thread::yield();
        }
        job->on_ready({});
        const auto ids = ids_of(*job);
        const auto expected = ScriptedRunner::expected(script, prompt, {}, 0, 0, 20);
        if (!std::equal(ids.begin(), ids.end(), expected.begin())) wrong.fetch_add(1);
        if (!cancel && std::ssize(ids) != 20) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(used_blocks(engine->snapshot()), 0);
}

}  // namespace
}  // namespace pagoda::engine
