// e^x for x ≤ 0 as plain arithmetic, so that compilers turn loops over it into vector code and every build gives the
// same bits. Always inlined: files for one instruction set may emit no function that others could be linked to.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

/// Within 2 units of the last place; 0 below -708, where the result is not a normal number.
__attribute__((always_inline)) PAGODA_SHARED double exp_nonpositive(double x) {
  constexpr double kMagic = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double bounded = x < -708.0 ? -708.0 : x;
  const double shifted = bounded * 1.4426950408889634074 + kMagic;
  const double n = shifted - kMagic;
  // ln 2 in two parts: the first has few enough bits that n times it is exact.
  const double r = (bounded - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double sum = 1.0 / 6227020800.0;  // Taylor's series; |r| ≤ 0.35 leaves the 14th term below 2^-57
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const std::uint64_t power = (__builtin_bit_cast(std::uint64_t, shifted) + 1023) << 52;
  const double value = sum * __builtin_bit_cast(double, power);
  return x < -708.0 ? 0.0 : value;
}

}  // namespace pagoda::kernels
