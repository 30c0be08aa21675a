#include <limits>

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

// Numbers of rows that shapes are chosen for; what lies between runs as the next larger one. All larger ones run as the
// last.
constexpr std::array<std::int64_t, 16> kBuckets = {16,  32,  48,   64,   96,   128,  192,  256,
                                                   384, 512, 1024, 1536, 2048, 2304, 3072, 4096};

bool has_codes(const CudaProductProblem& problem) { return problem.linear.weights[0].layout == &kMmaCodesLayout; }

/// The product as it runs at `m` rows: slices of k leave sums of their own where a residual is added to.
WgmmaTilesProblem problem_at(const CudaProductProblem& problem, std::int64_t m, bool may_split) {
  WgmmaTilesProblem tiles{.m = m, .n = {}, .k = problem.linear.k, .epilogue = static_cast<int>(problem.epilogue)};
  tiles.half = problem.input == tensor::DType::kF16;
  if (has_codes(problem)) {
    tiles.format = problem.linear.weights[0].format;
    const bool row_scales = std::ranges::all_of(problem.linear.specs(), &LinearWeightSpec::row_scales);
    tiles.weights = !of_e4m3(problem) ? wgmma_tiles_codes(*tiles.format->coding)
                    : row_scales      ? kWgmmaE4m3Rows
                                      : kWgmmaE4m3;
  }
  for (int i = 0; i < problem.linear.num_weights; ++i)
    tiles.n[static_cast<std::size_t>(i)] = problem.linear.weights[i].n;
  if (may_split) {
    tiles.epilogue = static_cast<int>(CudaEpilogue::kFloat);
    tiles.may_split = true;
  }
  return tiles;
}

struct Chosen {
  WgmmaTilesProblem problem;
  WgmmaTilesPlan plan;
};

Chosen choose_at(const CudaProductProblem& problem, std::int64_t m, const device::DeviceCaps& caps) {
  const bool residual = problem.epilogue == CudaEpilogue::kResidual;
  WgmmaTilesProblem tiles = problem_at(problem, m, residual);
  const WgmmaTilesShape shape = choose_wgmma_tiles(tiles, caps.gpu.num_sms);
  if (shape.splits == 1) tiles = problem_at(problem, m, false);
  return {tiles, plan_wgmma_tiles(tiles, shape, caps.gpu.num_sms, caps.gpu.shared_bytes_per_block)};
}

/// The buckets that a product of at most max_m rows has.
std::span<const std::int64_t> buckets(std::int64_t max_m) {
  const auto end = std::ranges::lower_bound(kBuckets, max_m);
  return {kBuckets.begin(), end == kBuckets.end() ? end : end + 1};
}

CompileUnit unit_of(const WgmmaTilesPlan& plan, const device::DeviceCaps& caps) {
  return cuda_unit(caps, plan.source, plan.defines, "a");
}

}  // namespace

bool WgmmaTiles::supports(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return caps.gpu.compute() == 90 && !problem.linear.deterministic;
}

std::vector<CompileUnit> WgmmaTiles::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const std::int64_t m : buckets(problem.linear.max_m)) {
    const Chosen chosen = choose_at(problem, m, caps);
    units.push_back(unit_of(chosen.plan, caps));
    if (chosen.plan.shape.splits > 1) units.push_back(SliceSum::unit(caps));
  }
  return units;
}

std::size_t WgmmaTiles::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::size_t bytes = 0;
  for (const std::int64_t m : buckets(problem.linear.max_m)) {
    const std::int64_t splits = choose_at(problem, m, caps).plan.shape.splits;
    if (splits == 1) continue;
    bytes = std::max(bytes, static_cast<std::size_t>(splits * m * problem.linear.weights[0].n) * sizeof(float));
  }
  return bytes;
}

Status WgmmaTiles::prepare(const CudaProductProblem& problem, const MmaRowsWeight (&weights)[kMaxLinearWeights],
                           device::cuda::CudaDevice& device) {
  driver_ = &device.context()->driver();
  gated_ = is_gated(problem);
  num_weights_ = problem.linear.num_weights;
  num_sms_ = device.caps().gpu.num_sms;
  scale_ = problem.scale;
  output_factor_ = 1 / problem.input_factor;
  for (const std::int64_t m : buckets(problem.linear.max_m)) {
    const Chosen chosen = choose_at(problem, m, device.caps());
    Bucket bucket{.most_rows = m, .problem = chosen.problem, .plan = chosen.plan, .kernel = {}, .maps = {}};
    bucket.kernel =
        PAGODA_TRY(device.kernel<WgmmaTilesParams>(unit_of(chosen.plan, device.caps()), chosen.plan.function));
    bucket.kernel.allow_shared_bytes(chosen.plan.shared_bytes);
    if (weights[0].data != nullptr) bucket.maps = map_weights(bucket, weights);
    if (chosen.plan.shape.splits > 1) PAGODA_TRY(sum_.prepare(problem, device));
    buckets_.push_back(std::move(bucket));
  }
  return Ok{};
}

WgmmaTiles::Maps WgmmaTiles::map_weights(const Bucket& bucket,
                                         const MmaRowsWeight (&weights)[kMaxLinearWeights]) const {
  Maps maps;
  const WgmmaTilesProblem& problem = bucket.problem;
  for (int i = 0; i < num_weights_; ++i) {
    const MmaRowsWeight& weight = weights[i];
    maps.weights[i] =
        map_wgmma_tiles_weight(*driver_, problem.weights, bucket.plan.shape, gated_, weight.data, weight.n, problem.k);
    if (problem.weights.span_columns == 0) continue;
    const auto* scales = static_cast<const std::byte*>(weight.data) +
                         mma_codes_scales_offset(*problem.format->coding, weight.n, problem.k);
    maps.scales[i] =
        map_wgmma_tiles_scales(*driver_, problem.weights, bucket.plan.shape, gated_, scales, weight.n, problem.k);
  }
  return maps;
}

void WgmmaTiles::launch(const CudaProductArgs& args, const MmaRowsWeight (&weights)[kMaxLinearWeights], bool mapped,
                        const float* input_scales, device::cuda::CudaStream& stream) const {
  const auto at = std::ranges::find_if(buckets_, [&](const Bucket& each) { return args.m <= each.most_rows; });
  const Bucket& bucket = at == buckets_.end() ? buckets_.back() : *at;
  const WgmmaTilesShape& shape = bucket.plan.shape;
  WgmmaTilesProblem problem = bucket.problem;
  problem.m = args.m;
  WgmmaTilesParams params{};
  params.input =
      map_wgmma_tiles_input(*driver_, problem.weights, shape, args.input, args.m, problem.k, args.input_stride);
  std::copy(std::begin(weights), std::end(weights), std::begin(params.weights));
  const Maps maps = mapped ? bucket.maps : map_weights(bucket, weights);
  std::ranges::copy(maps.weights, params.weight_maps);
  std::ranges::copy(maps.scales, params.scale_maps);
  set_outputs(params.weights, args);
  params.input_scales = input_scales;
  params.m = args.m;
  params.k = problem.k;
  params.num_weights = num_weights_;
  params.splits = shape.splits;
  params.stages = bucket.plan.stages;
  params.scale = scale_;
  params.output_factor = output_factor_;
  const std::int64_t n = params.weights[0].n;
  if (shape.splits > 1) {
    params.split_stride = args.m * n;
    params.weights[0].output = SliceSum::place(args);
    params.weights[0].output_stride = n;
  }
  bucket.kernel.launch(stream,
                       {.grid = {.x = wgmma_tiles_blocks(problem, shape, num_sms_)},
                        .block = {.x = bucket.plan.threads},
                        .shared_bytes = bucket.plan.shared_bytes,
                        .cluster = static_cast<std::uint32_t>(shape.cluster),
                        .programmatic = mapped},  // weights are read before the wait: not those just decoded
                       params);
  if (shape.splits > 1) sum_.launch(args, n, shape.splits, stream);
}

}  // namespace pagoda::kernels
