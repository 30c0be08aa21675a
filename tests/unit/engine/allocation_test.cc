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

}  // namespace
}  // namespace pagoda::engine
