#include "kernels/linear/cuda_product.h"

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

bool has_codes(const LinearWeightSpec& weight) { return weight.layout == &kMmaCodesLayout; }

/// Whether the file itself has its weights in steps that are numbers of f16, or whole multiples of one.
/// All weights in the order of fragments, bf16 or codes; else all as their files' rows.
bool fragment_ordered(const LinearProblem& problem) {
  return std::ranges::all_of(problem.specs(),
                             [](const auto& weight) { return weight.layout == &kMma16Layout || has_codes(weight); });
}

bool file_ordered(const LinearProblem& problem) {
  return std::ranges::all_of(problem.specs(), [](const auto& weight) { return weight.layout == &kRowsLayout; });
}

constexpr int kSumThreads = 256;

/// Whether some number of rows has no kernel that takes few rows in turn.
bool needs_many(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  if (problem.linear.max_m > kMostRowsInTurn || problem.linear.deterministic) return true;
  if (!fragment_ordered(problem.linear)) return false;
  for (std::int64_t m = 1; m <= problem.linear.max_m; ++m) {
    if (!FewRows::supports(problem, m, caps)) return true;
  }
  return false;
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

CompileUnit SliceSum::unit(const device::DeviceCaps& caps) {
  return cuda_unit(caps, "rms_norm/cuda_rms_norm.cu", {define("THREADS", kSumThreads), "OUTPUT=0"});
}

Status SliceSum::prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device) {
  kernel_ = PAGODA_TRY(device.kernel<CudaRmsNormParams>(unit(device.caps()), "rms_norm"));
  scale_ = problem.scale;
  return Ok{};
}

float* SliceSum::place(const CudaProductArgs& args) {
  const bool later = args.update != nullptr && args.update->memory != nullptr;
  return later ? args.update->memory : reinterpret_cast<float*>(args.scratch);
}

void SliceSum::launch(const CudaProductArgs& args, std::int64_t n, int slices, device::cuda::CudaStream& stream) const {
  if (args.update != nullptr && args.update->memory != nullptr) {
    args.update->slices = slices;
    args.update->slice_stride = args.m * n;
    args.update->scale = scale_;
    return;
  }
  kernel_.launch(stream,
                 {.grid = {.x = grid_size(args.m)},
                  .block = {.x = kSumThreads},
                  .shared_bytes = static_cast<std::uint32_t>(n * 4),
                  .programmatic = true},
                 {.residual = static_cast<float*>(args.outputs[0]),
                  .update = place(args),
                  .weight = nullptr,
                  .output = nullptr,
                  .hidden = n,
                  .residual_stride = args.output_strides[0],
                  .update_stride = n,
                  .slice_stride = args.m * n,
                  .output_stride = 0,
                  .slices = slices,
                  .scale = scale_,
                  .epsilon = 0,
                  .weight_shift = 0,
                  .output_factor = 1,
                  .rows = nullptr});
}

/// The kernels for many rows: one of the two.
struct ManyRows {
  std::optional<WgmmaTiles> wgmma;
  Tiles tiles;

  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
    return WgmmaTiles::supports(problem, caps) ? WgmmaTiles::units(problem, caps) : Tiles::units(problem, caps);
  }
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
    return WgmmaTiles::supports(problem, caps) ? WgmmaTiles::scratch_bytes(problem, caps) : 0;
  }
  Status prepare(const CudaProductProblem& problem, const MmaRowsWeight (&weights)[kMaxLinearWeights],
                 device::cuda::CudaDevice& device) {
    if (!WgmmaTiles::supports(problem, device.caps())) return tiles.prepare(problem, device);
    return wgmma.emplace().prepare(problem, weights, device);
  }
  void launch(const CudaProductArgs& args, const MmaRowsWeight (&weights)[kMaxLinearWeights], bool mapped,
              device::cuda::CudaStream& stream, const float* input_scales = nullptr) const {
    if (wgmma) return wgmma->launch(args, weights, mapped, input_scales, stream);
    tiles.launch(args, weights, stream);
  }
};

namespace {

/// Whether the kernel of many rows takes codes as they lie: all of one coding, of four bits. Others are rarer, and each
/// would have kernels of its own in a release.
bool reads_codes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  const auto specs = problem.linear.specs();
  return WgmmaTiles::supports(problem, caps) && std::ranges::all_of(specs, [&](const LinearWeightSpec& weight) {
           return has_codes(weight) && has_codes(specs[0]) && weight.format->coding->bits == 4 &&
                  *weight.format->coding == *specs[0].format->coding;
         });
}

/// Whether many rows are rounded, and multiplied by codes of e4m3 as they lie.
bool rounds(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return WgmmaTiles::supports(problem, caps) && of_e4m3(problem);
}

/// The product as many rows see it: weights that are unpacked or decoded first as what they become.
CudaProductProblem many_rows(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  CudaProductProblem many = problem;
  if (reads_codes(problem, caps) || rounds(problem, caps)) return many;
  for (LinearWeightSpec& weight : many.linear.weights) weight.layout = &kMma16Layout;
  return many;
}

}  // namespace

struct CudaProduct::Prepared {
  FewRows few;  // of fragment order, where it serves
  ManyRows many;
  Unpack unpack;                    // before many rows, of weights with codes
  std::optional<RoundInput> round;  // the same of x, of e4m3
  std::optional<Generic> generic;   // instead of fragment order
  std::int64_t most_rows_in_turn = kMostRowsInTurn;
  std::size_t decoded_bytes = 0;  // of the scratch: what lies before the slices' sums, weights or rounded rows
  MmaRowsWeight weights[kMaxLinearWeights] = {};
};

bool CudaProduct::supports(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  const LinearProblem& linear = problem.linear;
  if (!on_cuda(caps) || linear.activation != tensor::DType::kBf16 || linear.k % 8 != 0) return false;
  if (is_gated(problem) && linear.weights[0].n % 4 != 0) return false;
  if (std::ranges::any_of(linear.specs(), has_codes) && caps.gpu.compute() < 90) return false;
  return fragment_ordered(linear) || file_ordered(linear);
}

bool CudaProduct::rounds_input(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return rounds(problem, caps);
}

bool CudaProduct::takes_f16(const LinearProblem& problem, const device::DeviceCaps& caps) {
  const CudaProductProblem product{.linear = problem};
  return supports(product, caps) && WgmmaTiles::supports(product, caps) &&
         std::ranges::all_of(problem.specs(), [](const LinearWeightSpec& weight) {
           return has_codes(weight) && has_f16_scales(*weight.format->coding);
         });
}

std::size_t CudaProduct::slice_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  const std::size_t many = needs_many(problem, caps) ? ManyRows::scratch_bytes(many_rows(problem, caps), caps) : 0;
  return fragment_ordered(problem.linear) ? std::max(many, FewRows::scratch_bytes(problem, caps)) : many;
}

std::size_t CudaProduct::decoded_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  if (!fragment_ordered(problem.linear)) return Generic::scratch_bytes(problem);
  if (rounds(problem, caps)) return needs_many(problem, caps) ? RoundInput::scratch_bytes(problem) : 0;
  return needs_many(problem, caps) && !reads_codes(problem, caps) ? Unpack::scratch_bytes(problem) : 0;
}

std::size_t CudaProduct::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return decoded_bytes(problem, caps) + slice_bytes(problem, caps);
}

std::vector<CompileUnit> CudaProduct::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  const bool ordered = fragment_ordered(problem.linear);
  std::vector<CompileUnit> units = ordered ? FewRows::units(problem, caps) : Generic::units(problem, caps);
  if (!needs_many(problem, caps)) return units;
  if (ordered && rounds(problem, caps)) {
    units.push_back(RoundInput::unit(caps));
  } else if (ordered && !reads_codes(problem, caps)) {
    std::ranges::copy(Unpack::units(problem, caps), std::back_inserter(units));
  }
  std::ranges::copy(ManyRows::units(many_rows(problem, caps), caps), std::back_inserter(units));
  return units;
}

Result<CudaProduct> CudaProduct::prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                                         device::cuda::CudaDevice& device) {
  auto prepared = std::make_shared<Prepared>();
  const bool many = needs_many(problem, device.caps());
  const bool round = rounds(problem, device.caps());
  const bool codes = round || reads_codes(problem, device.caps());
  // One kernel for all numbers of rows has one order of sums.
  if (problem.linear.deterministic) prepared->most_rows_in_turn = 0;
  prepared->decoded_bytes = decoded_bytes(problem, device.caps());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    prepared->weights[i] = device_weight(weights[i]);
    if (weights[i].layout != &kMma16Layout && !codes) prepared->weights[i].data = nullptr;  // comes when it is decoded
  }
  if (fragment_ordered(problem.linear)) {
    PAGODA_TRY(prepared->few.prepare(problem, weights, device));
    if (many && !codes) PAGODA_TRY(prepared->unpack.prepare(problem, weights, device));
    if (many && round) PAGODA_TRY(prepared->round.emplace().prepare(problem, device));
  } else {
    PAGODA_TRY(prepared->generic.emplace().prepare(problem, weights, device));
  }
  if (many) PAGODA_TRY(prepared->many.prepare(many_rows(problem, device.caps()), prepared->weights, device));
  CudaProduct product;
  product.prepared_ = std::move(prepared);
  return product;
}

bool CudaProduct::norms_itself(std::int64_t m) const { return prepared_->few.serves(m) && prepared_->few.norms(m); }

void CudaProduct::launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const {
  const Prepared& p = *prepared_;
  if (p.few.serves(args.m)) return p.few.launch(args, stream);
  if (p.generic && args.m <= p.most_rows_in_turn) return p.generic->launch_rows(args, stream);
  if (p.round) {
    CudaProductArgs rounded = args;
    const float* const scales = p.round->launch(rounded, stream);
    rounded.scratch += p.decoded_bytes;
    return p.many.launch(rounded, p.weights, true, stream, scales);
  }
  if (!p.generic && !p.unpack.any()) return p.many.launch(args, p.weights, true, stream);
  MmaRowsWeight decoded[kMaxLinearWeights];
  std::ranges::copy(p.weights, decoded);
  if (p.generic) {
    p.generic->decode(args, decoded, stream);
  } else {
    p.unpack.launch(args.scratch, decoded, stream);
  }
  CudaProductArgs many = args;
  many.scratch += p.decoded_bytes;
  p.many.launch(many, decoded, false, stream);
}

}  // namespace pagoda::kernels
