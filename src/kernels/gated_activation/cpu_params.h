#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/gated_activation/gated_activation.h"

namespace pagoda::kernels {

struct GatedActivationParams {
  const float* gate;
  const float* up;
  float* output;
  std::int64_t gate_stride, up_stride, output_stride, width;
  ActivationKind kind;
  float limit;
};

/// Units are rows.
void gated_activation_portable(const GatedActivationParams& params, device::HostRange range);
void gated_activation_avx2(const GatedActivationParams& params, device::HostRange range);
void gated_activation_avx512(const GatedActivationParams& params, device::HostRange range);

}  // namespace pagoda::kernels
