#pragma once

#include <cstdint>

namespace pagoda::kernels {

/// What is still to be added to the residual stream: scale · Σ slices, each (rows, hidden). A GPU's product over slices
/// of k may leave it so, and the norm of the next stage adds it on its way. Hosts owe nothing.
struct ResidualUpdate {
  float* memory = nullptr;        ///< room for it, beside all scratch; null: the stage has to add by itself
  std::int32_t slices = 0;        ///< 0: nothing is owed
  std::int64_t slice_stride = 0;  ///< elements from one slice to the next
  float scale = 1;
};

}  // namespace pagoda::kernels
