// Parameters of cuda_to_bf16.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct ToBf16Params {
  const void* source;      ///< (n, k) blocks as in the file, or bf16 in the layout mma16
  void* target;            ///< bf16: (n, k) rows one after the other, or mma16
  std::int64_t row_bytes;  ///< of a source in file order
  std::int64_t n, k;
  const std::int32_t* place;  ///< (k): where the source has a column of the target; null: there
};

}  // namespace pagoda::kernels
