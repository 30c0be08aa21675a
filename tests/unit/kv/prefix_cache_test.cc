#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <array>

namespace pagoda::kv {
namespace {

const std::array<GroupConfig, 1> kGroups = {{{.name = "full", .block_size = 3, .block_count = 5}}};

// CASES E2: were two contents ever to have one key, the ids and the parent tell them apart.
TEST(PrefixCacheTest, E2_AHitIsVerifiedByItsIdsAndParent) {
  PrefixCache cache(kGroups);
  std::array<BlockPool, 1> pools = {BlockPool(5)};
  const Digest key{1}, parent{2}, stranger{3};
  const std::array<std::int32_t, 3> tokens = {7, 8, 9}, other = {7, 8, 1};
  const std::array<BlockId, 1> first = {pools[0].take()}, second = {pools[0].take()};
  cache.publish(key, parent, tokens, first, pools);
  EXPECT_NE(cache.find(key, parent, tokens), PrefixCache::kNoEntry);
  EXPECT_EQ(cache.find(key, parent, other), PrefixCache::kNoEntry);
  EXPECT_EQ(cache.find(key, stranger, tokens), PrefixCache::kNoEntry);
  EXPECT_EQ(cache.find(stranger, parent, tokens), PrefixCache::kNoEntry);

  cache.publish(key, parent, other, second, pools);  // the first keeps the key
  EXPECT_EQ(cache.block(cache.find(key, parent, tokens), 0), first[0]);
  EXPECT_EQ(cache.find(key, parent, other), PrefixCache::kNoEntry);
  EXPECT_EQ(pools[0].references(second[0]), 1u);
  EXPECT_EQ(cache.size(), 1);
  cache.verify(pools);
}

// Keys that fall into one bucket are chained; entries come and go in any order.
TEST(PrefixCacheTest, EntriesOfOneBucketComeAndGo) {
  PrefixCache cache(kGroups);
  std::array<BlockPool, 1> pools = {BlockPool(5)};
  const Digest parent{};
  const std::array<std::int32_t, 3> tokens = {1, 2, 3};
  std::array<Digest, 5> keys{};
  std::array<BlockId, 5> blocks{};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i][20] = static_cast<std::uint8_t>(i);  // the bucket is chosen by the first eight bytes
    blocks[i] = pools[0].take();
    cache.publish(keys[i], parent, tokens, std::span(&blocks[i], 1), pools);
  }
  for (const std::size_t i : {2u, 0u, 4u}) {
    ASSERT_TRUE(pools[0].release(blocks[i]).ok());
    EXPECT_EQ(cache.evict_longest_idle(0, pools), 1);
    EXPECT_EQ(cache.find(keys[i], parent, tokens), PrefixCache::kNoEntry);
    cache.verify(pools);
  }
  EXPECT_EQ(cache.block(cache.find(keys[1], parent, tokens), 0), blocks[1]);
  EXPECT_EQ(cache.block(cache.find(keys[3], parent, tokens), 0), blocks[3]);
  EXPECT_EQ(pools[0].free(), 3);
}

}  // namespace
}  // namespace pagoda::kv
