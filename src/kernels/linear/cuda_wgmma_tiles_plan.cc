#include "kernels/linear/cuda_wgmma_tiles_plan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/format.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_quantize_e4m3.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kStaticBytes = 1024;  // barriers, and what the driver keeps for itself
constexpr std::int64_t kRingAlignment = 1024;
constexpr std::int64_t kMaxStages = 32;
constexpr std::int64_t kMaxSplits = 8;
constexpr int kBlockTokens[] = {16, 32, 48, 64, 96, 128, 192, 256};
constexpr int kBlockColumns[] = {96, 128, 160, 192, 224, 256};  // of wgmma_columns
constexpr int kMostBlockSums = 256 * 160;                       // of wgmma_columns: more want a deeper ring

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool is_gated(const WgmmaTilesProblem& problem) { return problem.epilogue >= 3; }

/// Tiles of 16 rows of each weight that a block takes.
std::int64_t block_tiles(const WgmmaTilesShape& shape, bool gated) {
  return shape.columns() ? shape.block_columns / (gated ? 32 : 16) : wgmma_tiles_box_tiles(shape.warpgroups, gated);
}

/// Pieces of work that clusters of blocks take in turn.
std::int64_t num_units(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape) {
  const std::int64_t rows = block_tiles(shape, is_gated(problem)) * 16 * shape.cluster;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < (is_gated(problem) ? 1 : problem.n.size()); ++i) blocks += divide_up(problem.n[i], rows);
  return blocks * divide_up(problem.m, shape.block_tokens) * shape.splits;
}

enum class Kind { kBf16, kE4m3, kCodes, kE4m3Rows };  // the values are those of WEIGHTS

Kind kind_of(const WgmmaTilesProblem& problem) {
  if (problem.weights == kWgmmaBf16) return Kind::kBf16;
  if (problem.weights == kWgmmaE4m3Rows) return Kind::kE4m3Rows;
  return problem.weights == kWgmmaE4m3 ? Kind::kE4m3 : Kind::kCodes;
}

/// Cycles of a block for 64 columns.
std::int64_t multiply_cycles(Kind kind, const WgmmaTilesShape& shape) {
  const std::int64_t tokens = shape.block_tokens;
  if (kind == Kind::kE4m3 || kind == Kind::kE4m3Rows) return shape.warpgroups == 2 ? 2 * tokens + 190 : tokens + 300;
  if (kind == Kind::kCodes) {
    // Weights are made and multiplied in turn rather than at once.
    const std::int64_t percent = shape.warpgroups == 1 ? 112 : shape.warpgroups == 2 ? 100 : 95;
    return shape.warpgroups * (2 * tokens + 165) * percent / 100;
  }
  const bool short_stage = kind == Kind::kBf16 && shape.stage_turns < 4;
  return shape.warpgroups == 2 ? 4 * tokens + 190 : 2 * tokens + (short_stage ? 470 : 300);
}

/// The same of wgmma_columns, where all multiprocessors have a block.
std::int64_t columns_cycles(const WgmmaTilesShape& shape) {
  return std::int64_t{5} * shape.block_tokens * shape.block_columns / 128 + 350;
}

/// Cycles that a launch takes, fitted to an H200: what 64 columns of k cost a block, or its share of the memory's
/// bandwidth; what a unit costs besides; what slices cost who adds them.
std::int64_t cycles(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms) {
  const WgmmaTilesWeights& weights = problem.weights;
  const std::int64_t units = num_units(problem, shape);
  // Blocks that read other weights at the same time. Tiles of x run side by side, but more than two of them read x
  // more often than weights, which is not counted.
  const std::int64_t readers =
      problem.m <= 256 ? divide_up(num_sms, divide_up(problem.m, shape.block_tokens)) : num_sms;
  const std::int64_t read = block_tiles(shape, false) * weights.turn_bytes * 64 / weights.turn_columns * readers / 2580;
  const std::int64_t columns = std::int64_t{weights.turn_columns} * shape.stage_turns;
  const std::int64_t stages = divide_up(divide_up(problem.k, shape.splits), columns);
  const std::int64_t multiply = shape.columns() ? columns_cycles(shape) : multiply_cycles(kind_of(problem), shape);
  const std::int64_t unit = stages * columns / 64 * std::max(multiply, read) + 1500;
  const std::int64_t sums = shape.splits > 1 ? shape.splits * problem.m * problem.n[0] * 8 / 2900 : 0;
  return divide_up(units, num_sms / shape.cluster) * unit + sums;
}

/// The block's rows of x: all of m if they fit; else what cuts m. Scales of 128 columns want two sets of sums. Codes
/// have few sizes, since each format has kernels of its own.
std::vector<int> block_tokens(Kind kind, std::int64_t m) {
  if (kind == Kind::kE4m3 && m > 128) return {128};
  if (kind == Kind::kCodes) return {m <= 32 ? 32 : m <= 64 ? 64 : m <= 128 ? 128 : 256};
  if (m > 256) return {128, 192, 256};
  const int all = *std::ranges::find_if(kBlockTokens, [&](int tokens) { return tokens >= m; });
  return all == 256 ? std::vector<int>{128, 256} : std::vector<int>{all};
}

/// Warpgroups, turns of a stage. Larger blocks first: they win where it is all the same, since they read x less often.
std::vector<WgmmaTilesShape> shapes_for(const WgmmaTilesProblem& problem, int tokens) {
  std::vector<WgmmaTilesShape> shapes;
  const auto add = [&](int warpgroups, int turns, int cluster) {
    shapes.push_back({warpgroups, tokens, turns, 1, cluster});
  };
  const Kind kind = kind_of(problem);
  if (kind == Kind::kCodes && tokens <= 64) {
    if (problem.epilogue != 2) add(4, 2, 1);
    add(2, 4, 1);
    add(1, 4, 1);
    return shapes;
  }
  const int most = kind == Kind::kE4m3 ? 128 : 256;
  const int turns = kind == Kind::kCodes ? 1 : 2;
  if (tokens == most && problem.m >= 1024) add(2, turns, 2);
  add(2, turns, 1);
  if (kind == Kind::kCodes) return shapes;
  // Registers for twice as many fragments.
  if (kind == Kind::kBf16 && tokens <= 128) add(1, 4, 1);
  add(1, turns, 1);
  return shapes;
}

/// Of wgmma_columns. With more rows of x all multiprocessors are busy most of the time, and those of wgmma_tiles, which
/// reads x from shared memory only once for 64 rows of weights, win.
std::vector<WgmmaTilesShape> columns_shapes(Kind kind, std::int64_t m) {
  std::vector<WgmmaTilesShape> shapes;
  if (kind != Kind::kBf16 || m > 256) return shapes;
  for (const int tokens : {256, 128, 64}) {
    if (m <= tokens / 2 || (m > 64 && tokens == 64)) continue;
    for (const int columns : kBlockColumns) {
      if (tokens * columns > kMostBlockSums) continue;
      shapes.push_back({.block_tokens = tokens, .stage_turns = kWgmmaColumnsTurns, .block_columns = columns});
    }
  }
  return shapes;
}

std::int64_t stage_bytes(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape) {
  if (shape.columns()) return wgmma_columns_stage_bytes(shape.block_tokens, shape.block_columns);
  return wgmma_tiles_stage(problem.weights, shape.warpgroups, shape.block_tokens, shape.stage_turns, is_gated(problem))
      .bytes;
}

std::vector<std::string> defines(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape) {
  if (shape.columns()) {
    return {define("BLOCK_TOKENS", shape.block_tokens), define("BLOCK_COLUMNS", shape.block_columns),
            define("EPILOGUE", problem.epilogue), define("ELEMENT", problem.half)};
  }
  const Kind kind = kind_of(problem);
  std::vector<std::string> all = {define("WARPGROUPS", shape.warpgroups),
                                  define("BLOCK_TOKENS", shape.block_tokens),
                                  define("STAGE_TURNS", shape.stage_turns),
                                  define("CLUSTER", shape.cluster),
                                  define("WEIGHTS", static_cast<int>(kind)),
                                  define("EPILOGUE", problem.epilogue),
                                  define("ELEMENT", problem.half)};
  if (kind == Kind::kCodes) all.push_back(format_define(*problem.format));
  return all;
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

/// Of pieces in rows of tiles, as words, whatever they are; a box has `box_pieces` of `box_tiles` rows.
CopyMap map_pieces(const device::cuda::Driver& driver, const void* data, std::int64_t bytes, std::int64_t pieces,
                   std::int64_t tiles, std::int64_t box_pieces, std::int64_t box_tiles) {
  constexpr std::int32_t kNoSwizzle = 0;
  return make_map<3>(driver, device::cuda::kTensorMapF32, data, {bytes / 4, pieces, tiles}, {bytes, pieces * bytes},
                     {bytes / 4, box_pieces, box_tiles}, kNoSwizzle);
}

}  // namespace

WgmmaTilesShape choose_wgmma_tiles(const WgmmaTilesProblem& problem, std::int64_t num_sms) {
  WgmmaTilesShape best{};
  std::int64_t least = -1;
  const auto consider = [&](const WgmmaTilesShape& shape) {
    const std::int64_t cost = cycles(problem, shape, num_sms);
    if (least < 0 || cost < least) best = shape, least = cost;
  };
  const auto consider_all = [&](const std::vector<WgmmaTilesShape>& shapes) {
    for (std::int64_t splits = 1; splits <= (problem.may_split ? kMaxSplits : 1); ++splits) {
      for (WgmmaTilesShape shape : shapes) {
        shape.splits = static_cast<int>(splits);
        if (splits > 1 && num_units(problem, shape) > num_sms / shape.cluster) continue;
        // What may split adds to the residual, by itself where it does not split: seventeen warps have no registers for
        // that.
        if (splits == 1 && problem.may_split && shape.warpgroups == 4) continue;
        consider(shape);
      }
    }
  };
  const Kind kind = kind_of(problem);
  for (const int tokens : block_tokens(kind, problem.m)) consider_all(shapes_for(problem, tokens));
  consider_all(columns_shapes(kind, problem.m));
  return best;
}

WgmmaTilesPlan plan_wgmma_tiles(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms,
                                std::int64_t shared_bytes_per_block) {
  PAGODA_CHECK(problem.m > 0 && problem.n[0] > 0 && problem.k > 0 && problem.k % 8 == 0, "m {} n {} k {}", problem.m,
               problem.n[0], problem.k);
  PAGODA_CHECK(std::ranges::find(kBlockTokens, shape.block_tokens) != std::end(kBlockTokens) &&
                   (shape.warpgroups == 1 || shape.warpgroups == 2 || shape.warpgroups == 4) &&
                   (shape.stage_turns == 1 || shape.stage_turns == 2 || shape.stage_turns == 4) &&
                   (shape.cluster == 1 || shape.cluster == 2),
               "{} rows of x, {} warpgroups, {} turns, clusters of {}", shape.block_tokens, shape.warpgroups,
               shape.stage_turns, shape.cluster);
  if (shape.columns()) {
    PAGODA_CHECK(std::ranges::find(kBlockColumns, shape.block_columns) != std::end(kBlockColumns) &&
                     (shape.block_tokens == 64 || shape.block_tokens % 128 == 0) &&
                     shape.block_tokens * shape.block_columns <= kMostBlockSums && shape.cluster == 1 &&
                     shape.stage_turns == kWgmmaColumnsTurns && problem.weights == kWgmmaBf16,
                 "{} columns with {} rows of x", shape.block_columns, shape.block_tokens);
  }
  PAGODA_CHECK(shape.splits == 1 || (shape.splits > 1 && problem.may_split && problem.epilogue == 1),
               "{} slices with epilogue {}", shape.splits, problem.epilogue);
  const std::int64_t stage = stage_bytes(problem, shape);
  const std::int64_t fixed =
      shape.columns() ? kRingAlignment : wgmma_tiles_fixed_bytes(shape.warpgroups, shape.block_tokens);
  const std::int64_t room = shared_bytes_per_block - kStaticBytes - fixed;
  const std::int64_t stages = std::min(room / stage, kMaxStages);
  PAGODA_CHECK(stages >= 2, "stages of {} bytes do not fit into {}", stage, room);
  return {.shape = shape,
          .source = shape.columns() ? "linear/cuda_wgmma_columns.cu" : "linear/cuda_wgmma_tiles.cu",
          .function = shape.columns() ? "wgmma_columns" : "wgmma_tiles",
          .defines = defines(problem, shape),
          .blocks = wgmma_tiles_blocks(problem, shape, num_sms),
          .threads = static_cast<std::uint32_t>(
              shape.columns() ? wgmma_columns_threads(shape.block_tokens, shape.block_columns)
                              : wgmma_tiles_threads(problem.weights, shape.warpgroups, shape.block_tokens)),
          .shared_bytes = static_cast<std::uint32_t>(stages * stage + fixed),
          .stages = static_cast<std::int32_t>(stages)};
}

std::uint32_t wgmma_tiles_blocks(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms) {
  return static_cast<std::uint32_t>(std::min(num_units(problem, shape), num_sms / shape.cluster) * shape.cluster);
}

CopyMap map_wgmma_tiles_input(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                              const WgmmaTilesShape& shape, const void* input, std::int64_t rows, std::int64_t k,
                              std::int64_t stride) {
  const bool bytes = weights.input_bytes == 1;
  const std::int64_t columns = bytes ? e4m3_columns(k) : k;
  return make_map<2>(driver, bytes ? device::cuda::kTensorMapU8 : device::cuda::kTensorMapBf16, input, {columns, rows},
                     {stride * weights.input_bytes}, {128 / weights.input_bytes, shape.block_tokens / shape.cluster},
                     device::cuda::kTensorMapSwizzle128);
}

CopyMap map_wgmma_tiles_weight(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                               const WgmmaTilesShape& shape, bool gated, const void* weight, std::int64_t n,
                               std::int64_t k) {
  const std::int64_t turns = divide_up(k, weights.turn_columns), tiles = divide_up(n, 16);
  const std::int64_t box_tiles = block_tiles(shape, gated);
  if (weights == kWgmmaBf16) {
    // Lines of 128 bytes, two rows of a tile, swizzled for ldmatrix and for products.
    return make_map<3>(driver, device::cuda::kTensorMapF32, weight, {32, turns * 8, tiles}, {128, turns * 1024},
                       {32, shape.stage_turns * 8, box_tiles}, device::cuda::kTensorMapSwizzle128);
  }
  return map_pieces(driver, weight, weights.turn_bytes, turns, tiles, shape.stage_turns, box_tiles);
}

CopyMap map_wgmma_tiles_scales(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                               const WgmmaTilesShape& shape, bool gated, const void* scales, std::int64_t n,
                               std::int64_t k) {
  const std::int64_t spans = divide_up(k, weights.span_columns);
  const WgmmaTilesStage stage =
      wgmma_tiles_stage(weights, shape.warpgroups, shape.block_tokens, shape.stage_turns, gated);
  return map_pieces(driver, scales, weights.span_bytes, spans, divide_up(n, 16), stage.spans,
                    wgmma_tiles_box_tiles(shape.warpgroups, gated));
}

}  // namespace pagoda::kernels
