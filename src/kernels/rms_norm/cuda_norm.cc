#include "kernels/rms_norm/cuda_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/launch.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kMostThreads = 1024;
// Many rows: more blocks a multiprocessor, more loads a thread (2,048 rows of 4,096: 29 µs with 1,024 threads).
constexpr std::int64_t kManyRows = 512;
constexpr std::int64_t kFewThreads = 256;
constexpr std::int64_t kDefaultSharedBytes = 48 * 1024;

/// A thread for four elements, in whole warps.
std::int64_t threads_for(const RmsNormProblem& problem) {
  if (problem.any_size) return kMostThreads;
  return std::min(kMostThreads, round_up<std::int64_t>(ceil_div<std::int64_t>(problem.hidden, 4), 32));
}

CompileUnit unit_of(std::int64_t threads, tensor::DType output, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "rms_norm/cuda_rms_norm.cu",
                   {define("THREADS", threads), define("OUTPUT", output == tensor::DType::kF16 ? 2 : 0)});
}

/// No element of a row is more than √hidden times the root of its mean square.
float factor_of_f16(const RmsNormProblem& problem, const float* weight, device::cuda::CudaDevice& device) {
  constexpr double kMost = 65504;
  std::vector<float> weights(static_cast<std::size_t>(problem.hidden));
  device.download(weights.data(), weight, std::ssize(weights) * 4);
  double most = 0;
  for (const float each : weights) most = std::max(most, std::abs(static_cast<double>(each) + problem.weight_shift));
  most *= std::sqrt(static_cast<double>(problem.hidden));
  float factor = 1;
  while (std::isfinite(most) && most * factor > kMost) factor /= 2;
  return factor;
}

}  // namespace

std::vector<CompileUnit> CudaNorm::units(const RmsNormProblem& problem, tensor::DType output, bool deterministic,
                                         const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units = {unit_of(threads_for(problem), output, caps)};
  // Another number of threads adds squares in another order.
  if (!deterministic && threads_for(problem) > kFewThreads) units.push_back(unit_of(kFewThreads, output, caps));
  return units;
}

Result<CudaNorm> CudaNorm::prepare(const RmsNormProblem& problem, tensor::DType output, bool deterministic,
                                   const RmsNormWeights& weights, device::cuda::CudaDevice& device) {
  CudaNorm norm;
  const std::vector<CompileUnit> units = CudaNorm::units(problem, output, deterministic, device.caps());
  norm.kernel_ = PAGODA_TRY(device.kernel<CudaRmsNormParams>(units[0], "rms_norm"));
  norm.threads_ = threads_for(problem);
  norm.many_ = norm.kernel_;
  norm.many_threads_ = norm.threads_;
  if (units.size() > 1) {
    norm.many_ = PAGODA_TRY(device.kernel<CudaRmsNormParams>(units[1], "rms_norm"));
    norm.many_threads_ = kFewThreads;
  }
  if (problem.hidden * 4 > kDefaultSharedBytes) {
    norm.kernel_.allow_shared_bytes(problem.hidden * 4);
    norm.many_.allow_shared_bytes(problem.hidden * 4);
  }
  norm.problem_ = problem;
  norm.weight_ = weights.weight;
  if (output == tensor::DType::kF16) norm.factor_ = factor_of_f16(problem, weights.weight, device);
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
                                 .output_factor = factor_,
                                 .rows = rows};
  const bool many = output.rows >= kManyRows;
  (many ? many_ : kernel_)
      .launch(stream,
              {.grid = {.x = grid_size(output.rows)},
               .block = {.x = grid_size(many ? many_threads_ : threads_)},
               .shared_bytes = static_cast<std::uint32_t>(problem_.hidden * 4),
               .programmatic = programmatic_},
              params);
  if (owes) update->slices = 0;
}

}  // namespace pagoda::kernels
