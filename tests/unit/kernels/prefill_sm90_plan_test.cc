#include "kernels/attention/prefill_sm90_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace pagoda::kernels {
namespace {

using device::cuda::DriverApi;
using device::cuda::Result32;
using device::cuda::TensorMap;

constexpr std::int64_t kDims[] = {64, 80, 96, 128, 192, 256};

TEST(PrefillSm90Plan, TilesFitAMultiprocessor) {
  for (const std::int64_t key_dim : kDims) {
    for (const std::int64_t value_dim : kDims) {
      const auto plan =
          plan_prefill_sm90({.heads = 21, .kv_heads = 3, .key_dim = key_dim, .value_dim = value_dim, .block_size = 32});
      ASSERT_TRUE(plan) << key_dim << " " << value_dim;
      EXPECT_LE(plan->shared_bytes, 227 * 1024);
      EXPECT_EQ(plan->item_tokens, plan->variant.warpgroups * 64 / 7);
      EXPECT_EQ(plan->threads, static_cast<std::uint32_t>(plan->variant.warpgroups * 128 + 128));
      EXPECT_EQ(plan->unit.architecture, "sm_90a");
      EXPECT_THAT(plan->unit.defines, testing::IsSupersetOf({pagoda::format("HEAD_DIM_K={}", key_dim),
                                                             pagoda::format("HEAD_DIM_V={}", value_dim),
                                                             std::string("GROUP=7"), std::string("SOFTCAP=0")}));
    }
  }
}

TEST(PrefillSm90Plan, WhatItDoesNotTake) {
  const PrefillSm90Problem good{.heads = 8, .kv_heads = 2, .key_dim = 128, .value_dim = 128, .block_size = 16};
  ASSERT_TRUE(plan_prefill_sm90(good));
  std::vector<PrefillSm90Problem> bad(7, good);
  bad[0].key_dim = 72;
  bad[1].value_dim = 32;
  bad[2].block_size = 24;
  bad[3].block_size = 4;
  bad[4].block_size = 512;
  bad[5].heads = 130;
  bad[6].key_dim = 512;
  for (const PrefillSm90Problem& problem : bad) EXPECT_FALSE(plan_prefill_sm90(problem));
  EXPECT_FALSE(plan_prefill_sm90(good, {.warpgroups = 2, .keys = 128, .stages = 4}));
}

TEST(PrefillSm90Plan, BoxesDivideBlocksAndTiles) {
  for (const std::int32_t keys : {64, 80, 96, 128, 160, 176}) {
    for (std::int32_t block = 8; block <= 256; block *= 2) {
      const std::int32_t slots = prefill_box_slots(block, keys);
      EXPECT_EQ(block % slots, 0);
      EXPECT_EQ(keys % slots, 0);
      EXPECT_LE(keys / slots, 32) << "a lane has one box";
      EXPECT_EQ(slots % 8, 0) << "the swizzle's groups";
    }
  }
}

TEST(PrefillSm90Plan, BlocksAreNoMoreThanWorks) {
  EXPECT_EQ(prefill_sm90_blocks(3, 5, 132), 15u);
  EXPECT_EQ(prefill_sm90_blocks(300, 5, 132), 132u);
}

/// What a driver is asked to describe.
struct Asked {
  const void* address;
  std::vector<std::uint64_t> sizes, strides;
  std::vector<std::uint32_t> box;
};
std::vector<Asked> asked;

Result32 record(TensorMap* map, std::int32_t, std::uint32_t rank, void* address, const std::uint64_t* sizes,
                const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t*, std::int32_t,
                std::int32_t, std::int32_t, std::int32_t) {
  asked.push_back({address, {sizes, sizes + rank}, {strides, strides + rank - 1}, {box, box + rank}});
  map->opaque[0] = asked.size();
  return device::cuda::kSuccess;
}

TEST(PrefillSm90Plan, MapsFollowTheLayoutOfPages) {
  DriverApi api{};
  api.tensor_map_encode_tiled = record;
  alignas(16) static std::byte pages[32 * 384 + 16];
  PrefillSm90Params params{};
  asked.clear();
  set_page_maps(device::cuda::Driver(api),
                {.heads = 9, .kv_heads = 3, .key_dim = 192, .value_dim = 128, .block_size = 32}, 176, pages, 77, 70000,
                params);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(params.keys.opaque[0], 1u);
  EXPECT_EQ(params.values.opaque[0], 2u);
  EXPECT_EQ(asked[0].address, pages);
  EXPECT_THAT(asked[0].sizes, testing::ElementsAre(192u, 32u, 3u, 77u));
  EXPECT_THAT(asked[0].strides, testing::ElementsAre(384u, 32u * (192 + 128) * 2, 70000u));
  EXPECT_THAT(asked[0].box, testing::ElementsAre(64u, 16u, 1u, 1u));
  EXPECT_EQ(asked[1].address, pages + 32 * 384);
  EXPECT_THAT(asked[1].sizes, testing::ElementsAre(128u, 32u, 3u, 77u));
  EXPECT_THAT(asked[1].strides, testing::ElementsAre(256u, 32u * (192 + 128) * 2, 70000u));
}

}  // namespace
}  // namespace pagoda::kernels
