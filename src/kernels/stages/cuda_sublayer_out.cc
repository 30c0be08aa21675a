// attention_out and ffn_out on CUDA: the product adds to the residual stream itself; a norm of the sublayer's output
// takes a float buffer between.
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product.h"
#include "kernels/residual/cuda_residual.h"
#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;
using tensor::MatrixView;

constexpr int kThreads = 256;

CudaProductProblem product_of(const SublayerOutProblem& problem) {
  return {.linear = problem.product,
          .epilogue = problem.residual.norm ? CudaEpilogue::kFloat : CudaEpilogue::kResidual,
          .norm = false,
          .epsilon = 0,
          .norm_shift = 0,
          .scale = problem.residual.scale};
}

CompileUnit residual_unit(const DeviceCaps& caps) {
  return cuda_unit(caps, "residual/cuda_residual.cu", {"UPDATE_FLOAT=1", define("THREADS", kThreads)});
}

MatrixView cut(const SublayerOutProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  if (!problem.residual.norm) return {};
  return scratch.matrix(DType::kF32, problem.product.max_m, rows, problem.residual.hidden);
}

bool supports(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::supports(product_of(problem), caps) && problem.residual.hidden % 4 == 0;
}

std::size_t scratch_bytes(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + CudaProduct::scratch_bytes(product_of(problem), caps);
}

std::vector<CompileUnit> units(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  std::vector<CompileUnit> units = CudaProduct::units(product_of(problem), caps);
  if (problem.residual.norm) units.push_back(residual_unit(caps));
  return units;
}

struct Prepared {
  SublayerOutProblem problem;
  CudaProduct product;
  device::cuda::Kernel<CudaResidualParams> add;
  const float* norm = nullptr;
  bool programmatic = false;

  void launch(const SublayerOutArgs& args, device::cuda::CudaStream& stream) const {
    ScratchCutter scratch(args.scratch);
    const std::int64_t tokens = args.residual.rows;
    const MatrixView update = cut(problem, tokens, scratch);
    const MatrixView& output = problem.residual.norm ? update : args.residual;
    product.launch({.input = args.input.data,
                    .norm = nullptr,
                    .input_stride = args.input.stride,
                    .m = tokens,
                    .outputs = {output.data},
                    .output_strides = {output.stride},
                    .scratch = scratch.bytes(0),
                    .update = args.update},
                   stream);
    if (!problem.residual.norm) return;
    add.launch(stream, {.grid = {.x = grid_size(tokens)}, .block = {.x = kThreads}, .programmatic = programmatic},
               {.residual = static_cast<float*>(args.residual.data),
                .update = update.data,
                .norm = norm,
                .residual_stride = args.residual.stride,
                .update_stride = update.stride,
                .hidden = problem.residual.hidden,
                .scale = problem.residual.scale,
                .epsilon = static_cast<float>(problem.residual.epsilon),
                .weight_shift = problem.residual.weight_shift});
  }
};

Result<SublayerOutStep> prepare(const SublayerOutProblem& problem, const SublayerOutWeights& weights,
                                device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->product = PAGODA_TRY(CudaProduct::prepare(product_of(problem), {&weights.product, 1}, device));
  if (problem.residual.norm) {
    prepared->add = PAGODA_TRY(device.kernel<CudaResidualParams>(residual_unit(device.caps()), "residual_add"));
  }
  prepared->norm = weights.residual.norm;
  prepared->programmatic = programmatic(device.caps());
  return SublayerOutStep(
      [prepared = std::shared_ptr<const Prepared>(std::move(prepared))](
          const SublayerOutArgs& args, device::Stream& stream) { prepared->launch(args, device::cuda::cuda(stream)); });
}

}  // namespace

std::size_t residual_update_bytes(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  return on_cuda(caps) && !problem.residual.norm ? CudaProduct::slice_bytes(product_of(problem), caps) : 0;
}

const SublayerOutKernel kCudaSublayerOut = {"cuda", {"bf16_mma"}, supports, scratch_bytes, units, prepare};

}  // namespace pagoda::kernels
