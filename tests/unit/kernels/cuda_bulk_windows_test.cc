// How much of a weight blocks of few-row products keep under way where some have a tile more than others.
#include <gtest/gtest.h>

#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

MmaBulkRowsParams windows(std::int64_t tiles, std::int64_t blocks, int window, int stages) {
  MmaBulkRowsParams params{};
  params.stages = stages;
  set_windows(params, tiles, blocks, window);
  return params;
}

TEST(BulkWindows, BlocksWithMoreTilesKeepMoreUnderWay) {
  const MmaBulkRowsParams uneven = windows(160, 132, 3, 13);
  EXPECT_EQ(uneven.window, 3);
  EXPECT_EQ(uneven.long_blocks, 28);
  EXPECT_EQ(uneven.long_window, 5);  // 2 tiles where the mean is 1.21
  EXPECT_EQ(windows(160, 132, 3, 4).long_window, 4) << "no more than the ring has";
}

TEST(BulkWindows, WhereTilesAreNearlyEvenNothingChanges) {
  for (const std::int64_t tiles : {1, 7, 131, 132, 256, 384, 608, 9496}) {
    for (const int stages : {2, 3, 13, 32}) {
      const std::int64_t blocks = std::min<std::int64_t>(tiles, 132);
      const MmaBulkRowsParams params = windows(tiles, blocks, 3, stages);
      EXPECT_EQ(params.window, std::min(3, stages));
      EXPECT_EQ(params.long_blocks, tiles % blocks);
      if (params.long_blocks == 0) continue;  // then it is not looked at
      EXPECT_EQ(params.long_window, params.window) << tiles;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
