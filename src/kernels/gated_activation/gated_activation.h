// output = act(gate) · up, element by element.
//   kSilu         g / (1 + e^-g)
//   kGeluTanh     g · (1 + tanh(0.7978845608 (g + 0.044715 g³))) / 2
//   kClampedSwiglu  g' = min(g, limit), u' = clamp(u, ±limit): g' σ(1.702 g') (u' + 1)
#pragma once

#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

enum class ActivationKind : std::uint8_t { kSilu, kGeluTanh, kClampedSwiglu };

struct GatedActivationProblem {
  tensor::DType activation = tensor::DType::kF32;
  std::int64_t width = 0;
  ActivationKind kind = ActivationKind::kSilu;
  float limit = 0;  ///< of kClampedSwiglu
};

struct GatedActivationWeights {};

struct GatedActivationArgs {
  tensor::MatrixView gate;    ///< (rows, width)
  tensor::MatrixView up;      ///< (rows, width)
  tensor::MatrixView output;  ///< (rows, width); may be gate or up
};

using GatedActivationStep = Step<GatedActivationArgs>;
using GatedActivationKernel = Candidate<GatedActivationProblem, GatedActivationWeights, GatedActivationArgs>;

std::span<const GatedActivationKernel> gated_activation_kernels();

}  // namespace pagoda::kernels
