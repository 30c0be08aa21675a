#pragma once

#include <cstdint>

#include "device/stream.h"

namespace pagoda::kernels {

struct ResidualParams {
  const float* update;
  float* residual;
  const float* norm;  // null: none
  std::int64_t update_stride, residual_stride, hidden;
  float scale, epsilon, weight_shift;
};

/// Units are rows.
void residual_portable(const ResidualParams& params, device::HostRange range);
void residual_avx2(const ResidualParams& params, device::HostRange range);
void residual_avx512(const ResidualParams& params, device::HostRange range);

}  // namespace pagoda::kernels
