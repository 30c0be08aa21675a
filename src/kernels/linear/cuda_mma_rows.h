// Parameters of cuda_mma_rows.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct MmaRowsWeight {
  const void* data;   ///< (n, k) bf16 in the layout mma16
  const float* bias;  ///< (n), or null
  void* output;       ///< (m, n): bf16 or float, as the unit's epilogue says
  std::int64_t n;
  std::int64_t output_stride;  ///< elements from one row of the output to the next
};

struct MmaRowsParams {
  MmaRowsWeight weights[3];
  const void* input;          ///< (m, k) bf16, or float if the unit norms it
  const float* norm;          ///< (k) weights of the norm, if the unit norms
  std::int64_t input_stride;  ///< elements
  std::int64_t k;             ///< a multiple of 8
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t m;             ///< rows of the input: at most 8 · TOKEN_TILES
  float epsilon;
  float scale;  ///< of what a residual unit adds
};

}  // namespace pagoda::kernels
