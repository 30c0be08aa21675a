// Many at once: who goes first, what choices share, what happens when blocks run short, and faults at every step.
#include <atomic>
#include <new>
#include <set>

#include "engine_fixture.h"

namespace pagoda::engine {
namespace {

/// Holds the engine inside its first step until it is opened, so that what is submitted meanwhile comes in together.
class Gate {
 public:
  Status pass() {
    entered_.store(true, std::memory_order_release);
    while (!open_.load(std::memory_order_acquire)) std::this_thread::yield();
    return Ok{};
  }
  bool wait_entered() const {
    return eventually([this] { return entered_.load(std::memory_order_acquire); });
  }
  void open() { open_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> entered_{false}, open_{false};
};

TEST(CrowdTest, ChoicesShareTheirPromptsBlocksAndDivergeInsideOne) {
  for (const std::int32_t in_flight : {1, 2}) {
    Script script;
    script.steps_in_flight = in_flight;
    // 69 tokens of prompt and 11 of output: alone ten blocks each, together eight and two for each of the five.
    script.blocks = 8 + 5 * 2;
    const auto engine = make_engine(script);
    std::vector<Submission> choices;
    for (std::int32_t i = 0; i < 5; ++i) {
      choices.push_back(ask(prompt_of(69), 11));
      choices.back().choice = i;
      choices.back().seed = 7;
    }
    const auto jobs = engine->submit(std::move(choices));
    ASSERT_TRUE(jobs.ok());
    std::set<std::vector<std::int32_t>> different;
    for (std::int32_t i = 0; i < 5; ++i) {
      const Job& job = *(*jobs)[static_cast<std::size_t>(i)];
      ASSERT_TRUE(wait_end(job));
      EXPECT_EQ(ids_of(job), ScriptedRunner::expected(script, prompt_of(69), {}, 7, i, 11)) << i;
      EXPECT_EQ(job.ending().usage.cached_tokens, i == 0 ? 0 : 64);
      different.insert(ids_of(job));
    }
    EXPECT_EQ(different.size(), 5u);
    const Snapshot snapshot = engine->snapshot();
    EXPECT_EQ(snapshot.scheduler.preemptions, 0) << "they all fit";
    EXPECT_GT(snapshot.step_rows.counts[3], 0) << "none had five rows";  // over 4 and up to 8
    EXPECT_EQ(used_blocks(snapshot), 0);
  }
}

// The first choice only goes ahead of the others: its end is not theirs.
TEST(CrowdTest, ChoicesGoOnWithoutTheFirst) {
  for (const bool prefilling : {true, false}) {
    Script script;
    Engine* running = nullptr;
    std::shared_ptr<Job> first;
    Gate gate;
    script.before_step = [&](std::int64_t step) -> Status {
      if (step == 1) PAGODA_TRY(gate.pass());
      if (step == (prefilling ? 2 : 6)) running->end(*first, FinishReason::kCancelled);
      return Ok{};
    };
    const auto engine = make_engine(script);
    running = engine.get();
    std::vector<Submission> choices(3, ask(prompt_of(90), 20));
    for (std::int32_t i = 0; i < 3; ++i) choices[static_cast<std::size_t>(i)].choice = i;
    const auto jobs = engine->submit(std::move(choices));
    ASSERT_TRUE(jobs.ok());
    first = jobs->front();
    gate.open();
    for (const auto& job : *jobs) ASSERT_TRUE(wait_end(*job));
    EXPECT_EQ(first->ending().finish, FinishReason::kCancelled);
    for (std::int32_t i = 1; i < 3; ++i) {
      EXPECT_EQ(ids_of(*(*jobs)[static_cast<std::size_t>(i)]),
                ScriptedRunner::expected(script, prompt_of(90), {}, 0, i, 20));
    }
    EXPECT_EQ(used_blocks(engine->snapshot()), 0);
  }
}

TEST(CrowdTest, PreemptedRequestsGiveTheSame) {
  for (const std::int32_t in_flight : {1, 2}) {
    for (const std::int64_t window : {0, 21}) {
      Script script;
      script.steps_in_flight = in_flight;
      script.window = window;
      script.blocks = 26;
      Gate gate;
      script.before_step = [&](std::int64_t step) { return step == 1 ? gate.pass() : Status(Ok{}); };
      const auto engine = make_engine(script);
      std::vector<std::shared_ptr<Job>> jobs;
      for (std::int32_t i = 0; i < 5; ++i) {
        Submission one = ask(prompt_of(20 + i, i), 90);
        one.seed = static_cast<std::uint64_t>(i);
        one.sampling.logprobs = 2;
        one.prompt_best = 1;
        jobs.push_back(start(*engine, std::move(one)));
      }
      gate.open();
      for (std::int32_t i = 0; i < 5; ++i) {
        const Job& job = *jobs[static_cast<std::size_t>(i)];
        ASSERT_TRUE(wait_end(job));
        EXPECT_EQ(ids_of(job),
                  ScriptedRunner::expected(script, prompt_of(20 + i, i), {}, static_cast<std::uint64_t>(i), 0, 90));
        for (std::int64_t t = 0; t < job.num_ids(); ++t) {
          ASSERT_EQ(job.scored(t).logprob, ScriptedRunner::logprob_of(job.id(t)));
        }
        EXPECT_EQ(job.num_prompt_scores(), 19 + i) << "each once";
        EXPECT_EQ(job.ending().usage.completion_tokens, 90);
      }
      EXPECT_GT(engine->snapshot().scheduler.preemptions, 0);
      EXPECT_EQ(used_blocks(engine->snapshot()), 0);
    }
  }
}

TEST(CrowdTest, HigherPriorityGoesFirst) {
  Script script;
  script.max_slots = 1;
  Gate gate;
  script.before_step = [&](std::int64_t step) { return step == 1 ? gate.pass() : Status(Ok{}); };
  const auto engine = make_engine(script);
  const auto running = start(*engine, ask(prompt_of(9), 3));
  ASSERT_TRUE(gate.wait_entered());
  std::vector<std::shared_ptr<Job>> jobs;
  for (const std::int32_t priority : {-1, 0, 2}) {
    Submission one = ask(prompt_of(12), 4);
    one.priority = priority;
    jobs.push_back(start(*engine, std::move(one)));
  }
  gate.open();
  for (const auto& job : jobs) ASSERT_TRUE(wait_end(*job));
  EXPECT_LE(running->ending().last_id, jobs[2]->ending().first_id);
  EXPECT_LE(jobs[2]->ending().last_id, jobs[1]->ending().first_id);
  EXPECT_LE(jobs[1]->ending().last_id, jobs[0]->ending().first_id);
}

TEST(CrowdTest, SaltedRequestsShareWithTheirOwnAlone) {
  const auto engine = make_engine({});
  const auto cached = [&](const std::string& salt) {
    Submission one = ask(prompt_of(64), 3);
    one.cache_salt = salt;
    const auto job = start(*engine, std::move(one));
    EXPECT_TRUE(wait_end(*job));
    return job->ending().usage.cached_tokens;
  };
  EXPECT_EQ(cached("a"), 0);
  EXPECT_EQ(cached("a"), 56);
  EXPECT_EQ(cached("b"), 0);
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached(""), 56);
  EXPECT_EQ(cached("b"), 56);
  const Snapshot snapshot = engine->snapshot();
  EXPECT_EQ(snapshot.cached_tokens, 3 * 56);
  EXPECT_EQ(snapshot.cache.counters.hit_tokens, 3 * 56);
}

// A prompt that takes 16 steps, and one that comes while it is read.
TEST(CrowdTest, ANewcomerIsAnsweredBesideALongPrefill) {
  Script script;
  script.blocks = 100;
  script.max_step_tokens = 24;
  Gate gate;
  std::atomic<std::int64_t> now{0}, first_of_newcomer{0}, first_of_long{0};
  script.before_step = [&](std::int64_t step) {
    now.store(step);
    return step == 2 ? gate.pass() : Status(Ok{});
  };
  const auto engine = make_engine(script);
  const auto note = [&now](std::atomic<std::int64_t>& first) {
    return [&now, &first] {
      std::int64_t none = 0;
      first.compare_exchange_strong(none, now.load());
    };
  };
  Submission large = ask(prompt_of(380), 3);
  large.on_id = note(first_of_long);
  const auto slow = start(*engine, std::move(large));
  ASSERT_TRUE(gate.wait_entered());
  Submission small = ask(prompt_of(10, 3), 3);
  small.on_id = note(first_of_newcomer);
  const auto quick = start(*engine, std::move(small));
  gate.open();
  ASSERT_TRUE(wait_end(*slow) && wait_end(*quick));
  EXPECT_EQ(first_of_newcomer.load(), 3);
  EXPECT_GE(first_of_long.load(), 16);
}

TEST(CrowdTest, ADeadlineHoldsInTheQueueToo) {
  Script script;
  script.max_slots = 1;
  Gate gate;
  script.before_step = [&](std::int64_t step) { return step == 2 ? gate.pass() : Status(Ok{}); };
  const auto engine = make_engine(script);
  const auto running = start(*engine, ask(prompt_of(9), 200));
  ASSERT_TRUE(gate.wait_entered());
  Submission late = ask(prompt_of(9), 5);
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(5);
  late.deadline = deadline;
  const auto waiting = start(*engine, std::move(late));
  ASSERT_TRUE(eventually([&] { return Clock::now() > deadline; }));
  gate.open();
  ASSERT_TRUE(wait_end(*waiting));
  EXPECT_EQ(waiting->ending().error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(waiting->ending().started, Clock::time_point{});
  ASSERT_TRUE(wait_end(*running));
  EXPECT_EQ(running->num_ids(), 200);
  EXPECT_EQ(engine->snapshot().overdue, 1);
  EXPECT_EQ(engine->snapshot().cancelled, 1);
}

TEST(CrowdTest, AFullQueueRefusesAndTakesAgainWhenThereIsRoom) {
  Script script;
  script.max_slots = 2;
  Gate gate;
  script.before_step = [&](std::int64_t step) { return step == 1 ? gate.pass() : Status(Ok{}); };
  const auto engine = make_engine(script, 3);
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::int32_t i = 0; i < 5; ++i) jobs.push_back(start(*engine, ask(prompt_of(8 + i), 4)));
  ASSERT_TRUE(gate.wait_entered());
  for (const std::size_t choices : {1u, 2u}) {
    const auto refused = engine->submit(std::vector<Submission>(choices, ask(prompt_of(5), 1)));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kQueueFull);
    EXPECT_NE(refused.error().message.find("5"), std::string::npos);
  }
  gate.open();
  for (const auto& job : jobs) ASSERT_TRUE(wait_end(*job));
  EXPECT_TRUE(engine->submit(std::vector<Submission>(5, ask(prompt_of(5), 1))).ok());
}

// CASES J1: what a step cannot do for want of memory is the error of its requests; serving goes on. At every step, as
// an error and as an exception.
TEST(FaultTest, J1AStepWithoutMemoryEndsItsRequestsAtEveryStep) {
  for (const std::int32_t in_flight : {1, 2}) {
    for (const bool throws : {false, true}) {
      for (std::int64_t at = 1; at <= 24; ++at) {
        Script script;
        script.steps_in_flight = in_flight;
        script.max_slots = 3;
        script.before_step = [&](std::int64_t step) -> Status {
          if (step != at) return Ok{};
          if (throws) throw std::bad_alloc();
          return fail(ErrorCode::kOutOfMemory, "no memory for step {}", step);
        };
        const auto engine = make_engine(script);
        std::vector<std::shared_ptr<Job>> jobs;
        for (std::int32_t i = 0; i < 7; ++i) jobs.push_back(start(*engine, ask(prompt_of(10 + 9 * i, i), 3 + 2 * i)));
        std::int64_t failed = 0;
        for (std::int32_t i = 0; i < 7; ++i) {
          const Job& job = *jobs[static_cast<std::size_t>(i)];
          ASSERT_TRUE(wait_end(job));
          const auto expected = ScriptedRunner::expected(script, prompt_of(10 + 9 * i, i), {}, 0, 0, 3 + 2 * i);
          const auto ids = ids_of(job);
          EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin()));
          if (!job.ending().error) {
            EXPECT_EQ(ids, expected);
            continue;
          }
          ++failed;
          EXPECT_EQ(job.ending().error->code, ErrorCode::kOutOfMemory);
          EXPECT_LT(ids.size(), expected.size());
        }
        EXPECT_GT(failed, 0) << at;
        EXPECT_LE(failed, 3) << "only those of the step";
        const auto next = start(*engine, ask(prompt_of(33), 5));
        ASSERT_TRUE(wait_end(*next));
        EXPECT_EQ(ids_of(*next), ScriptedRunner::expected(script, prompt_of(33), {}, 0, 0, 5));
        EXPECT_TRUE(engine->health().ok());
        EXPECT_EQ(engine->snapshot().failed, failed);
        EXPECT_EQ(used_blocks(engine->snapshot()), 0);
        if (HasFailure()) return;
      }
    }
  }
}

// CASES J1: at a cache that holds one long prompt at a time, each is served, and none is an error.
TEST(FaultTest, J1LongPromptsAtATightCacheWaitForEachOther) {
  Script script;
  script.blocks = 50;
  const auto engine = make_engine(script);
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::int32_t i = 0; i < 6; ++i) jobs.push_back(start(*engine, ask(prompt_of(240 + 20 * i, i), 12)));
  for (std::int32_t i = 0; i < 6; ++i) {
    const Job& job = *jobs[static_cast<std::size_t>(i)];
    ASSERT_TRUE(wait_end(job));
    EXPECT_EQ(ids_of(job), ScriptedRunner::expected(script, prompt_of(240 + 20 * i, i), {}, 0, 0, 12));
  }
  EXPECT_EQ(engine->snapshot().failed, 0);
}

TEST(FaultTest, NotANumberAtEveryStepEndsOneRequest) {
  for (std::int64_t at = 1; at <= 20; ++at) {
    Script script;
    script.max_slots = 3;
    script.steps_in_flight = 2;
    script.nan_from = 5;
    script.nan_step = at;
    const auto engine = make_engine(script);
    const auto poisoned = start(*engine, ask(prompt_of(30, 5), 18));
    const auto neighbour = start(*engine, ask(prompt_of(31, 6), 18));
    ASSERT_TRUE(wait_end(*poisoned) && wait_end(*neighbour));
    EXPECT_EQ(ids_of(*neighbour), ScriptedRunner::expected(script, prompt_of(31, 6), {}, 0, 0, 18));
    const auto expected = ScriptedRunner::expected(script, prompt_of(30, 5), {}, 0, 0, 18);
    const auto ids = ids_of(*poisoned);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin())) << at;
    if (poisoned->ending().error) {
      EXPECT_EQ(poisoned->ending().error->code, ErrorCode::kNonFiniteLogits);
    }
    EXPECT_EQ(engine->snapshot().failed, poisoned->ending().error ? 1 : 0);
    EXPECT_EQ(used_blocks(engine->snapshot()), 0);
  }
}

TEST(FaultTest, ClosingAtEveryStepLeavesNobodyWithoutAnEnd) {
  for (std::int64_t at = 1; at <= 20; ++at) {
    Script script;
    script.steps_in_flight = 1 + static_cast<std::int32_t>(at % 2);
    script.max_slots = 3;
    std::atomic<bool> reached{false};
    script.before_step = [&](std::int64_t step) -> Status {
      if (step == at) reached.store(true);
      while (step == at && !reached.load()) std::this_thread::yield();
      return Ok{};
    };
    std::vector<std::shared_ptr<Job>> jobs;
    {
      const auto engine = make_engine(script);
      auto choices = engine->submit(std::vector<Submission>(3, ask(prompt_of(70), 30)));
      ASSERT_TRUE(choices.ok());
      jobs = *choices;
      for (std::int32_t i = 0; i < 4; ++i) jobs.push_back(start(*engine, ask(prompt_of(20 + i), 30)));
      ASSERT_TRUE(eventually([&] { return reached.load(); }));
    }
    for (const auto& job : jobs) {
      ASSERT_TRUE(job->ended());
      const FinishReason finish = job->ending().finish;
      EXPECT_TRUE(finish == FinishReason::kCancelled || finish == FinishReason::kLength);
    }
  }
}

TEST(FaultTest, AStepThatHangsIsSeen) {
  Script script;
  Gate gate;
  script.before_step = [&](std::int64_t step) { return step == 1 ? gate.pass() : Status(Ok{}); };
  const auto engine = make_engine(script);
  EXPECT_EQ(engine->stalled(), Clock::duration::zero());
  const auto job = start(*engine, ask(prompt_of(9), 3));
  ASSERT_TRUE(gate.wait_entered());
  ASSERT_TRUE(eventually([&] { return engine->stalled() > std::chrono::milliseconds(30); }));
  EXPECT_TRUE(engine->health().ok());
  gate.open();
  ASSERT_TRUE(wait_end(*job));
  ASSERT_TRUE(eventually([&] { return engine->stalled() == Clock::duration::zero(); }));
}

TEST(FaultTest, TheErrorThatEndedTheEngineIsItsHealth) {
  Script script;
  script.before_step = [](std::int64_t) -> Status { return fail(ErrorCode::kDeviceLost, "the device is lost"); };
  const auto engine = make_engine(script);
  EXPECT_TRUE(engine->health().ok());
  const auto job = start(*engine, ask(prompt_of(9), 3));
  ASSERT_TRUE(wait_end(*job));
  ASSERT_FALSE(engine->health().ok());
  EXPECT_EQ(engine->health().error().code, ErrorCode::kDeviceLost);
}

// While the engine calls it, a hook is replaced again and again: the last one hears of the end, or it can be seen.
TEST(HookTest, NothingIsMissedByWhoLooksAfterReplacingIt) {
  const auto engine = make_engine({});
  for (std::int32_t i = 0; i < 60; ++i) {
    const auto job = start(*engine, ask(prompt_of(10 + i), 40));
    std::atomic<std::int64_t> seen{0};
    while (seen.load() < 40) {
      std::atomic<bool> called{false};
      job->on_ready([&] { called.store(true); });
      const std::int64_t count = job->num_ids();
      if (count == seen.load() && count < 40) {
        ASSERT_TRUE(eventually([&] { return called.load(); })) << count;
      }
      job->on_ready({});
      seen.store(job->num_ids());
    }
    ASSERT_TRUE(wait_end(*job));
  }
}

}  // namespace
}  // namespace pagoda::engine
