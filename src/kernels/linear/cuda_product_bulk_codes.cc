#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_codes.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kWindowBytes = 64 << 10;  // under way: less starves the memory, more holds up attention and x
constexpr std::int64_t kWantedBytes = 96 << 10;  // of a ring, before more slices of k
constexpr int kMostSplits = 8;
constexpr std::int64_t kMostNormedRows = 2;   // more are normed faster once than in each block
constexpr std::int64_t kStaticShared = 2048;  // of the block beside the dynamic part, rounded up

constexpr std::int64_t kMostWholeRows = 4;  // two columns each of a product's eight

/// Whether cuda_whole_bulk_codes.cu does it.
bool is_whole(const Coding& coding, std::int64_t m) {
  const bool bytes = coding.bits == 4 || coding.bits == 6 || coding.bits == 8;
  const bool whole = coding.table == quant::CodeTable::kInteger && bytes;
  return (whole || coding.table == quant::CodeTable::kE2m1) && m <= kMostWholeRows;
}

const Coding& coding_of(const CudaProductProblem& problem) { return *problem.linear.weights[0].format->coding; }

/// Of a warp, under way at once: eight hide more of what a unit waits for, where they are small.
int most_units(const Coding& coding, bool whole) { return whole && coding.bits == 4 ? 8 : 4; }

/// The shape with these constants; fewer than two stages if it does not fit.
BulkCodes::Shape fit(const CudaProductProblem& problem, std::int64_t m, bool whole, int warps, int stage_units,
                     int splits, const device::DeviceCaps& caps) {
  const Coding& coding = coding_of(problem);
  const int sets = is_gated(problem) ? 2 : 1;
  BulkCodes::Shape shape{.token_tiles = m <= 8 ? 1 : 2, .warps = warps, .stage_units = stage_units, .splits = splits};
  shape.stage_bytes = sets * mma_bulk_codes_set_bytes(coding, stage_units);
  shape.whole = whole;
  if (whole) shape.rows = m <= 2 ? static_cast<int>(m) : 4;
  const std::int64_t fixed =
      shape.whole ? whole_bulk_codes_fixed_bytes(coding, problem.linear.k, m, splits, warps, sets)
                  : mma_bulk_codes_fixed_bytes(coding, problem.linear.k, m, splits, warps, sets, shape.token_tiles);
  const std::int64_t room = caps.gpu.shared_bytes_per_block - kStaticShared - fixed;
  shape.stages = static_cast<int>(std::clamp<std::int64_t>(room / shape.stage_bytes, 0, 32));
  shape.shared_bytes = static_cast<std::uint32_t>(fixed + shape.stages * shape.stage_bytes);
  const std::int64_t blocks = caps.gpu.num_sms / splits * splits;
  shape.blocks = static_cast<int>(std::min(row_tiles(problem) * splits, blocks));
  return shape;
}

}  // namespace

std::optional<BulkCodes::Shape> BulkCodes::shape(const CudaProductProblem& problem, std::int64_t m,
                                                 const device::DeviceCaps& caps) {
  const bool fits = caps.gpu.compute() >= 90 && m >= 1 && m <= kMostRowsInTurn;
  if (!fits || problem.linear.deterministic) return std::nullopt;
  struct Size {
    int warps, stage_units;
  };
  // Large stages first: a warp then has several units under way. Smaller ones leave more room to the ring.
  const Size sizes[] = {{8, 64}, {8, 32}, {8, 16}, {8, 8}};
  const bool may_split = problem.epilogue == CudaEpilogue::kResidual && m > kMostNormedRows;
  // x as bytes takes more room than as bf16: of very long rows only the latter fits.
  for (const bool whole : {true, false}) {
    if (whole && !is_whole(coding_of(problem), m)) continue;
    std::optional<Shape> best;
    for (int splits = 1; splits <= (may_split ? kMostSplits : 1); ++splits) {
      for (const auto& [warps, stage_units] : sizes) {
        if (stage_units > most_units(coding_of(problem), whole) * warps) continue;
        Shape shape = fit(problem, m, whole, warps, stage_units, splits, caps);
        if (shape.stages < 2) continue;
        shape.norm = problem.norm && m <= kMostNormedRows;
        const std::int64_t ring = shape.stages * shape.stage_bytes;
        if (!best || ring > best->stages * best->stage_bytes) best = shape;
        if (ring >= (splits == 1 && !may_split ? kWindowBytes + shape.stage_bytes : kWantedBytes)) return shape;
      }
    }
    if (best) return best;
  }
  return std::nullopt;
}

std::vector<CompileUnit> BulkCodes::units(const CudaProductProblem& problem, const Shape& shape,
                                          const device::DeviceCaps& caps) {
  // Slices of k leave float sums, which another kernel adds.
  const CudaEpilogue epilogue = shape.splits > 1 ? CudaEpilogue::kFloat : problem.epilogue;
  std::vector<std::string> defines = {format_define(format_of_coding(*problem.linear.weights[0].format)),
                                      define("WARPS", shape.warps),
                                      define("STAGE_UNITS", shape.stage_units),
                                      define("AT_ONCE", shape.stage_units / shape.warps),
                                      define("NORM", shape.norm),
                                      define("EPILOGUE", epilogue),
                                      define("ELEMENT", problem.input == tensor::DType::kF16)};
  defines.push_back(shape.whole ? define("ROWS", shape.rows) : define("TOKEN_TILES", shape.token_tiles));
  std::vector<CompileUnit> units = {cuda_unit(
      caps, shape.whole ? "linear/cuda_whole_bulk_codes.cu" : "linear/cuda_mma_bulk_codes.cu", std::move(defines))};
  if (shape.splits > 1) units.push_back(SliceSum::unit(caps));
  return units;
}

std::size_t BulkCodes::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::size_t bytes = 0;
  for (std::int64_t m = 1; m <= std::min(kMostRowsInTurn, problem.linear.max_m); ++m) {
    const std::optional<Shape> one = shape(problem, m, caps);
    if (!one || one->splits == 1) continue;
    bytes = std::max(bytes, static_cast<std::size_t>(one->splits * m * problem.linear.weights[0].n) * sizeof(float));
  }
  return bytes;
}

Status BulkCodes::prepare(const CudaProductProblem& problem, std::int64_t m, const Shape& shape,
                          std::span<const LinearWeight> weights, device::cuda::CudaDevice& device) {
  Launch& launch = launches_[static_cast<std::size_t>(m)];
  launch.kernel = PAGODA_TRY(device.kernel<MmaBulkCodesParams>(units(problem, shape, device.caps())[0],
                                                               shape.whole ? "whole_bulk_codes" : "mma_bulk_codes"));
  launch.kernel.allow_shared_bytes(shape.shared_bytes);
  launch.config = {.grid = {.x = grid_size(shape.blocks)},
                   .block = {.x = static_cast<std::uint32_t>(shape.warps * 32 + 32)},
                   .shared_bytes = shape.shared_bytes,
                   .programmatic = true};
  MmaBulkCodesParams params{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const LinearWeight& weight = weights[i];
    params.weights[i] = {
        .codes = weight.data,
        .scales = weight.data + mma_codes_scales_offset(*weight.format->coding, weight.shape.n, weight.shape.k),
        .bias = weight.bias,
        .output = nullptr,
        .n = weight.shape.n,
        .output_stride = 0};
  }
  params.k = problem.linear.k;
  params.num_weights = problem.linear.num_weights;
  params.epsilon = problem.epsilon;
  params.norm_shift = problem.norm_shift;
  params.scale = problem.scale;
  params.input_factor = problem.input_factor;
  params.output_factor = 1 / problem.input_factor;
  params.m = static_cast<std::int32_t>(m);
  params.stages = shape.stages;
  const std::int64_t window = std::max<std::int64_t>((kWindowBytes + shape.stage_bytes / 2) / shape.stage_bytes, 1);
  set_windows(params, row_tiles(problem), shape.blocks / shape.splits, window);
  params.splits = shape.splits;
  params.split_stride = m * problem.linear.weights[0].n;
  launch.params = params;
  launch.norm = shape.norm;
  launch.ready = true;
  if (shape.splits > 1) PAGODA_TRY(sum_.prepare(problem, device));
  return Ok{};
}

}  // namespace pagoda::kernels
