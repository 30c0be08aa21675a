#include "kv/group_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace pagoda::kv {
namespace {

// CASES E4: the window counts the query itself. Held against the definition, position by position.
TEST(GroupConfigTest, E4_FirstNeededBlockIsThatOfTheOldestVisibleKey) {
  for (const std::int32_t block_size : {1, 3, 8, 16}) {
    for (const std::int64_t window : {0, 1, 2, 5, 8, 9, 24, 31}) {
      const GroupConfig group{.block_size = block_size, .window = window};
      for (std::int64_t position = 0; position < 100; ++position) {
        std::int64_t oldest = position;
        while (oldest > 0 && (window == 0 || position - (oldest - 1) < window)) --oldest;
        EXPECT_EQ(group.first_needed_block(position), oldest / block_size)
            << "block size " << block_size << ", window " << window << ", position " << position;
      }
    }
  }
}

TEST(GroupConfigTest, PeakBlocksCoversEveryStepAndIsReached) {
  for (const std::int64_t window : {1, 7, 16, 37, 128}) {
    for (const std::int64_t step : {1, 2, 5, 16, 33}) {
      const GroupConfig group{.block_size = 16, .window = window};
      std::int64_t most = 0;
      for (std::int64_t start = 0; start < 400; ++start) {
        most = std::max(most, (start + step - 1) / 16 - group.first_kept_block(start) + 1);
      }
      EXPECT_EQ(group.peak_blocks(100'000, step), most) << "window " << window << ", step " << step;
      EXPECT_EQ(group.peak_blocks(5, step), 1);
    }
  }
}

TEST(GroupConfigTest, PeakOfADecodeIsTheReferencesRing) {
  const GroupConfig group{.block_size = 16, .window = 128};
  EXPECT_EQ(group.peak_blocks(100'000, 1), 9);  // ceil((128 + 16 - 1) / 16)
}

// CASES E10: a pool of more than 2^31 tokens, whose highest blocks must not wrap.
TEST(GroupConfigTest, E10_SlotsAre64Bit) {
  EXPECT_EQ(slot_index(2'147'483'646, 256, 255), 549'755'813'631);
  EXPECT_EQ(slot_index(134'217'728, 16, 3), 2'147'483'651);
  EXPECT_EQ(slot_index(5, 16, 3'000'000'007), 87);
}

}  // namespace
}  // namespace pagoda::kv
