#include "kernels/linear/cuda_wgmma_tiles_plan.h"

#include <gtest/gtest.h>

#include "device/cuda/driver.h"
#include "quant/format.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kSms = 132;
constexpr std::int64_t kSharedBytes = 232448;

WgmmaTilesProblem problem(std::int64_t m, std::array<std::int64_t, 3> n, std::int64_t k, int epilogue) {
  return {.m = m, .n = n, .k = k, .epilogue = epilogue, .may_split = epilogue == 1};
}

TEST(WgmmaTilesPlan, ABatchOfDecodeTakesAllItsRowsInOneBlock) {
  for (const std::int64_t m : {17, 33, 64, 65, 128}) {
    const auto shape = choose_wgmma_tiles(problem(m, {4096, 1024, 1024}, 2560, 0), kSms);
    EXPECT_GE(shape.block_tokens, m);
    EXPECT_LT(shape.block_tokens, m + 64);
    EXPECT_EQ(shape.splits, 1);
  }
}

TEST(WgmmaTilesPlan, TheShapesThatWereFastestOnAnH200AreChosen) {
  EXPECT_EQ(choose_wgmma_tiles(problem(256, {28672}, 4096, 0), kSms), (WgmmaTilesShape{2, 256, 2, 1}));
  EXPECT_EQ(choose_wgmma_tiles(problem(256, {4096, 1024, 1024}, 2560, 0), kSms), (WgmmaTilesShape{2, 128, 2, 1}));
  EXPECT_EQ(choose_wgmma_tiles(problem(256, {2560}, 4096, 1), kSms), (WgmmaTilesShape{2, 128, 2, 3}));
  EXPECT_EQ(choose_wgmma_tiles(problem(256, {2560}, 9728, 1), kSms), (WgmmaTilesShape{2, 128, 2, 3}));
  EXPECT_EQ(choose_wgmma_tiles(problem(2048, {28672}, 4096, 0), kSms), (WgmmaTilesShape{2, 256, 2, 1, 2}));
  EXPECT_EQ(choose_wgmma_tiles(problem(2048, {2560}, 4096, 2), kSms), (WgmmaTilesShape{2, 192, 2, 1}));
}

// 152 blocks of 128 rows are two rounds of 132 multiprocessors, 122 of 160 rows are one.
TEST(WgmmaTilesPlan, OtherNumbersOfColumnsSaveARound) {
  const std::array<std::int64_t, 3> gate_up = {9728, 9728};
  EXPECT_EQ(choose_wgmma_tiles(problem(256, gate_up, 2560, 3), kSms), (WgmmaTilesShape{2, 256, 2, 1, 1, 160}));
  EXPECT_EQ(choose_wgmma_tiles(problem(128, gate_up, 2560, 3), kSms), (WgmmaTilesShape{2, 128, 2, 1, 1, 160}));
  EXPECT_EQ(choose_wgmma_tiles(problem(64, gate_up, 2560, 3), kSms), (WgmmaTilesShape{2, 64, 2, 1, 1, 160}));
  const WgmmaTilesPlan plan =
      plan_wgmma_tiles(problem(200, gate_up, 2560, 3), {2, 256, 2, 1, 1, 160}, kSms, kSharedBytes);
  EXPECT_EQ(plan.blocks, 122u);
  EXPECT_EQ(plan.stages, 4);
  EXPECT_STREQ(plan.function, "wgmma_columns");
  // Neither many rows, nor what is no bf16.
  for (const std::int64_t m : {384, 512, 2048}) {
    EXPECT_FALSE(choose_wgmma_tiles(problem(m, gate_up, 2560, 3), kSms).columns()) << m;
  }
  auto e4m3 = problem(256, gate_up, 2560, 3);
  e4m3.weights = kWgmmaE4m3Rows;
  EXPECT_FALSE(choose_wgmma_tiles(e4m3, kSms).columns());
}

TEST(WgmmaTilesPlan, OneScaleARowLeavesRoomForLargerBlocks) {
  auto p = problem(2048, {14336, 14336}, 4096, 3);
  p.weights = kWgmmaE4m3;
  EXPECT_EQ(choose_wgmma_tiles(p, kSms), (WgmmaTilesShape{2, 128, 2, 1, 2}));
  const WgmmaTilesPlan blocks = plan_wgmma_tiles(p, {2, 128, 2, 1, 2}, kSms, kSharedBytes);
  p.weights = kWgmmaE4m3Rows;
  EXPECT_EQ(choose_wgmma_tiles(p, kSms), (WgmmaTilesShape{2, 256, 2, 1, 2}));
  const WgmmaTilesPlan rows = plan_wgmma_tiles(p, {2, 128, 2, 1, 2}, kSms, kSharedBytes);
  EXPECT_NE(blocks.defines, rows.defines);
  EXPECT_GT(blocks.threads, rows.threads);  // a warpgroup that gives registers away
  for (std::int64_t m = 17; m < 2500; m += 211) {
    p.m = m;
    EXPECT_GE(plan_wgmma_tiles(p, choose_wgmma_tiles(p, kSms), kSms, kSharedBytes).stages, 2) << m;
  }
}

WgmmaTilesProblem codes_problem(std::int64_t m, std::array<std::int64_t, 3> n, std::int64_t k, int epilogue) {
  WgmmaTilesProblem p = problem(m, n, k, epilogue);
  p.format = quant::find_format("packed4_g128");
  p.weights = wgmma_tiles_codes(*p.format->coding);
  return p;
}

TEST(WgmmaTilesPlan, CodesOfABatchFillTheMultiprocessors) {
  // 112 blocks of 256 rows are one round where 224 of 128 are two.
  EXPECT_EQ(choose_wgmma_tiles(codes_problem(64, {14336, 14336}, 4096, 3), kSms), (WgmmaTilesShape{4, 64, 2, 1}));
  EXPECT_EQ(choose_wgmma_tiles(codes_problem(64, {4096, 1024, 1024}, 4096, 0), kSms), (WgmmaTilesShape{1, 64, 4, 1}));
  EXPECT_EQ(choose_wgmma_tiles(codes_problem(64, {4096}, 14336, 1), kSms), (WgmmaTilesShape{2, 64, 4, 4}));
  EXPECT_EQ(choose_wgmma_tiles(codes_problem(17, {4096, 1024, 1024}, 4096, 0), kSms).block_tokens, 32);
  // A residual unit keeps what it adds to in registers that seventeen warps do not have.
  for (std::int64_t n = 64; n < 40000; n += 1111) {
    EXPECT_LE(choose_wgmma_tiles(codes_problem(64, {n}, 4096, 2), kSms).warpgroups, 2) << n;
  }
}

TEST(WgmmaTilesPlan, EveryShapeOfCodesThatIsChosenFits) {
  for (const quant::Format* format : quant::all_formats()) {
    if (format->coding == nullptr || format->coding->bits != 4) continue;  // others become mma16 first
    for (const std::int64_t m : {17, 33, 65, 129, 2048}) {
      for (const int epilogue : {0, 1, 2, 3}) {
        auto p = codes_problem(m, {30000, epilogue < 3 ? 0 : 30000}, 1024, epilogue);
        p.format = format;
        p.weights = wgmma_tiles_codes(*format->coding);
        EXPECT_GE(plan_wgmma_tiles(p, choose_wgmma_tiles(p, kSms), kSms, kSharedBytes).stages, 3) << format->name;
      }
    }
  }
}

TEST(WgmmaTilesPlan, ClustersAreWhole) {
  const auto p = problem(2048, {4096, 1000, 1000}, 4096, 0);
  WgmmaTilesShape shape{2, 256, 2, 1, 2};
  // 16 + 4 + 4 pairs of blocks of 128 rows, 8 tiles of x: 192 pairs on 65 pairs of multiprocessors.
  EXPECT_EQ(plan_wgmma_tiles(p, shape, 131, kSharedBytes).blocks, 130u);
  auto few = p;
  few.m = 256;
  EXPECT_EQ(wgmma_tiles_blocks(few, shape, kSms), 48u);
}

TEST(WgmmaTilesPlan, SlicesFillMultiprocessorsOnlyWhereTheyMay) {
  const auto down = problem(64, {2560}, 9728, 1);
  const auto shape = choose_wgmma_tiles(down, kSms);
  EXPECT_GT(shape.splits, 1);
  EXPECT_LE(plan_wgmma_tiles(down, shape, kSms, kSharedBytes).blocks, kSms);
  auto whole = down;
  whole.may_split = false;
  EXPECT_EQ(choose_wgmma_tiles(whole, kSms).splits, 1);
  EXPECT_EQ(choose_wgmma_tiles(problem(64, {2560}, 9728, 2), kSms).splits, 1);
}

TEST(WgmmaTilesPlan, EveryShapeThatIsChosenFits) {
  for (std::int64_t m = 1; m < 600; m += 13) {
    for (const auto& n : {std::array<std::int64_t, 3>{100}, {2500, 24, 516}, {151936}}) {
      for (const int epilogue : {0, 1, 2, 3, 4}) {
        const auto p = problem(m, epilogue < 3 ? n : std::array<std::int64_t, 3>{n[0], n[0]}, 1208, epilogue);
        const auto plan = plan_wgmma_tiles(p, choose_wgmma_tiles(p, kSms), kSms, kSharedBytes);
        EXPECT_GE(plan.stages, 2);
        EXPECT_LE(plan.stages, 32);
        EXPECT_LE(plan.shared_bytes + 1024, kSharedBytes);
        EXPECT_GE(plan.blocks, 1u);
        EXPECT_LE(plan.blocks, kSms);
        EXPECT_EQ(plan.defines.size(), plan.shape.columns() ? 4u : 7u);
      }
    }
  }
}

TEST(WgmmaTilesPlan, BlocksCountEachWeightsTilesByThemselves) {
  const WgmmaTilesShape shape{1, 64, 4, 1};
  // 100 rows are two blocks of 64, 24 rows one; of gate and up a block has 32 rows each.
  EXPECT_EQ(plan_wgmma_tiles(problem(64, {100, 24, 0}, 200, 0), shape, kSms, kSharedBytes).blocks, 3u);
  EXPECT_EQ(plan_wgmma_tiles(problem(64, {100, 100}, 200, 3), shape, kSms, kSharedBytes).blocks, 4u);
  EXPECT_EQ(plan_wgmma_tiles(problem(130, {100, 100}, 200, 3), shape, kSms, kSharedBytes).blocks, 12u);
}

struct Asked {
  std::int32_t type = 0, swizzle = 0;
  std::vector<std::uint64_t> sizes, strides;
  std::vector<std::uint32_t> box;
};
Asked asked;  // by the driver function below, which takes no context

device::cuda::Result32 encode(device::cuda::TensorMap* map, std::int32_t type, std::uint32_t rank, void*,
                              const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box,
                              const std::uint32_t*, std::int32_t, std::int32_t swizzle, std::int32_t, std::int32_t) {
  asked = {type, swizzle, {sizes, sizes + rank}, {strides, strides + rank - 1}, {box, box + rank}};
  map->opaque[0] = 77;
  return device::cuda::kSuccess;
}

TEST(WgmmaTilesPlan, MapsSayWhereMatricesLie) {
  device::cuda::DriverApi api{};
  api.tensor_map_encode_tiled = encode;
  const device::cuda::Driver driver(api);
  const WgmmaTilesShape shape{2, 96, 4, 1};
  EXPECT_EQ(map_wgmma_tiles_input(driver, kWgmmaBf16, shape, nullptr, 100, 1208, 1216).opaque[0], 77u);
  EXPECT_EQ(asked.sizes, (std::vector<std::uint64_t>{1208, 100}));
  EXPECT_EQ(asked.strides, (std::vector<std::uint64_t>{2432}));
  EXPECT_EQ(asked.box, (std::vector<std::uint32_t>{64, 96}));
  EXPECT_EQ(asked.swizzle, device::cuda::kTensorMapSwizzle128);
  map_wgmma_tiles_weight(driver, kWgmmaBf16, shape, true, nullptr, 100, 1208);
  EXPECT_EQ(asked.sizes, (std::vector<std::uint64_t>{32, 38 * 8, 7}));  // words of two rows, of all turns, tiles
  EXPECT_EQ(asked.strides, (std::vector<std::uint64_t>{128, 38 * 1024}));
  EXPECT_EQ(asked.box, (std::vector<std::uint32_t>{32, 32, 4}));
  EXPECT_EQ(asked.swizzle, device::cuda::kTensorMapSwizzle128);
  map_wgmma_tiles_weight(driver, kWgmmaBf16, shape, false, nullptr, 100, 1208);
  EXPECT_EQ(asked.box, (std::vector<std::uint32_t>{32, 32, 8}));
  const WgmmaTilesShape columns{.block_columns = 160};
  map_wgmma_tiles_weight(driver, kWgmmaBf16, columns, true, nullptr, 100, 1208);
  EXPECT_EQ(asked.sizes, (std::vector<std::uint64_t>{32, 38 * 8, 7}));
  EXPECT_EQ(asked.box, (std::vector<std::uint32_t>{32, 16, 5}));
  EXPECT_EQ(asked.swizzle, device::cuda::kTensorMapSwizzle128);
  map_wgmma_tiles_weight(driver, kWgmmaBf16, columns, false, nullptr, 100, 1208);
  EXPECT_EQ(asked.box, (std::vector<std::uint32_t>{32, 16, 10}));
}

}  // namespace
}  // namespace pagoda::kernels
