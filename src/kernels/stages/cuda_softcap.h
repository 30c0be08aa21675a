// Parameters of cuda_softcap.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaSoftcapParams {
  float* logits;  ///< (rows, width), read and written
  std::int64_t stride;
  std::int64_t rows, width;
  float cap;    ///< 0: none
  float scale;  ///< of the logits, before the cap
};

}  // namespace pagoda::kernels
