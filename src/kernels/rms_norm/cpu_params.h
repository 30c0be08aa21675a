#pragma once

#include <cstdint>

#include "device/stream.h"

namespace pagoda::kernels {

struct RmsNormParams {
  const float* input;
  float* output;
  const float* weight;
  std::int64_t input_stride, output_stride, hidden;
  float epsilon, weight_shift;
};

/// Units are rows.
void rms_norm_portable(const RmsNormParams& params, device::HostRange range);
void rms_norm_avx2(const RmsNormParams& params, device::HostRange range);
void rms_norm_avx512(const RmsNormParams& params, device::HostRange range);

}  // namespace pagoda::kernels
