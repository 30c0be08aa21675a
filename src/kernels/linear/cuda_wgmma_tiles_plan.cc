#include "kernels/linear/cuda_wgmma_tiles_plan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/format.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kStaticBytes = 1024;  // barriers, and what the driver keeps for itself
constexpr std::int64_t kMaxStages = 32;
constexpr std::int64_t kMaxSplits = 8;
constexpr int kBlockTokens[] = {16, 32, 48, 64, 96, 128, 192, 256};

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool is_gated(const WgmmaTilesProblem& problem) { return problem.epilogue >= 3; }

/// Pieces of work that blocks take in turn.
std::int64_t num_units(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape) {
  const std::int64_t rows = wgmma_tiles_box_tiles(shape.warpgroups, is_gated(problem)) * 16;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < (is_gated(problem) ? 1 : problem.n.size()); ++i) blocks += divide_up(problem.n[i], rows);
  return blocks * divide_up(problem.m, shape.block_tokens) * shape.splits;
}

/// Cycles that a launch takes, fitted to an H200: what the products of 64 columns cost a block, or its share of the
/// memory's bandwidth; what a unit costs besides; what slices cost who adds them.
std::int64_t cycles(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms) {
  const std::int64_t multiply = shape.warpgroups == 2 ? 4 * shape.block_tokens + 190
                                                      : 2 * shape.block_tokens + (shape.stage_turns == 4 ? 300 : 470);
  const std::int64_t read = shape.warpgroups * 64 * 128 * num_sms / 2580;
  const std::int64_t stages = divide_up(divide_up(problem.k, shape.splits), 32 * shape.stage_turns);
  const std::int64_t unit = stages * shape.stage_turns / 2 * std::max(multiply, read) + 1500;
  const std::int64_t sums = shape.splits > 1 ? shape.splits * problem.m * problem.n[0] * 8 / 2900 : 0;
  return divide_up(num_units(problem, shape), num_sms) * unit + sums;
}

/// The block's rows of x: all of m if they fit; else what cuts m.
std::vector<int> block_tokens(std::int64_t m) {
  if (m > kBlockTokens[std::size(kBlockTokens) - 1]) return {128, 192, 256};
  const int all = *std::ranges::find_if(kBlockTokens, [&](int tokens) { return tokens >= m; });
  return all == 256 ? std::vector<int>{128, 256} : std::vector<int>{all};
}

template <std::size_t kRank>
CopyMap make_map(const device::cuda::Driver& driver, std::int32_t type, const void* data,
                 const std::array<std::int64_t, kRank>& sizes, const std::array<std::int64_t, kRank - 1>& strides,
                 const std::array<std::int64_t, kRank>& box, std::int32_t swizzle) {
  namespace cuda = device::cuda;
  std::array<std::uint64_t, kRank> wide_sizes;
  std::array<std::uint64_t, kRank - 1> wide_strides;
  std::array<std::uint32_t, kRank> narrow_box, steps;
  std::ranges::copy(sizes, wide_sizes.begin());
  std::ranges::copy(strides, wide_strides.begin());
  std::ranges::transform(box, narrow_box.begin(), [](std::int64_t size) { return static_cast<std::uint32_t>(size); });
  steps.fill(1);
  cuda::TensorMap map;
  driver.check(driver.api().tensor_map_encode_tiled(&map, type, kRank, const_cast<void*>(data), wide_sizes.data(),
                                                    wide_strides.data(), narrow_box.data(), steps.data(),
                                                    cuda::kTensorMapNoInterleave, swizzle, cuda::kTensorMapPromotion256,
                                                    cuda::kTensorMapFillZeros),
               "describing a product's matrix");
  return std::bit_cast<CopyMap>(map);
}

}  // namespace

WgmmaTilesShape choose_wgmma_tiles(const WgmmaTilesProblem& problem, std::int64_t num_sms) {
  WgmmaTilesShape best{};
  std::int64_t least = -1;
  const auto consider = [&](const WgmmaTilesShape& shape) {
    const std::int64_t cost = cycles(problem, shape, num_sms);
    if (least < 0 || cost < least) best = shape, least = cost;
  };
  for (const int tokens : block_tokens(problem.m)) {
    for (std::int64_t splits = 1; splits <= (problem.may_split ? kMaxSplits : 1); ++splits) {
      const int slices = static_cast<int>(splits);
      // Larger blocks first: they win where it is all the same, since they read x less often.
      for (WgmmaTilesShape shape : {WgmmaTilesShape{2, tokens, 2, slices}, WgmmaTilesShape{1, tokens, 4, slices},
                                    WgmmaTilesShape{1, tokens, 2, slices}}) {
        if (shape.stage_turns == 4 && tokens > 128) continue;  // registers for twice as many fragments
        if (splits > 1 && num_units(problem, shape) > num_sms) continue;
        consider(shape);
      }
    }
  }
  return best;
}

WgmmaTilesPlan plan_wgmma_tiles(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms,
                                std::int64_t shared_bytes_per_block) {
  PAGODA_CHECK(problem.m > 0 && problem.n[0] > 0 && problem.k > 0 && problem.k % 8 == 0, "m {} n {} k {}", problem.m,
               problem.n[0], problem.k);
  PAGODA_CHECK(std::ranges::find(kBlockTokens, shape.block_tokens) != std::end(kBlockTokens) &&
                   (shape.warpgroups == 1 || shape.warpgroups == 2) &&
                   (shape.stage_turns == 2 || shape.stage_turns == 4),
               "{} rows of x, {} warpgroups, {} turns", shape.block_tokens, shape.warpgroups, shape.stage_turns);
  PAGODA_CHECK(shape.splits == 1 || (shape.splits > 1 && problem.may_split && problem.epilogue == 1),
               "{} slices with epilogue {}", shape.splits, problem.epilogue);
  const std::int64_t stage = wgmma_tiles_stage_bytes(shape.warpgroups, shape.block_tokens, shape.stage_turns);
  const std::int64_t fixed = wgmma_tiles_fixed_bytes(shape.warpgroups, shape.block_tokens);
  const std::int64_t room = shared_bytes_per_block - kStaticBytes - fixed;
  const std::int64_t stages = std::min(room / stage, kMaxStages);
  PAGODA_CHECK(stages >= 2, "stages of {} bytes do not fit into {}", stage, room);
  const auto define = [](const char* name, int value) { return pagoda::format("{}={}", name, value); };
  return {.shape = shape,
          .defines = {define("WARPGROUPS", shape.warpgroups), define("BLOCK_TOKENS", shape.block_tokens),
                      define("STAGE_TURNS", shape.stage_turns), define("EPILOGUE", problem.epilogue)},
          .blocks = wgmma_tiles_blocks(problem, shape, num_sms),
          .threads = static_cast<std::uint32_t>(wgmma_tiles_threads(shape.warpgroups, shape.block_tokens)),
          .shared_bytes = static_cast<std::uint32_t>(stages * stage + fixed),
          .stages = static_cast<std::int32_t>(stages)};
}

std::uint32_t wgmma_tiles_blocks(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms) {
  return static_cast<std::uint32_t>(std::min(num_units(problem, shape), num_sms));
}

CopyMap map_wgmma_tiles_input(const device::cuda::Driver& driver, const WgmmaTilesShape& shape, const void* input,
                              std::int64_t rows, std::int64_t k, std::int64_t stride) {
  return make_map<2>(driver, device::cuda::kTensorMapBf16, input, {k, rows}, {stride * 2}, {64, shape.block_tokens},
                     device::cuda::kTensorMapSwizzle128);
}

CopyMap map_wgmma_tiles_weight(const device::cuda::Driver& driver, const WgmmaTilesShape& shape, bool gated,
                               const void* weight, std::int64_t n, std::int64_t k) {
  constexpr std::int32_t kNoSwizzle = 0;
  const std::int64_t turns = divide_up(k, 32), tiles = divide_up(n, 16);
  // Pieces of 1 KiB as 256 words, whatever they are.
  return make_map<3>(driver, device::cuda::kTensorMapF32, weight, {256, turns, tiles}, {1024, turns * 1024},
                     {256, shape.stage_turns, wgmma_tiles_box_tiles(shape.warpgroups, gated)}, kNoSwizzle);
}

}  // namespace pagoda::kernels
