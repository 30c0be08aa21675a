// A step allocates nothing: neither composing it nor handing out what it brought, however many rows it has.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "constant_runner.h"
#include "engine_fixture.h"
#include "fixtures/allocations.h"

namespace pagoda::engine {
namespace {

TEST(AllocationTest, StepsOfManyRowsAllocateNothing) {
  for (const std::int32_t in_flight : {1, 2}) {
    constexpr std::int32_t kRows = 100;
    std::int64_t steps = 0, before = 0, during = 0;
    bool decoded = false;  // the step before was of one decode each
    const ConstantRunner::Size size{.rows = kRows, .context = 300, .step_tokens = 2000, .steps_in_flight = in_flight};
    std::atomic<bool> all_there{false};  // else the first would have ended before the last comes
    auto runner = std::make_unique<ConstantRunner>(size, [&](const sched::Batch& batch) {
      all_there.wait(false);
      const bool decodes = std::ssize(batch.rows) == kRows && std::ssize(batch.tokens) == kRows;
      if (decodes && decoded) {
        during += fixtures::num_allocations_here() - before;
        ++steps;
      }
      decoded = decodes;
      before = fixtures::num_allocations_here();
    });
    Options options;
    options.limits = {.context = 300,
                      .max_running = kRows,
                      .max_queued = 10,
                      .token_budget = 2000,
                      .prefill_chunk = 500,
                      .steps_in_flight = in_flight};
    auto engine = Engine::start(options, std::move(runner));
    ASSERT_TRUE(engine.ok());
    std::vector<std::shared_ptr<Job>> jobs;
    for (std::int32_t i = 0; i < kRows; ++i) {
      Submission one = ask(std::vector<std::int32_t>(50, i), 240);
      one.sampling.logprobs = 0;
      jobs.push_back(start(**engine, std::move(one)));
      jobs.back()->on_ready([] {});
    }
    all_there.store(true);
    all_there.notify_all();
    for (const auto& job : jobs) ASSERT_TRUE(wait_end(*job));
    engine->reset();  // its thread has written the counts
    EXPECT_GT(steps, 100);
    EXPECT_EQ(during, 0) << "in " << steps << " steps";
  }
}

// CASES J2: memory that runs out anywhere in the engine's thread ends requests, of which each is told, or the engine,
// which says so; and whatever is left can be closed.
TEST(AllocationTest, J2EveryAllocationThatFailsIsToldToAllThatItEnds) {
  std::int64_t served = 0, ended = 0, told = 0;
  for (std::int64_t n = 1; n <= 150; ++n) {
    SCOPED_TRACE(n);
    std::atomic<bool> all_there{false};
    Script script;
    script.window = n % 2 == 0 ? 0 : 40;
    script.before_step = [&](std::int64_t step) -> Status {
      if (step == 1) all_there.wait(false);
      if (step == 1) fixtures::fail_allocation_here(n);
      return Ok{};
    };
    const auto engine = make_engine(script);
    std::vector<std::shared_ptr<Job>> jobs = {start(*engine, ask(prompt_of(9), 30))};
    for (std::int32_t i = 0; i < 4; ++i) {
      const auto more = engine->submit(std::vector<Submission>(3, ask(prompt_of(10 + 9 * i, i), 3 + 2 * i)));
      ASSERT_TRUE(more.ok());
      jobs.insert(jobs.end(), more->begin(), more->end());
    }
    engine->end(*jobs[5], FinishReason::kCancelled);
    all_there.store(true);
    all_there.notify_all();
    for (const auto& job : jobs) {
      ASSERT_TRUE(wait_end(*job));
      const auto& error = job->ending().error;
      if (error && error->code != ErrorCode::kCancelled) {
        EXPECT_EQ(error->code, ErrorCode::kOutOfMemory);
        ++told;
      }
    }
    std::vector<Submission> next;
    next.push_back(ask(prompt_of(33), 5));
    const auto last = engine->submit(std::move(next));
    if (engine->health().ok()) {
      ASSERT_TRUE(last.ok());
      ASSERT_TRUE(wait_end(*last->front()));
      ++served;
    } else {
      EXPECT_EQ(engine->health().error().code, ErrorCode::kOutOfMemory);
      EXPECT_FALSE(last.ok());
      ++ended;
    }
  }
  EXPECT_GT(served, 20);
  EXPECT_GT(ended, 5);
  EXPECT_GT(told, 50);
}

}  // namespace
}  // namespace pagoda::engine
