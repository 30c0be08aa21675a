// Parameters of cuda_pack_codes.cu and cuda_unpack_codes.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct PackCodesParams {
  const void* rows;  ///< num_rows of them, as a file has them
  void* packed;      ///< the whole matrix (n, k) in the layout mma_codes
  std::int64_t row_bytes;
  std::int64_t first_row;  ///< of `rows` in the matrix: a multiple of 16
  std::int64_t num_rows;   ///< a multiple of 16, or all to n
  std::int64_t n, k;
};

struct UnpackCodesParams {
  const void* packed;  ///< (n, k) in the layout mma_codes
  void* target;        ///< mma16, of what the unit makes
  std::int64_t n, k;
};

}  // namespace pagoda::kernels
