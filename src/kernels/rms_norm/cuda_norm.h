// The host part of cuda_rms_norm.cu, for stages: rows of the float residual stream to rows of bf16 or f16.
#pragma once

#include "device/cuda/cuda_device.h"
#include "kernels/rms_norm/cuda_rms_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/stages/residual_update.h"

namespace pagoda::kernels {

class CudaNorm {
 public:
  /// `output`: kBf16 or kF16. `deterministic`: a row's bits do not depend on the number of rows.
  static std::vector<CompileUnit> units(const RmsNormProblem& problem, tensor::DType output, bool deterministic,
                                        const device::DeviceCaps& caps);
  static Result<CudaNorm> prepare(const RmsNormProblem& problem, tensor::DType output, bool deterministic,
                                  const RmsNormWeights& weights, device::cuda::CudaDevice& device);

  const float* weight() const { return weight_; }

  /// What is written is the norm times this: 1, or the power of two that makes any row fit into f16.
  float factor() const { return factor_; }

  /// Into output (rows, hidden). `rows`, if given, says which row of the residual each one is of. What `update`
  /// owes is added to the residual first, and owed no more; not together with `rows`.
  void launch(const tensor::MatrixView& residual, const tensor::MatrixView& output, device::cuda::CudaStream& stream,
              const std::int64_t* rows = nullptr, ResidualUpdate* update = nullptr) const;

 private:
  device::cuda::Kernel<CudaRmsNormParams> kernel_, many_;  // for few rows, and for many
  std::int64_t threads_ = 0, many_threads_ = 0;
  RmsNormProblem problem_;
  const float* weight_ = nullptr;
  float factor_ = 1;
  bool programmatic_ = false;
};

}  // namespace pagoda::kernels
