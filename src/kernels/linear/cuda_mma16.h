// Where the layout mma16 keeps an element of a matrix of bf16, shared by host and device: tiles of 16 rows × 32
// columns, 1 KiB each, a row of tiles after the other; in a tile first rows 0 … 7, then 8 … 15; in these, lane 4·row +
// column / 8 of a warp finds its 16 bytes at 16·lane. Zeros past the matrix.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

PAGODA_SHARED std::int64_t mma16_elements(std::int64_t rows, std::int64_t columns) {
  return (rows + 15) / 16 * ((columns + 31) / 32) * 512;
}

/// In elements; eight columns from a multiple of eight on are neighbours.
PAGODA_SHARED std::int64_t mma16_offset(std::int64_t row, std::int64_t column, std::int64_t columns) {
  const std::int64_t tile = row / 16 * ((columns + 31) / 32) + column / 32;
  return (tile * 2 + row % 16 / 8) * 256 + (row % 8 * 4 + column % 32 / 8) * 8 + column % 8;
}

}  // namespace pagoda::kernels
