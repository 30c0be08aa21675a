#include "kernels/rms_norm/cuda_norm.h"

#include "kernels/cuda/launch.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kDefaultSharedBytes = 48 * 1024;

/// A thread for four elements, in whole warps.
std::int64_t threads_for(std::int64_t hidden) {
  return std::min(kMostThreads, round_up<std::int64_t>(ceil_div<std::int64_t>(hidden, 4), 32));
}

}  // namespace

std::vector<CompileUnit> CudaNorm::units(const RmsNormProblem& problem, const device::DeviceCaps& caps) {
  return {
      cuda_unit(caps, "rms_norm/cuda_rms_norm.cu", {define("THREADS", threads_for(problem.hidden)), "FLOAT_OUTPUT=0"})};
}

Result<CudaNorm> CudaNorm::prepare(const RmsNormProblem& problem, const RmsNormWeights& weights,
                                   device::cuda::CudaDevice& device) {
  CudaNorm norm;
  norm.kernel_ = PAGODA_TRY(device.kernel<CudaRmsNormParams>(units(problem, device.caps())[0], "rms_norm"));
  if (problem.hidden * 4 > kDefaultSharedBytes) norm.kernel_.allow_shared_bytes(problem.hidden * 4);
  norm.problem_ = problem;
  norm.weight_ = weights.weight;
  norm.programmatic_ = programmatic(device.caps());
  return norm;
}

void CudaNorm::launch(const tensor::MatrixView& residual, const tensor::MatrixView& output,
                      device::cuda::CudaStream& stream, const std::int64_t* rows, ResidualUpdate* update) const {
  const bool owes = update != nullptr && update->slices > 0;
  const CudaRmsNormParams params{.residual = static_cast<float*>(residual.data),
                                 .update = owes ? update->memory : nullptr,
                                 .weight = weight_,
                                 .output = output.data,
                                 .hidden = problem_.hidden,
                                 .residual_stride = residual.stride,
                                 .update_stride = problem_.hidden,
                                 .slice_stride = owes ? update->slice_stride : 0,
                                 .output_stride = output.stride,
                                 .slices = owes ? update->slices : 0,
                                 .scale = owes ? update->scale : 1,
                                 .epsilon = static_cast<float>(problem_.epsilon),
                                 .weight_shift = problem_.weight_shift,
                                 .rows = rows};
  kernel_.launch(stream,
                 {.grid = {.x = grid_size(output.rows)},
                  .block = {.x = grid_size(threads_for(problem_.hidden))},
                  .shared_bytes = static_cast<std::uint32_t>(problem_.hidden * 4),
                  .programmatic = programmatic_},
                 params);
  if (owes) update->slices = 0;
}

}  // namespace pagoda::kernels
