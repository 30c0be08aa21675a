// Parameters of cuda_generic_rows.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct GenericRowsParams {
  const void* weight;         ///< (n, k) blocks, as in the file
  const float* bias;          ///< (n), or null
  const std::int32_t* place;  ///< (k): where the weight has a column of the input, if the unit is ORDERED
  const void* input;          ///< (m, k): float or bf16, as the unit says
  void* output;               ///< (m, n): bf16 or float, as the unit's epilogue says
  std::int64_t row_bytes;     ///< of the weight
  std::int64_t input_stride, output_stride;  ///< elements
  std::int64_t n, k, m;                      ///< k is a multiple of the format's block
  float scale;                               ///< of what a residual unit adds
};

}  // namespace pagoda::kernels
