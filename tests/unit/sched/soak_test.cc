// Many requests at random, drained again and again: nothing is lost, nothing kept, nobody's ids change.
#include <gtest/gtest.h>

#include <random>

#include "unit/sched/scripted_engine.h"

namespace pagoda::sched {
namespace {

std::vector<kv::GroupConfig> full_and_windowed(std::int64_t full, std::int64_t windowed) {
  return {{.name = "full", .block_size = 8, .block_count = full},
          {.name = "window", .block_size = 8, .block_count = windowed, .window = 21}};
}

// CASES E1: 120 requests, 8 at a time, lengths around block borders.
TEST(SoakTest, E1_EveryBlockComesBack) {
  ScriptedEngine engine({.context = 300, .max_running = 8, .token_budget = 96, .prefill_chunk = 40},
                        full_and_windowed(160, 90));
  for (std::int64_t i = 0; i < 120; ++i) {
    const std::int64_t length = 8 * (1 + i % 9) + i % 3 - 1;
    engine.add(prompt_of(length), 1 + i % 25);
    if (i % 20 == 19) {
      engine.drain();
      engine.expect_idle();
    }
  }
  engine.cache.drop_idle_prefixes();
  for (const kv::GroupUsage& usage : engine.cache.stats().groups) EXPECT_EQ(usage.free, usage.total);
  for (const auto& [id, one] : engine.told) EXPECT_EQ(one.finish, FinishReason::kLength);
  engine.expect_solo_outputs();
}

struct Soak {
  const char* name;
  Limits limits;
  std::int64_t full_blocks;
  std::int64_t windowed_blocks;
  bool preempts;
};

class RandomSoakTest : public ::testing::TestWithParam<Soak> {};

// 2,000 requests, a quarter cancelled at random moments, in bursts, with shared prefixes and two salts.
TEST_P(RandomSoakTest, DrainsToTheIdleBaseline) {
  const Soak& soak = GetParam();
  ScriptedEngine engine(soak.limits, full_and_windowed(soak.full_blocks, soak.windowed_blocks));
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<SequenceId> alive;
  for (int i = 0; i < 2000; ++i) {
    alive.push_back(engine.add({.id = i,
                                .prompt = prompt_of(1 + below(90), below(70), below(4)),
                                .max_new_tokens = below(40),
                                .stop_ids = {below(kVocabulary)},
                                .priority = below(8) == 0 ? 1 : 0,
                                .cache_salt = below(3) == 0 ? "other" : ""}));
    if (below(4) == 0) engine.finish(alive[alive.size() - 1 - static_cast<std::size_t>(below(std::min(i + 1, 12)))]);
    for (int steps = below(7); steps > 0; --steps) engine.step();
    if (below(100) == 0) {
      engine.drain();
      engine.expect_idle();
    }
    ASSERT_FALSE(HasFailure()) << "request " << i;
  }
  engine.drain();
  engine.expect_idle();
  engine.expect_solo_outputs();
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_EQ(stats.finished + stats.cancelled, 2000);
  EXPECT_GT(stats.cancelled, 100);
  EXPECT_EQ(stats.preemptions > 0, soak.preempts) << stats.preemptions;
  EXPECT_GT(engine.cache.stats().counters.hit_tokens, 0);
  EXPECT_EQ(engine.on_device_rows() > 0, soak.limits.steps_in_flight == 2);
}

const Limits kSmall{.context = 140, .max_running = 7, .max_queued = 2000, .token_budget = 64, .prefill_chunk = 24};
const Limits kTiny{.context = 140, .max_running = 9, .max_queued = 2000, .token_budget = 5, .prefill_chunk = 3};

Limits overlapped(Limits limits) {
  limits.steps_in_flight = 2;
  return limits;
}

INSTANTIATE_TEST_SUITE_P(Engines, RandomSoakTest,
                         ::testing::Values(Soak{"Roomy", kSmall, 200, 100, false}, Soak{"Short", kSmall, 37, 29, true},
                                           Soak{"TinySteps", kTiny, 29, 19, true},
                                           Soak{"RoomyOverlapped", overlapped(kSmall), 200, 110, false},
                                           Soak{"ShortOverlapped", overlapped(kSmall), 37, 29, true},
                                           Soak{"TinyStepsOverlapped", overlapped(kTiny), 29, 19, true}),
                         [](const auto& soak) { return std::string(soak.param.name); });

// CASES E6 and D4: neither chunks, nor batch mates, nor overlap, nor prefix hits change an answer.
TEST(SoakTest, E6_D4_IdsDoNotDependOnChunksOrCompany) {
  for (const std::int32_t chunk : {1, 8, 16, 17, 64, 512}) {
    for (const std::int32_t in_flight : {1, 2}) {
      ScriptedEngine engine({.context = 600, .max_running = 5, .prefill_chunk = chunk, .steps_in_flight = in_flight},
                            full_and_windowed(400, 400));
      for (int i = 0; i < 12; ++i) engine.add(prompt_of(15 + 37 * i, 9 * i, i % 2), 20);
      engine.drain();
      engine.expect_idle();
      engine.expect_solo_outputs();
      for (const auto& [id, one] : engine.told) EXPECT_EQ(one.output.size(), 20u);
    }
  }
}

}  // namespace
}  // namespace pagoda::sched
