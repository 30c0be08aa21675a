#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 256;

/// Of the scales of all rows, which stand before the rows in scratch.
std::int64_t scale_bytes(const CudaProductProblem& problem) {
  return round_up<std::int64_t>(problem.linear.max_m * 4, 256);
}

}  // namespace

bool of_e4m3(const CudaProductProblem& problem) {
  return std::ranges::all_of(problem.linear.specs(), [](const LinearWeightSpec& weight) {
    if (!weight.fp8_input || weight.layout != &kMmaCodesLayout) return false;
    const Coding& coding = *weight.format->coding;
    return coding.table == quant::CodeTable::kE4m3 && coding.scale == quant::ScaleType::kF32 &&
           coding.group == kWgmmaE4m3.span_columns;
  });
}

CompileUnit RoundInput::unit(const device::DeviceCaps& caps) {
  return cuda_unit(caps, "linear/cuda_quantize_e4m3.cu", {define("THREADS", kThreads)});
}

std::size_t RoundInput::scratch_bytes(const CudaProductProblem& problem) {
  return static_cast<std::size_t>(scale_bytes(problem) +
                                  round_up<std::int64_t>(problem.linear.max_m * e4m3_columns(problem.linear.k), 256));
}

Status RoundInput::prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device) {
  kernel_ = PAGODA_TRY(device.kernel<QuantizeE4m3Params>(unit(device.caps()), "quantize_e4m3"));
  k_ = problem.linear.k;
  kernel_.allow_shared_bytes(static_cast<std::uint32_t>(k_ * 2));
  scale_bytes_ = scale_bytes(problem);
  return Ok{};
}

const float* RoundInput::launch(CudaProductArgs& args, device::cuda::CudaStream& stream) const {
  auto* const scales = reinterpret_cast<float*>(args.scratch);
  std::byte* const rows = args.scratch + scale_bytes_;
  kernel_.launch(stream,
                 {.grid = {.x = grid_size(args.m)},
                  .block = {.x = kThreads},
                  .shared_bytes = static_cast<std::uint32_t>(k_ * 2),
                  .programmatic = true},
                 {.input = args.input, .output = rows, .scales = scales, .k = k_, .input_stride = args.input_stride});
  args.input = rows;
  args.input_stride = e4m3_columns(k_);
  return scales;
}

}  // namespace pagoda::kernels
