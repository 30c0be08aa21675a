// A GPU that is lost in the middle of work, at any call: every job hears of it, nothing crashes, all is given back.
#include <gmock/gmock.h>

#include "engine_fixture.h"
#include "fixtures/paper_runner.h"

namespace pagoda::engine {
namespace {

using fixtures::PaperRunner;
using testing::IsEmpty;

constexpr device::cuda::Result32 kLaunchFailed = 719;

std::unique_ptr<Engine> engine_on(PaperRunner& runner) {
  Options options;
  options.limits = {.context = 200,
                    .max_running = 4,
                    .max_queued = 100,
                    .token_budget = 90,
                    .prefill_chunk = 40,
                    .decode_burst = 8,
                    .steps_in_flight = 2};
  options.model_id = "paper";
  return Engine::start(options, runner.take()).value();
}

std::vector<std::int32_t> prompt(std::int64_t length) {
  std::vector<std::int32_t> ids = prompt_of(length);
  for (std::int32_t& id : ids) id %= 67;
  return ids;
}

TEST(LostDevice, EndsAllJobsWithItsError) {
  for (const char* entry :
       {"cuMemcpyHtoDAsync", "cuGraphLaunch", "cuLaunchKernelEx", "cuMemcpyDtoHAsync", "cuEventSynchronize"}) {
    for (const std::int64_t n : {1, 2, 5, 14}) {
      SCOPED_TRACE(pagoda::format("call {} of {}", n, entry));
      model::PlanOptions plan = PaperRunner::small_options();
      plan.max_rows = plan.head_rows = 4;
      PaperRunner runner(fixtures::paper_config(), plan);
      ASSERT_TRUE(runner.make().ok());
      runner.paper().fail_call(entry, n, kLaunchFailed, true);
      {
        const auto engine = engine_on(runner);
        std::vector<std::shared_ptr<Job>> jobs;
        for (std::int64_t length : {3, 50, 7, 61, 20, 33}) {
          std::vector<Submission> one;
          one.push_back(ask(prompt(length), 40));
          auto started = engine->submit(std::move(one));
          EXPECT_TRUE(started.ok() || started.error().code == ErrorCode::kDeviceLost);
          if (started.ok()) jobs.push_back(started->front());
        }
        ASSERT_FALSE(jobs.empty());
        for (const auto& job : jobs) {
          ASSERT_TRUE(wait_end(*job));
          const Ending ending = job->ending();
          EXPECT_EQ(ending.finish, FinishReason::kError);
          ASSERT_TRUE(ending.error.has_value());
          EXPECT_EQ(ending.error->code, ErrorCode::kDeviceLost);
        }
        std::vector<Submission> late;
        late.push_back(ask(prompt(5), 3));
        const auto refused = engine->submit(std::move(late));
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, ErrorCode::kDeviceLost);
      }
      runner.close();
      EXPECT_THAT(runner.paper().leaks(), IsEmpty());
      if (HasFailure()) return;
    }
  }
}

TEST(LostDevice, WithoutItJobsEndAsTheyShould) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  {
    const auto engine = engine_on(runner);
    std::vector<std::shared_ptr<Job>> jobs;
    for (std::int64_t length : {3, 50, 7, 61, 20, 33}) jobs.push_back(start(*engine, ask(prompt(length), 40)));
    for (const auto& job : jobs) {
      ASSERT_TRUE(wait_end(*job));
      EXPECT_EQ(job->ending().finish, FinishReason::kLength);
      EXPECT_EQ(job->num_ids(), 40);
    }
  }
  runner.close();
  EXPECT_THAT(runner.paper().leaks(), IsEmpty());
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

}  // namespace
}  // namespace pagoda::engine
