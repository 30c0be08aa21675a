// Parameters of cuda_rms_norm.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaRmsNormParams {
  float* residual;      ///< (rows, hidden); written if there is an update
  const float* update;  ///< (slices, rows, hidden) whose sum, times scale, is added to the residual first; or null
  const float* weight;  ///< (hidden)
  void* output;         ///< (rows, hidden), as the unit says: bf16, float or f16; null: the residual only
  std::int64_t hidden;  ///< a multiple of 4
  std::int64_t residual_stride;  ///< elements, as all strides
  std::int64_t update_stride;
  std::int64_t slice_stride;
  std::int64_t output_stride;
  std::int32_t slices;
  float scale;
  float epsilon;
  float weight_shift;        ///< added to each weight
  float output_factor;       ///< of f16: what is written is multiplied with it too
  const std::int64_t* rows;  ///< which row of the residual each one of the output is of, without update; null: its own
};

}  // namespace pagoda::kernels
