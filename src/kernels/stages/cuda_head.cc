// head on CUDA: the wanted rows, normed into bf16 → logits in float → scale and cap.
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product.h"
#include "kernels/rms_norm/cuda_norm.h"
#include "kernels/stages/cuda_softcap.h"
#include "kernels/stages/cuda_stages.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;
using tensor::MatrixView;

constexpr int kThreads = 256;

/// Of the normed rows, x of the product.
DType input_type(const HeadProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::takes_f16(problem.product, caps) ? DType::kF16 : DType::kBf16;
}

CudaProductProblem product_of(const HeadProblem& problem, const DeviceCaps& caps) {
  return {.linear = problem.product,
          .epilogue = CudaEpilogue::kFloat,
          .input = input_type(problem, caps),
          .norm = false,
          .epsilon = 0,
          .norm_shift = 0,
          .scale = 1};
}

bool caps_logits(const HeadProblem& problem) { return problem.softcap > 0 || problem.scale != 1; }

CompileUnit cap_unit(const DeviceCaps& caps) {
  return cuda_unit(caps, "stages/cuda_softcap.cu", {define("THREADS", kThreads)});
}

bool supports(const HeadProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::supports(product_of(problem, caps), caps) && problem.norm.hidden % 8 == 0;
}

std::size_t scratch_bytes(const HeadProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::scratch_bytes(product_of(problem, caps), caps);
}

std::vector<CompileUnit> units(const HeadProblem& problem, const DeviceCaps& caps) {
  std::vector<CompileUnit> units = CudaProduct::units(product_of(problem, caps), caps);
  std::ranges::copy(CudaNorm::units(problem.norm, input_type(problem, caps), problem.product.deterministic, caps),
                    std::back_inserter(units));
  if (caps_logits(problem)) units.push_back(cap_unit(caps));
  return units;
}

struct Prepared {
  HeadProblem problem;
  CudaNorm norm;
  CudaProduct product;
  device::cuda::Kernel<CudaSoftcapParams> cap;
  bool programmatic = false;

  void launch(const HeadArgs& args, device::cuda::CudaStream& stream) const {
    MatrixView hidden = args.hidden;
    hidden.rows = args.num_wanted;
    norm.launch(args.residual, hidden, stream, args.wanted);
    product.launch({.input = hidden.data,
                    .norm = nullptr,
                    .input_stride = hidden.stride,
                    .m = args.num_wanted,
                    .outputs = {args.logits.data},
                    .output_strides = {args.logits.stride},
                    .scratch = args.scratch},
                   stream);
    if (!caps_logits(problem)) return;
    cap.launch(
        stream,
        {.grid = {.x = grid_size(ceil_div<std::int64_t>(args.logits.cols, kThreads)), .y = grid_rows(args.num_wanted)},
         .block = {.x = kThreads},
         .programmatic = programmatic},
        {.logits = static_cast<float*>(args.logits.data),
         .stride = args.logits.stride,
         .rows = args.num_wanted,
         .width = args.logits.cols,
         .cap = static_cast<float>(problem.softcap),
         .scale = problem.scale});
  }
};

Result<HeadStep> prepare(const HeadProblem& problem, const HeadWeights& weights, device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->norm = PAGODA_TRY(CudaNorm::prepare(problem.norm, input_type(problem, device.caps()),
                                                problem.product.deterministic, weights.norm, device));
  CudaProductProblem product = product_of(problem, device.caps());
  product.input_factor = prepared->norm.factor();
  prepared->product = PAGODA_TRY(CudaProduct::prepare(product, {&weights.product, 1}, device));
  if (caps_logits(problem)) {
    prepared->cap = PAGODA_TRY(device.kernel<CudaSoftcapParams>(cap_unit(device.caps()), "softcap"));
  }
  prepared->programmatic = programmatic(device.caps());
  return HeadStep(
      [prepared = std::shared_ptr<const Prepared>(std::move(prepared))](const HeadArgs& args, device::Stream& stream) {
        prepared->launch(args, device::cuda::cuda(stream));
      });
}

}  // namespace

DType cuda_head_input(const HeadProblem& problem, const DeviceCaps& caps) { return input_type(problem, caps); }

const HeadKernel kCudaHead = {"cuda", {"bf16_mma"}, supports, scratch_bytes, units, prepare};

}  // namespace pagoda::kernels
