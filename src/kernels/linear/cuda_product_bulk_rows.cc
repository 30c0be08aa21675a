#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kWindow = 3;        // stages under way: 48 KiB reach the memory's full speed
constexpr int kFewestStages = 3;  // of a ring that still hides the latency
constexpr int kWantedStages = 6;  // more slices of k before a shorter ring
constexpr int kMostSplits = 8;
constexpr std::int64_t kMostNormedRows = 2;   // more are normed faster once than in each block
constexpr std::int64_t kStaticShared = 2048;  // of the block beside the dynamic part, rounded up

bool splits_allowed(const CudaProductProblem& problem) { return problem.epilogue == CudaEpilogue::kResidual; }

/// The shape with these constants; no stages if it does not fit.
BulkRows::Shape fit(const CudaProductProblem& problem, std::int64_t m, int stage_turns, int splits,
                    const device::DeviceCaps& caps) {
  const int sets = is_gated(problem) ? 2 : 1;
  BulkRows::Shape shape{.token_tiles = m <= 8 ? 1 : 2, .stage_turns = stage_turns, .splits = splits};
  const std::int64_t stage = mma_bulk_rows_stage_bytes(stage_turns, sets);
  const std::int64_t fixed = mma_bulk_rows_fixed_bytes(problem.linear.k, m, splits, kWarps, sets, shape.token_tiles);
  const std::int64_t room = caps.gpu.shared_bytes_per_block - kStaticShared - fixed;
  shape.stages = static_cast<int>(std::clamp<std::int64_t>(room / stage, 0, 32));
  shape.shared_bytes = static_cast<std::uint32_t>(fixed + shape.stages * stage);
  const std::int64_t blocks = caps.gpu.num_sms / splits * splits;
  shape.blocks = static_cast<int>(std::min(row_tiles(problem) * splits, blocks));
  return shape;
}

}  // namespace

std::optional<BulkRows::Shape> BulkRows::shape(const CudaProductProblem& problem, std::int64_t m,
                                               const device::DeviceCaps& caps) {
  const bool fits = caps.gpu.compute() >= 90 && m >= 1 && m <= kMostRowsInTurn;
  if (!fits || problem.linear.deterministic) return std::nullopt;
  std::optional<Shape> best;
  const int most = splits_allowed(problem) && m > kMostNormedRows ? kMostSplits : 1;
  for (int splits = 1; splits <= most; ++splits) {
    for (const int turns : {16, 8}) {
      Shape shape = fit(problem, m, turns, splits, caps);
      if (shape.stages * turns < kFewestStages * 16 && !(turns == 8 && shape.stages >= kFewestStages)) continue;
      shape.norm = problem.norm && m <= kMostNormedRows;
      if (!best) best = shape;
      if (shape.stages * turns >= kWantedStages * 16) return shape;
    }
  }
  return best;
}

std::vector<CompileUnit> BulkRows::units(const CudaProductProblem& problem, const Shape& shape,
                                         const device::DeviceCaps& caps) {
  // Slices of k leave float sums, which another kernel adds.
  const CudaEpilogue epilogue = shape.splits > 1 ? CudaEpilogue::kFloat : problem.epilogue;
  std::vector<CompileUnit> units = {cuda_unit(
      caps, "linear/cuda_mma_bulk_rows.cu",
      {define("TOKEN_TILES", shape.token_tiles), define("WARPS", kWarps), define("STAGE_TURNS", shape.stage_turns),
       "RELEASE=1", define("NORM", shape.norm), define("EPILOGUE", epilogue)})};
  if (shape.splits > 1) units.push_back(SliceSum::unit(caps));
  return units;
}

std::size_t BulkRows::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::size_t bytes = 0;
  for (std::int64_t m = 1; m <= std::min(kMostRowsInTurn, problem.linear.max_m); ++m) {
    const std::optional<Shape> one = shape(problem, m, caps);
    if (!one || one->splits == 1) continue;
    bytes = std::max(bytes, static_cast<std::size_t>(one->splits * m * problem.linear.weights[0].n) * sizeof(float));
  }
  return bytes;
}

Status BulkRows::prepare(const CudaProductProblem& problem, std::int64_t m, const Shape& shape,
                         MmaBulkRowsParams params, device::cuda::CudaDevice& device) {
  Launch& launch = launches_[static_cast<std::size_t>(m)];
  launch.kernel =
      PAGODA_TRY(device.kernel<MmaBulkRowsParams>(units(problem, shape, device.caps())[0], "mma_bulk_rows"));
  launch.kernel.allow_shared_bytes(shape.shared_bytes);
  launch.config = {.grid = {.x = grid_size(shape.blocks)},
                   .block = {.x = kWarps * 32 + 32},
                   .shared_bytes = shape.shared_bytes,
                   .programmatic = true};
  params.m = static_cast<std::int32_t>(m);
  params.stages = shape.stages;
  set_windows(params, row_tiles(problem), shape.blocks / shape.splits, kWindow * (16 / shape.stage_turns));
  params.splits = shape.splits;
  params.split_stride = m * problem.linear.weights[0].n;
  launch.params = params;
  launch.norm = shape.norm;
  launch.ready = true;
  if (shape.splits > 1) PAGODA_TRY(sum_.prepare(problem, device));
  return Ok{};
}

}  // namespace pagoda::kernels
