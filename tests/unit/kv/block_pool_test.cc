#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pagoda::kv {
namespace {

using ::testing::HasSubstr;

TEST(BlockPoolTest, FreeBlocksAreTakenInTheOrderTheyCameBack) {
  BlockPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_TRUE(pool.release(1).value());
  EXPECT_TRUE(pool.release(0).value());
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.free(), 0);
  pool.verify();
}

TEST(BlockPoolTest, ReleaseFreesOnlyTheLastReference) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  ASSERT_TRUE(pool.retain(block).ok());
  EXPECT_FALSE(pool.release(block).value());
  EXPECT_TRUE(pool.release(block).value());
  EXPECT_EQ(pool.free(), 2);
}

TEST(BlockPoolTest, MisuseIsAnErrorWithValues) {
  BlockPool pool(2);
  EXPECT_THAT(pool.retain(0).error().message, HasSubstr("block 0 is retained, but it is free"));
  EXPECT_THAT(pool.release(0).error().message, HasSubstr("block 0 is released, but it is free"));
  EXPECT_THAT(pool.retain(2).error().message, HasSubstr("block 2 is retained, but there are 2"));
  EXPECT_THAT(pool.release(-1).error().message, HasSubstr("block -1"));
  const BlockId block = pool.take();
  pool.add_to_prefix_cache(block, 7);
  EXPECT_FALSE(pool.release(block).value());
  EXPECT_THAT(pool.release(block).error().message, HasSubstr("only the prefix cache holds it"));
  pool.verify();
}

TEST(BlockPoolTest, EachBlockIsInOneState) {
  BlockPool pool(4);
  const BlockId a = pool.take(), b = pool.take(), c = pool.take();
  pool.add_to_prefix_cache(a, 0);
  pool.add_to_prefix_cache(b, 1);
  EXPECT_EQ(pool.live(), 3);
  EXPECT_EQ(pool.in_prefix_cache(), 2);
  ASSERT_TRUE(pool.release(b).ok());
  ASSERT_TRUE(pool.release(a).ok());
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.live(), 1);
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.longest_idle(), b);
  ASSERT_TRUE(pool.retain(b).ok());  // a hit
  EXPECT_EQ(pool.longest_idle(), a);
  pool.remove_from_prefix_cache(a);
  pool.remove_from_prefix_cache(b);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.references(b), 1u);
  EXPECT_EQ(pool.references(c), 1u);
  pool.verify();
}

TEST(BlockPoolDeathTest, TakingFromAnEmptyPoolAborts) {
  BlockPool pool(1);
  pool.take();
  EXPECT_DEATH(pool.take(), "no block of 1 is free");
}

}  // namespace
}  // namespace pagoda::kv
