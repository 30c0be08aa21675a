// residual += scale · N(update), row by row; N is nothing or the RMS norm of rms_norm.h (norms after a sublayer).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct ResidualProblem {
  tensor::DType activation = tensor::DType::kF32;
  std::int64_t hidden = 0;
  float scale = 1;
  bool norm = false;
  double epsilon = 1e-6;
  float weight_shift = 0;
};

struct ResidualWeights {
  const float* norm = nullptr;  ///< (hidden); with `norm` only
};

struct ResidualArgs {
  tensor::MatrixView update;    ///< (rows, hidden)
  tensor::MatrixView residual;  ///< (rows, hidden), read and written
};

using ResidualStep = Step<ResidualArgs>;
using ResidualKernel = Candidate<ResidualProblem, ResidualWeights, ResidualArgs>;

std::span<const ResidualKernel> residual_kernels();

}  // namespace pagoda::kernels
