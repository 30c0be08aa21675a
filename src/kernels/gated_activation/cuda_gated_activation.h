// Parameters of cuda_gated_activation.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaGatedActivationParams {
  const void* gate;                                    ///< (rows, width): bf16 or float, as the unit says
  const void* up;                                      ///< (rows, width), likewise
  void* output;                                        ///< (rows, width) bf16; may be a bf16 gate or up
  std::int64_t gate_stride, up_stride, output_stride;  ///< elements, multiples of 4
  std::int64_t rows, width;                            ///< width is a multiple of 4
  float limit;                                         ///< of the clamped one
};

}  // namespace pagoda::kernels
