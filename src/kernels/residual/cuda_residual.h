// Parameters of cuda_residual.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaResidualParams {
  float* residual;                              ///< (rows, hidden), read and written
  const void* update;                           ///< (rows, hidden): bf16 or float, as the unit says
  const float* norm;                            ///< (hidden) weights of the update's norm, or null: none
  std::int64_t residual_stride, update_stride;  ///< elements
  std::int64_t hidden;
  float scale;
  float epsilon;
  float weight_shift;
};

}  // namespace pagoda::kernels
