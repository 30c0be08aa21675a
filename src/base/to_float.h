#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda {

/// A finite number as float. What is over 0 stays over 0: 1e-158 is a share that somebody may ask for, and 0 is none.
inline float to_float(double value) {
  if (value == 0) return 0;
  constexpr double kLeast = std::numeric_limits<float>::min();
  return static_cast<float>(std::copysign(std::max(std::abs(value), kLeast), value));
}

}  // namespace pagoda
