// How many rows of small per-row work make a piece worth another thread's while.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pagoda::kernels {

/// Rows of `elements` floats each that take some microseconds, the cost of handing work over.
inline std::int64_t rows_per_piece(std::int64_t elements) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
}

}  // namespace pagoda::kernels
