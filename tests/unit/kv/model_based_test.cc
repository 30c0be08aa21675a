// 100,000 random operations against the plain reference; tests/slow has 1,000,000.
#include <gtest/gtest.h>

#include "unit/kv/random_operations.h"

namespace pagoda::kv {
namespace {

GroupConfig group(std::int64_t window, std::int64_t blocks) {
  return {.name = window == 0 ? "full" : "window", .block_size = 4, .block_count = blocks, .window = window};
}

void run(std::vector<GroupConfig> groups, std::uint32_t seed, std::int64_t operations) {
  RandomOperations random(std::move(groups), seed);
  for (std::int64_t i = 0; i < operations; ++i) {
    ASSERT_TRUE(random.step()) << "operation " << i << " of seed " << seed;
  }
  const RandomOperations::Tally& tally = random.tally();
  for (const std::int64_t count : {tally.opened, tally.refused, tally.hits, tally.extended, tally.pressed,
                                   tally.committed, tally.forked, tally.released, tally.dropped}) {
    EXPECT_GT(count, 0);
  }
  EXPECT_GT(random.cache().stats().counters.evictions, 0);
  EXPECT_GT(random.cache().stats().counters.protected_prefix_skips, 0);
  EXPECT_TRUE(random.drain());
}

TEST(ModelBasedTest, OneFullGroup) { run({group(0, 41)}, 1, 40'000); }
TEST(ModelBasedTest, FullAndWindowed) { run({group(0, 47), group(9, 23)}, 2, 40'000); }
TEST(ModelBasedTest, TwoWindowsOnly) { run({group(6, 19), group(13, 27)}, 3, 20'000); }
TEST(ModelBasedTest, ThreeGroups) { run({group(5, 29), group(0, 53), group(0, 37)}, 4, 20'000); }

}  // namespace
}  // namespace pagoda::kv
