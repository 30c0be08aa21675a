#pragma once

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

/// f32, f16 and bf16 weights, rows interleaved, times float activations; both of one arithmetic.
extern const LinearKernel kFloatAvx512Linear;
extern const LinearKernel kFloatAvx2Linear;

}  // namespace pagoda::kernels
