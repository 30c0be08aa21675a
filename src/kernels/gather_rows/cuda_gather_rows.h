// Parameters of cuda_gather_rows.cu, shared by host and device. A piece is 16 bytes.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaGatherRowsParams {
  const void* input;                         ///< rows of pieces
  void* output;                              ///< (rows of the grid, pieces)
  const std::int64_t* rows;                  ///< (rows of the grid) of the input
  std::int64_t input_stride, output_stride;  ///< pieces
  std::int64_t pieces;                       ///< of a row
};

}  // namespace pagoda::kernels
