// The model-based test of the KV bookkeeping, 1,000,000 operations over new seeds.
#include <gtest/gtest.h>

#include "unit/kv/random_operations.h"

namespace pagoda::kv {
namespace {

TEST(KvModelBasedSlowTest, MillionOperations) {
  for (std::uint32_t seed = 100; seed < 140; ++seed) {
    const std::int64_t full = 33 + seed % 23, windowed = 17 + seed % 11, window = 1 + seed % 19;
    RandomOperations random({{.name = "full", .block_size = 4, .block_count = full},
                             {.name = "window", .block_size = 4, .block_count = windowed, .window = window}},
                            seed);
    for (std::int64_t i = 0; i < 25'000; ++i) {
      ASSERT_TRUE(random.step()) << "operation " << i << " of seed " << seed;
    }
    EXPECT_TRUE(random.drain());
  }
}

}  // namespace
}  // namespace pagoda::kv
