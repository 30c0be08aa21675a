#include "kernels/linear/cuda_product.h"

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

/// All weights as mma16, else all as their files' rows.
bool fragment_ordered(const LinearProblem& problem) {
  return std::ranges::all_of(problem.specs(), [](const auto& weight) { return weight.layout == &kMma16Layout; });
}

bool file_ordered(const LinearProblem& problem) {
  return std::ranges::all_of(problem.specs(), [](const auto& weight) { return weight.layout == &kRowsLayout; });
}

}  // namespace

std::int64_t row_tiles(const CudaProductProblem& problem) {
  std::int64_t tiles = 0;
  for (const LinearWeightSpec& weight : problem.linear.specs()) {
    tiles += ceil_div<std::int64_t>(weight.n, 16);
    if (is_gated(problem)) break;
  }
  return tiles;
}

MmaRowsWeight device_weight(const LinearWeight& weight) {
  return {.data = weight.data, .bias = weight.bias, .output = nullptr, .n = weight.shape.n, .output_stride = 0};
}

void set_outputs(MmaRowsWeight (&weights)[kMaxLinearWeights], const CudaProductArgs& args) {
  for (std::size_t i = 0; i < kMaxLinearWeights; ++i) {
    weights[i].output = args.outputs[i];
    weights[i].output_stride = args.output_strides[i];
  }
}

struct CudaProduct::Prepared {
  BulkRows rows;  // of mma16, where it serves
  Tiles tiles;
  std::optional<Generic> generic;  // instead of mma16
  MmaRowsWeight weights[kMaxLinearWeights] = {};
};

bool CudaProduct::supports(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  const LinearProblem& linear = problem.linear;
  return on_cuda(caps) && linear.activation == tensor::DType::kBf16 && linear.k % 8 == 0 &&
         (fragment_ordered(linear) || file_ordered(linear)) && (!is_gated(problem) || linear.weights[0].n % 4 == 0);
}

std::size_t CudaProduct::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return fragment_ordered(problem.linear) ? BulkRows::scratch_bytes(problem, caps) : Generic::scratch_bytes(problem);
}

std::vector<CompileUnit> CudaProduct::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  const bool mma16 = fragment_ordered(problem.linear);
  bool tiles = problem.linear.max_m > kMostRowsInTurn;
  for (std::int64_t m = 1; mma16 && m <= std::min(kMostRowsInTurn, problem.linear.max_m); ++m) {
    const auto shape = BulkRows::shape(problem, m, caps);
    tiles = tiles || !shape;
    if (!shape) continue;
    for (CompileUnit& unit : BulkRows::units(problem, *shape, caps)) units.push_back(std::move(unit));
  }
  if (!mma16) units = Generic::units(problem, caps);
  if (tiles) std::ranges::copy(Tiles::units(problem, caps), std::back_inserter(units));
  return units;
}

Result<CudaProduct> CudaProduct::prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                                         device::cuda::CudaDevice& device) {
  auto prepared = std::make_shared<Prepared>();
  for (std::size_t i = 0; i < weights.size(); ++i) prepared->weights[i] = device_weight(weights[i]);
  bool tiles = problem.linear.max_m > kMostRowsInTurn;
  if (fragment_ordered(problem.linear)) {
    MmaBulkRowsParams params{};
    std::ranges::copy(prepared->weights, params.weights);
    params.k = problem.linear.k;
    params.num_weights = problem.linear.num_weights;
    params.epsilon = problem.epsilon;
    params.norm_shift = problem.norm_shift;
    params.scale = problem.scale;
    for (std::int64_t m = 1; m <= std::min(kMostRowsInTurn, problem.linear.max_m); ++m) {
      const auto shape = BulkRows::shape(problem, m, device.caps());
      tiles = tiles || !shape;
      if (shape) PAGODA_TRY(prepared->rows.prepare(problem, m, *shape, params, device));
    }
  } else {
    PAGODA_TRY(prepared->generic.emplace().prepare(problem, weights, device));
  }
  if (tiles) PAGODA_TRY(prepared->tiles.prepare(problem, device));
  CudaProduct product;
  product.prepared_ = std::move(prepared);
  return product;
}

bool CudaProduct::norms_itself(std::int64_t m) const { return prepared_->rows.serves(m) && prepared_->rows.norms(m); }

void CudaProduct::launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const {
  const Prepared& p = *prepared_;
  if (p.rows.serves(args.m)) return p.rows.launch(args, stream);
  if (!p.generic) return p.tiles.launch(args, p.weights, stream);
  if (args.m <= kMostRowsInTurn) return p.generic->launch_rows(args, stream);
  MmaRowsWeight decoded[kMaxLinearWeights];
  std::ranges::copy(p.weights, decoded);
  p.generic->decode(args, decoded, stream);
  p.tiles.launch(args, decoded, stream);
}

}  // namespace pagoda::kernels
