// Parameters of cuda_block_tables.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct alignas(8) BlockTableChange {
  std::int32_t index;  ///< in the tables of all groups
  std::int32_t block;
};

struct CudaBlockTablesParams {
  std::int32_t* tables;
  const BlockTableChange* changes;  ///< (count), no index twice
  std::int64_t count;
};

}  // namespace pagoda::kernels
