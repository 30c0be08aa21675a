// output = input / sqrt(mean(input²) + epsilon) · (weight + weight_shift), row by row.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct RmsNormProblem {
  tensor::DType activation = tensor::DType::kF32;  ///< kF64 on the reference device
  std::int64_t hidden = 0;
  double epsilon = 1e-6;
  float weight_shift = 0;  ///< 1 where a checkpoint stores weight - 1
  bool any_size = false;   ///< GPUs: no kernel that is compiled for this size
};

struct RmsNormWeights {
  const float* weight = nullptr;  ///< (hidden)
};

struct RmsNormArgs {
  tensor::MatrixView input;   ///< (rows, hidden)
  tensor::MatrixView output;  ///< (rows, hidden); may be the input
};

using RmsNormStep = Step<RmsNormArgs>;
using RmsNormKernel = Candidate<RmsNormProblem, RmsNormWeights, RmsNormArgs>;

/// In order of preference; the last of each device supports every problem.
std::span<const RmsNormKernel> rms_norm_kernels();

}  // namespace pagoda::kernels
