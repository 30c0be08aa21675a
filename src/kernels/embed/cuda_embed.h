// Parameters of cuda_embed.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaEmbedParams {
  const void* table;             ///< (n, k) blocks as in the file, or packed as the unit says
  const std::int32_t* ids;       ///< (rows of the grid); -1 - s: what slot s drew last
  const std::int32_t* last_ids;  ///< by slot; null if no id is negative
  float* output;                 ///< (rows, k)
  std::int64_t row_bytes;        ///< of a table in file order
  std::int64_t output_stride;
  std::int64_t n, k;
  float scale;
};

}  // namespace pagoda::kernels
