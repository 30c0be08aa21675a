// ffn_in on CUDA: norm (within the product at few rows) → gate and up in one product, which applies the activation.
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product.h"
#include "kernels/rms_norm/cuda_norm.h"
#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;
using tensor::MatrixView;

/// Of the normed rows, x of the product.
DType input_type(const FfnInProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::takes_f16(problem.product, caps) ? DType::kF16 : DType::kBf16;
}

CudaProductProblem product_of(const FfnInProblem& problem, const DeviceCaps& caps) {
  return {.linear = problem.product,
          .epilogue = problem.activation.kind == ActivationKind::kGeluTanh ? CudaEpilogue::kGelu : CudaEpilogue::kSilu,
          .input = input_type(problem, caps),
          .norm = problem.has_norm,
          .epsilon = static_cast<float>(problem.norm.epsilon),
          .norm_shift = problem.norm.weight_shift,
          .scale = 1};
}

MatrixView cut(const FfnInProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  return scratch.matrix(DType::kBf16, problem.product.max_m, rows, problem.norm.hidden);
}

bool supports(const FfnInProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::supports(product_of(problem, caps), caps) && problem.has_norm && problem.norm.hidden % 8 == 0 &&
         problem.activation.kind != ActivationKind::kClampedSwiglu;
}

std::size_t scratch_bytes(const FfnInProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + CudaProduct::scratch_bytes(product_of(problem, caps), caps);
}

std::vector<CompileUnit> units(const FfnInProblem& problem, const DeviceCaps& caps) {
  std::vector<CompileUnit> units = CudaProduct::units(product_of(problem, caps), caps);
  std::ranges::copy(CudaNorm::units(problem.norm, input_type(problem, caps), problem.product.deterministic, caps),
                    std::back_inserter(units));
  return units;
}

struct Prepared {
  FfnInProblem problem;
  CudaNorm norm;
  CudaProduct product;

  void launch(const FfnInArgs& args, device::cuda::CudaStream& stream) const {
    ScratchCutter scratch(args.scratch);
    const std::int64_t tokens = args.residual.rows;
    const MatrixView normed = cut(problem, tokens, scratch);
    const bool owes = args.update != nullptr && args.update->slices > 0;
    const bool fused = product.norms_itself(tokens);
    // What is owed is settled first, also where the product norms itself: its kernel reads the residual.
    if (!fused || owes) norm.launch(args.residual, normed, stream, nullptr, args.update);
    product.launch({.input = fused ? args.residual.data : normed.data,
                    .norm = fused ? norm.weight() : nullptr,
                    .input_stride = fused ? args.residual.stride : normed.stride,
                    .m = tokens,
                    .outputs = {args.output.data},
                    .output_strides = {args.output.stride},
                    .scratch = scratch.bytes(0)},
                   stream);
  }
};

Result<FfnInStep> prepare(const FfnInProblem& problem, const FfnInWeights& weights, device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->norm = PAGODA_TRY(CudaNorm::prepare(problem.norm, input_type(problem, device.caps()),
                                                problem.product.deterministic, weights.norm, device));
  CudaProductProblem product = product_of(problem, device.caps());
  product.input_factor = prepared->norm.factor();
  prepared->product = PAGODA_TRY(CudaProduct::prepare(product, weights.product, device));
  return FfnInStep(
      [prepared = std::shared_ptr<const Prepared>(std::move(prepared))](const FfnInArgs& args, device::Stream& stream) {
        prepared->launch(args, device::cuda::cuda(stream));
      });
}

}  // namespace

const FfnInKernel kCudaFfnIn = {"cuda", {"bf16_mma"}, supports, scratch_bytes, units, prepare};

}  // namespace pagoda::kernels
