// Activations of gated units (gated_activation.h says what they are), on the special-function unit.
#pragma once

#include "base/shared.h"

namespace pagoda {

__device__ __forceinline__ float silu(float gate) { return gate / (1.0f + __expf(-gate)); }

/// GELU by tanh: (1 + tanh(t)) / 2 is 1 / (1 + e^-2t).
__device__ __forceinline__ float gelu_tanh(float gate) {
  const float inner = 0.7978845608028654f * fmaf(0.044715f * gate * gate, gate, gate);
  return gate / (1.0f + __expf(-2.0f * inner));
}

}  // namespace pagoda
