// Weights of tokens, e^((logit - max) / temperature), as whole numbers, so that their sums are exact: no order of
// summation, on whatever device, changes which tokens top-p keeps or which one is drawn, and a draw cannot fall off the
// end of its tokens. Every step is plain arithmetic with one rounding, the same on every device.
#pragma once

#include "base/shared.h"
#include "kernels/sample/exp_nonpositive.h"

namespace pagoda::kernels {

/// The likeliest token weighs 2^weight_bits: as fine as 64 bits allow for the sum of `vocab` tokens. 44 for
/// vocabularies of 2^18 tokens and fewer: a token below 2^-45 of the likeliest weighs nothing.
PAGODA_SHARED int weight_bits(std::int64_t vocab) {
  int bits = 62;
  for (std::int64_t rest = vocab; rest > 1; rest = rest / 2 + rest % 2) --bits;
  return bits < 44 ? bits : 44;
}

/// What a row's weights are made with. T is the type of logits.
template <class T>
struct Weighing {
  T max;
  double inverse;  ///< 1 / temperature
  float inverse_single;
  int bits;
  double one;  ///< 2^bits
};

template <class T>
PAGODA_SHARED Weighing<T> weighing(T max, double inverse, int bits) {
  return {max, inverse, static_cast<float>(inverse), bits, static_cast<double>(std::uint64_t{1} << bits)};
}

/// (logit - max) / temperature, near enough to tell the two kinds of weights apart. Monotone.
template <class T>
__attribute__((always_inline)) PAGODA_SHARED float scaled_logit(T logit, const Weighing<T>& how) {
  return static_cast<float>(logit - how.max) * how.inverse_single;
}

/// Below this a weight is less than 2^21 units, which single precision is enough for.
inline constexpr float kTailBelow = -16;

/// e^x · 2^bits for x below kTailBelow, within 1e-6 of it; x below -40 is taken for -40.
__attribute__((always_inline)) PAGODA_SHARED float tail_weight(float x, int bits) {
  constexpr float kMagic = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float bounded = x > -40.0f ? x : -40.0f;
  const float shifted = bounded * 1.44269504f + kMagic;
  const float n = shifted - kMagic;
  // ln 2 in two parts: the first has few enough bits that n times it is exact.
  const float r = (bounded - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float sum = 1.0f / 720.0f;  // Taylor's series; |r| ≤ 0.35
  sum = sum * r + 1.0f / 120.0f;
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, shifted) + static_cast<std::uint32_t>(127 + bits);
  return sum * __builtin_bit_cast(float, exponent << 23);
}

/// To the nearest, ties to even: in [2^23, 2^24) the last bit of a float is worth 1, in [2^52, 2^53) that of a double.
__attribute__((always_inline)) PAGODA_SHARED std::uint32_t tail_units(float x, int bits) {
  return __builtin_bit_cast(std::uint32_t, tail_weight(x, bits) + 0x1p23f) - 0x4b000000u;
}
template <class T>
__attribute__((always_inline)) PAGODA_SHARED std::uint64_t head_units(T logit, const Weighing<T>& how) {
  const double weight =
      exp_nonpositive((static_cast<double>(logit) - static_cast<double>(how.max)) * how.inverse) * how.one;
  return __builtin_bit_cast(std::uint64_t, weight + 0x1p52) - 0x4330000000000000u;
}

/// A token's weight, of logit ≤ max.
template <class T>
__attribute__((always_inline)) PAGODA_SHARED std::uint64_t weight_units(T logit, const Weighing<T>& how) {
  const float x = scaled_logit(logit, how);
  return x > kTailBelow ? head_units(logit, how) : tail_units(x, how.bits);
}

/// The upper 64 bits of a · b.
PAGODA_SHARED std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t low = a0 * b0;
  const std::uint64_t middle = a1 * b0 + (low >> 32);
  const std::uint64_t other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/// The least sum of units that is `share` (0 … 1) of `mass`: of what top-p keeps, and of a token that min-p keeps.
PAGODA_SHARED std::uint64_t wanted_units(double share, std::uint64_t mass) {
  const double exact = share * static_cast<double>(mass);
  auto wanted = static_cast<std::uint64_t>(exact);
  if (static_cast<double>(wanted) < exact) ++wanted;
  return wanted < mass ? wanted : mass;
}

}  // namespace pagoda::kernels
