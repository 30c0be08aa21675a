// A step allocates nothing: neither composing it nor taking its results.
#include <gtest/gtest.h>

#include "fixtures/allocations.h"
#include "unit/sched/scripted_engine.h"

namespace pagoda::sched {
namespace {

TEST(AllocationTest, StepsAllocateNothingOnceSequencesAreIn) {
  kv::KvCache cache =
      kv::KvCache::create({.groups = {{.name = "full", .block_size = 8, .block_count = 900},
                                      {.name = "window", .block_size = 8, .block_count = 400, .window = 21}},
                           .model_id = "m"})
          .value();
  const Limits limits{.context = 700, .max_running = 6, .token_budget = 64, .prefill_chunk = 24};
  Scheduler scheduler = Scheduler::create(limits, cache).value();
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(scheduler.add({.prompt = prompt_of(90 * (i + 1)), .max_new_tokens = 300}).ok());
  }
  const Ids ids(6, 4);
  for (int step = 0; step < 140; ++step) {
    const std::int64_t before = fixtures::num_allocations();
    const Batch* batch = scheduler.next();
    ASSERT_NE(batch, nullptr);
    const std::int64_t composed = fixtures::num_allocations();
    const auto drawn = static_cast<std::size_t>(batch->num_ids());
    EXPECT_TRUE(scheduler.complete(batch->step, std::span(ids).first(drawn)).size() <= 6);
    if (!batch->admitted.empty()) continue;  // a sequence comes in with its memory
    EXPECT_EQ(composed - before, 0) << "composing step " << step;
    EXPECT_EQ(fixtures::num_allocations() - composed, 0) << "completing step " << step;
  }
  EXPECT_GT(fixtures::num_allocations(), 0);
}

}  // namespace
}  // namespace pagoda::sched
