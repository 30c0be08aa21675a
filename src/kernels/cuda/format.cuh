// The block format that a unit is compiled for: FORMAT is the name of its struct.
#pragma once

#include "quant/formats.h"

namespace pagoda {

using Format = quant::FORMAT;

/// Element `column` of a row of blocks.
__device__ __forceinline__ float decode_element(const void* row, std::int64_t column) {
  const auto* blocks = static_cast<const Format::Block*>(row);
  return Format::decode(blocks[column / Format::kBlockElements], static_cast<int>(column % Format::kBlockElements));
}

}  // namespace pagoda
