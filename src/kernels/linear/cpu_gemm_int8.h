#pragma once

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

/// Quantised weights times activations of 8 (standard) or 16 bits (high) in groups of 32; int8_gemm.h has the formula.
extern const LinearKernel kInt8Avx512Linear;
extern const LinearKernel kInt8Avx2Linear;

}  // namespace pagoda::kernels
