// A step allocates nothing: neither running it nor taking its results.
#include <gtest/gtest.h>

#include "fixtures/allocations.h"
#include "fixtures/runner_driver.h"

namespace pagoda::runtime {
namespace {

TEST(Allocation, StepsAllocateNothingOnceSequencesAreIn) {
  fixtures::TinyConfig config;
  config.format = "q8_0";
  const std::string bytes = fixtures::TinyModel(config).bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  model::PlanOptions options;
  options.max_step_tokens = 40;
  options.max_rows = 3;
  for (const fixtures::Setting& setting : fixtures::host_settings()) {
    fixtures::RunnerSetup setup(file, setting, options, 2, {.tokens = 900});
    fixtures::RunnerDriver driver(*setup);
    for (std::int32_t slot = 0; slot < 3; ++slot) {
      driver.start(slot, fixtures::some_ids(60, 67, 9u + static_cast<unsigned>(slot)),
                   fixtures::sampling([&](SamplingParams& p) {
                     p.temperature = static_cast<float>(slot);
                     p.top_p = slot == 2 ? 0.9f : 1.0f;
                     p.repetition_penalty = 1.1f;
                     p.logprobs = 3;
                   }));
    }
    for (int step = 0; step < 40; ++step) {
      const bool prefill = step < 6;
      std::vector<fixtures::Feed> feeds;
      for (std::int32_t slot = 0; slot < 3; ++slot) {
        feeds.push_back({.slot = slot, .count = prefill ? 10 : 1, .wants_id = step >= 5});
      }
      driver.step(feeds, [&](auto&& run) {
        const std::int64_t before = fixtures::num_allocations();
        run();
        if (step != 0 && step != 5 && step != 6) {  // results grow when more is wanted for the first time
          EXPECT_EQ(fixtures::num_allocations() - before, 0) << setting.name << ", step " << step;
        }
      });
    }
  }
  EXPECT_GT(fixtures::num_allocations(), 0);
}

}  // namespace
}  // namespace pagoda::runtime
