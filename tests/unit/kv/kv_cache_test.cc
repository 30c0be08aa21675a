#include "kv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace pagoda::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

GroupConfig full(std::int64_t blocks) { return {.name = "full", .block_size = 4, .block_count = blocks}; }

GroupConfig windowed(std::int64_t window, std::int64_t blocks) {
  return {.name = "window", .block_size = 4, .block_count = blocks, .window = window};
}

KvCache cache_of(std::vector<GroupConfig> groups, bool keep_prefixes = true) {
  return KvCache::create({.groups = std::move(groups), .keep_prefixes = keep_prefixes, .model_id = "m", .salt = "s"})
      .value();
}

Ids ids_of(std::int64_t count, std::int32_t first = 100) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

CachedSequence open(KvCache& cache, const Ids& ids, std::string_view salt = "") {
  return cache.open({.ids = ids, .cache_salt = salt}).value();
}

/// A whole life up to its end: all ids computed in one step.
CachedSequence compute(KvCache& cache, const Ids& ids, std::string_view salt = "") {
  CachedSequence sequence = open(cache, ids, salt);
  EXPECT_TRUE(cache.extend(sequence, std::ssize(ids) - sequence.token_len()).ok());
  cache.commit(sequence, ids);
  return sequence;
}

std::int64_t hit(KvCache& cache, const Ids& ids, std::string_view salt = "") {
  CachedSequence sequence = open(cache, ids, salt);
  const std::int64_t tokens = sequence.cached_tokens();
  EXPECT_EQ(tokens, sequence.token_len());
  cache.release(sequence);
  return tokens;
}

TEST(KvCacheTest, ConfigsOutOfRangeAreRefused) {
  const auto refused = [](std::vector<GroupConfig> groups) {
    return KvCache::create({.groups = std::move(groups)}).error().message;
  };
  EXPECT_THAT(refused({}), HasSubstr("no groups"));
  EXPECT_THAT(refused({{.name = "g", .block_size = 0, .block_count = 4}}), HasSubstr("group g: block size 0"));
  EXPECT_THAT(refused({full(0)}), HasSubstr("0 blocks"));
  EXPECT_THAT(refused({full(std::int64_t{1} << 31)}), HasSubstr("2147483648 blocks"));
  EXPECT_THAT(refused({windowed(-1, 4)}), HasSubstr("window -1"));
  EXPECT_THAT(refused({full(4), {.name = "other", .block_size = 8, .block_count = 4}}), HasSubstr("block size 8"));
}

TEST(KvCacheTest, AHitIsTheLongestPrefixOfWholeBlocks) {
  KvCache cache = cache_of({full(20)});
  CachedSequence first = compute(cache, ids_of(11));
  EXPECT_EQ(hit(cache, ids_of(30)), 8);  // while the first still lives
  cache.release(first);
  EXPECT_EQ(hit(cache, ids_of(30)), 8);
  EXPECT_EQ(hit(cache, ids_of(6)), 4);
  Ids other = ids_of(30);
  other[5] = 7;
  EXPECT_EQ(hit(cache, other), 4);
  other[0] = 7;
  EXPECT_EQ(hit(cache, other), 0);
}

// Something must be computed, and to keep all bits equal it is the whole last block.
TEST(KvCacheTest, AFullHitLeavesTheLastBlockToCompute) {
  KvCache cache = cache_of({full(20)});
  CachedSequence first = compute(cache, ids_of(12));
  cache.release(first);
  EXPECT_EQ(hit(cache, ids_of(12)), 8);
  EXPECT_EQ(hit(cache, ids_of(13)), 12);
  EXPECT_EQ(hit(cache, ids_of(1)), 0);
}

TEST(KvCacheTest, SaltsAndOrderSeparate) {
  KvCache cache = cache_of({full(20)});
  CachedSequence mine = compute(cache, ids_of(9), "me");
  cache.release(mine);
  EXPECT_EQ(hit(cache, ids_of(9), "me"), 8);
  EXPECT_EQ(hit(cache, ids_of(9), "you"), 0);
  EXPECT_EQ(hit(cache, ids_of(9)), 0);
  EXPECT_EQ(hit(cache, ids_of(5, 104), "me"), 0);  // the second block's ids, but not after the first
}

TEST(KvCacheTest, SequencesMayStayPrivateOrRefuseToReuse) {
  KvCache cache = cache_of({full(20)});
  const Ids ids = ids_of(9);
  CachedSequence hidden = cache.open({.ids = ids, .publish = false}).value();
  ASSERT_TRUE(cache.extend(hidden, 9).ok());
  cache.commit(hidden, ids);
  EXPECT_EQ(hit(cache, ids), 0);
  cache.release(hidden);
  EXPECT_EQ(cache.stats().groups[0].free, 20);
  CachedSequence shown = compute(cache, ids);
  CachedSequence fresh = cache.open({.ids = ids, .reuse = false}).value();
  EXPECT_EQ(fresh.cached_tokens(), 0);
  cache.release(shown);
  cache.release(fresh);
  KvCache forgetful = cache_of({full(20)}, false);
  CachedSequence first = compute(forgetful, ids);
  forgetful.release(first);
  EXPECT_EQ(hit(forgetful, ids), 0);
  EXPECT_EQ(forgetful.stats().groups[0].free, 20);
  EXPECT_EQ(forgetful.stats().counters, PrefixCounters());
}

TEST(KvCacheTest, CountersSayWhatHappened) {
  KvCache cache = cache_of({full(20)});
  CachedSequence first = compute(cache, ids_of(11));
  EXPECT_EQ(cache.stats().counters, (PrefixCounters{.probes = 1, .misses = 1, .miss_tokens = 11}));
  EXPECT_EQ(hit(cache, ids_of(10)), 8);
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.counters, (PrefixCounters{.probes = 2, .hits = 1, .misses = 2, .hit_tokens = 8, .miss_tokens = 13}));
  EXPECT_EQ(stats.prefixes, 2);
  EXPECT_EQ(stats.sequences, 1);
  EXPECT_EQ(stats.groups[0], (GroupUsage{.total = 20, .free = 17, .live = 3, .cached = 0}));
  cache.release(first);
  EXPECT_EQ(cache.stats().groups[0], (GroupUsage{.total = 20, .free = 18, .live = 0, .cached = 2}));
}

// What can never fit, and what does not fit now.
TEST(KvCacheTest, BothPressureErrorsNameTheirNumbers) {
  KvCache cache = cache_of({full(5)});
  const Ids long_ids = ids_of(21), ids = ids_of(9), other = ids_of(9, 500);
  const Error never = cache.open({.ids = long_ids, .room_tokens = 0}).error();
  EXPECT_EQ(never.code, ErrorCode::kCacheCapacity);
  EXPECT_THAT(never.message, HasSubstr("21 tokens need 6 blocks of cache group full, which has 5"));
  EXPECT_EQ(cache.capacity_tokens(1), 20);

  CachedSequence first = compute(cache, ids);
  const Error now = cache.open({.ids = other}).error();
  EXPECT_EQ(now.code, ErrorCode::kCachePressure);
  EXPECT_THAT(now.message, HasSubstr("2 of 5 can be had now"));
  const Status more = cache.extend(first, 12);
  EXPECT_EQ(more.error().code, ErrorCode::kCacheCapacity);
  EXPECT_EQ(first.token_len(), 9);

  CachedSequence second =
      cache.open({.ids = other, .room_tokens = 0, .step_tokens = 1}).ok() ? CachedSequence() : open(cache, ids_of(3));
  ASSERT_TRUE(cache.extend(second, 3).ok());
  const Status pressed = cache.extend(first, 8);
  EXPECT_EQ(pressed.error().code, ErrorCode::kCachePressure);
  EXPECT_THAT(pressed.error().message, HasSubstr("8 more tokens need 2 blocks of cache group full; 1 of 5"));
  EXPECT_EQ(first.token_len(), 9);
  cache.release(second);
  EXPECT_TRUE(cache.extend(first, 8).ok());
  cache.release(first);
}

TEST(KvCacheTest, HeadroomIsLeftToOthers) {
  KvCache cache = cache_of({full(5)});
  const Ids ids = ids_of(7);
  const std::vector<std::int64_t> promised = {4}, less = {3};
  EXPECT_EQ(cache.open({.ids = ids, .headroom_blocks = promised}).error().code, ErrorCode::kCachePressure);
  Result<CachedSequence> opened = cache.open({.ids = ids, .headroom_blocks = less});
  ASSERT_TRUE(opened.ok());
  cache.release(*opened);
}

TEST(KvCacheTest, TheLongestIdleAreEvictedFirstDeepestBlockFirst) {
  KvCache cache = cache_of({full(6)});
  CachedSequence a = compute(cache, ids_of(8, 100));
  CachedSequence b = compute(cache, ids_of(8, 200));
  cache.release(a);
  cache.release(b);
  EXPECT_EQ(hit(cache, ids_of(9, 100)), 8);  // so `a` is younger now
  CachedSequence c = compute(cache, ids_of(11, 300));
  EXPECT_EQ(cache.stats().counters.evictions, 1);
  EXPECT_EQ(hit(cache, ids_of(9, 200)), 4);
  EXPECT_EQ(hit(cache, ids_of(9, 100)), 8);
  cache.release(c);
}

// A hit's blocks are held before anything is evicted for the rest of the sequence.
TEST(KvCacheTest, AHitIsNotEvictedForItsOwnSequence) {
  KvCache cache = cache_of({full(4)});
  CachedSequence first = compute(cache, ids_of(8));
  cache.release(first);
  const Ids ids = ids_of(15);
  CachedSequence again = open(cache, ids);
  EXPECT_EQ(again.cached_tokens(), 8);
  const std::vector<BlockId> held(again.table(0).blocks().begin(), again.table(0).blocks().end());
  ASSERT_TRUE(cache.extend(again, 7).ok());
  EXPECT_EQ(again.table(0).blocks()[0], held[0]);
  EXPECT_EQ(again.table(0).blocks()[1], held[1]);
  EXPECT_EQ(cache.stats().counters.evictions, 0);
  cache.release(again);
}

TEST(KvCacheTest, ProtectedPrefixesAreCountedWhenOthersAreEvicted) {
  KvCache cache = cache_of({full(5)});
  CachedSequence held = compute(cache, ids_of(8));
  CachedSequence gone = compute(cache, ids_of(8, 200));
  cache.release(gone);
  CachedSequence needy = compute(cache, ids_of(6, 300));
  EXPECT_EQ(cache.stats().counters.evictions, 1);
  EXPECT_EQ(cache.stats().counters.protected_prefix_skips, 2);
  cache.release(held);
  cache.release(needy);
}

// The newest block of the same content takes the key over.
TEST(KvCacheTest, TwoThatComputedTheSameKeepOneBlock) {
  KvCache cache = cache_of({full(9)});
  CachedSequence a = open(cache, ids_of(5)), b = open(cache, ids_of(5));
  ASSERT_TRUE(cache.extend(a, 5).ok() && cache.extend(b, 5).ok());
  cache.commit(a, ids_of(5));
  cache.commit(b, ids_of(5));
  EXPECT_EQ(cache.pool(0).references(a.table(0).blocks()[0]), 1u);
  EXPECT_EQ(cache.pool(0).references(b.table(0).blocks()[0]), 2u);
  cache.release(a);
  cache.release(b);
  EXPECT_EQ(cache.stats().groups[0].cached, 1);
  cache.verify();
}

// CASES E4: a window of 6 and blocks of 4. A query at 12 sees 7 and later, one at 16 sees 11 and later.
TEST(KvCacheTest, E4_WindowedBlocksReturnWhenNoQueryNeedsThem) {
  KvCache cache = cache_of({full(20), windowed(6, 20)});
  CachedSequence sequence = open(cache, ids_of(30));
  ASSERT_TRUE(cache.extend(sequence, 16).ok());
  cache.commit(sequence, ids_of(11));
  EXPECT_THAT(sequence.table(1).blocks(), ElementsAre(0, 1, 2, 3));
  cache.commit(sequence, ids_of(12));
  EXPECT_THAT(sequence.table(1).blocks(), ElementsAre(kNoBlock, 1, 2, 3));
  cache.commit(sequence, ids_of(15));  // the next query needs block 2 alone, but who forks at 12 needs 1
  EXPECT_THAT(sequence.table(1).blocks(), ElementsAre(kNoBlock, 1, 2, 3));
  cache.commit(sequence, ids_of(16));
  EXPECT_THAT(sequence.table(1).blocks(), ElementsAre(kNoBlock, kNoBlock, 2, 3));
  EXPECT_THAT(sequence.table(0).blocks(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(cache.stats().groups[1].live, 2);
  EXPECT_EQ(cache.stats().groups[1].cached, 2);
  cache.release(sequence);
}

TEST(KvCacheTest, E4_AWindowedGroupNeedsOnlyTheEndOfAHit) {
  KvCache cache = cache_of({full(20), windowed(6, 20)});
  CachedSequence first = compute(cache, ids_of(16));
  cache.release(first);
  CachedSequence again = open(cache, ids_of(17));
  EXPECT_EQ(again.cached_tokens(), 16);
  EXPECT_EQ(again.table(1).blocks()[1], kNoBlock);  // holds 4 to 7; the query at 16 sees 11
  EXPECT_NE(again.table(1).blocks()[2], kNoBlock);
  cache.release(again);
}

TEST(KvCacheTest, AHitEndsWhereEveryGroupCanRestoreIt) {
  KvCache cache = cache_of({full(20), windowed(6, 6)});
  for (const Ids& ids : {ids_of(16), ids_of(8, 500), ids_of(8, 700)}) {
    CachedSequence sequence = compute(cache, ids);
    cache.release(sequence);
  }
  // The third took the windowed blocks of tokens 0 to 7; a hit of 16 tokens sees 11 and later.
  EXPECT_EQ(hit(cache, ids_of(9)), 0);
  EXPECT_EQ(hit(cache, ids_of(17)), 16);
  CachedSequence fourth = compute(cache, ids_of(20, 900));  // takes those of the others, and of tokens 8 to 11
  cache.release(fourth);
  EXPECT_EQ(hit(cache, ids_of(17)), 0);
  EXPECT_EQ(cache.stats().groups[0].cached, 4 + 2 + 2 + 5);  // the full group still has all of them
}

TEST(KvCacheTest, AForkSharesWholeBlocksAndGoesItsOwnWay) {
  KvCache cache = cache_of({full(20), windowed(6, 20)});
  CachedSequence parent = compute(cache, ids_of(15));
  CachedSequence twin = cache.fork(parent);
  EXPECT_EQ(twin.token_len(), 12);
  EXPECT_EQ(twin.table(0).blocks()[2], parent.table(0).blocks()[2]);
  ASSERT_TRUE(cache.extend(twin, 4).ok());
  EXPECT_NE(twin.table(0).blocks()[3], parent.table(0).blocks()[3]);
  Ids own = ids_of(16);
  own[14] = 3;
  cache.commit(twin, own);
  cache.release(parent);
  cache.release(twin);
  own.push_back(1);
  EXPECT_EQ(hit(cache, own), 16);
  EXPECT_EQ(cache.stats().groups[0].live, 0);
  cache.verify();
}

TEST(KvCacheTest, DroppingIdlePrefixesFreesThem) {
  KvCache cache = cache_of({full(20), windowed(6, 20)});
  CachedSequence gone = compute(cache, ids_of(16));
  CachedSequence stays = compute(cache, ids_of(9, 300));
  cache.release(gone);
  cache.drop_idle_prefixes();
  EXPECT_EQ(hit(cache, ids_of(17)), 0);
  EXPECT_EQ(hit(cache, ids_of(10, 300)), 8);
  EXPECT_EQ(cache.stats().groups[0].cached, 0);
  cache.release(stays);
}

TEST(KvCacheTest, CapacityOfWindowedGroupsHasNoEnd) {
  EXPECT_EQ(cache_of({full(20), windowed(6, 4)}).capacity_tokens(3), 80);
  EXPECT_EQ(cache_of({full(20), windowed(6, 2)}).capacity_tokens(3), 8);
  EXPECT_EQ(cache_of({windowed(6, 4)}).capacity_tokens(3), std::numeric_limits<std::int64_t>::max());
}

// CASES E10: a sequence in the highest blocks of a large pool has tables and writes as right as in the lowest.
TEST(KvCacheTest, E10_TheHighestBlocksOfALargePool) {
  constexpr std::int64_t kBlocks = 1'000'003;
  KvCache cache = KvCache::create({.groups = {{.name = "full", .block_size = 256, .block_count = kBlocks}},
                                   .keep_prefixes = false,
                                   .model_id = "m",
                                   .salt = "s"})
                      .value();
  CachedSequence most = open(cache, ids_of(1));
  ASSERT_TRUE(cache.extend(most, (kBlocks - 2) * 256).ok());
  CachedSequence last = open(cache, ids_of(300));
  ASSERT_TRUE(cache.extend(last, 300).ok());
  const std::span<const BlockId> blocks = last.table(0).blocks();
  EXPECT_THAT(blocks, ElementsAre(kBlocks - 2, kBlocks - 1));
  EXPECT_EQ(slot_index(blocks[1], 256, 299), (kBlocks - 1) * 256 + 43);
  cache.release(most);
  cache.release(last);
}

TEST(KvCacheDeathTest, ASequenceMustBeReleased) {
  KvCache cache = cache_of({full(9)});
  EXPECT_DEATH({ CachedSequence lost = open(cache, ids_of(5)); }, "before its release");
}

}  // namespace
}  // namespace pagoda::kv
