// Exponential functions on lanes, for bodies that have included one lanes_*.h. Errors are against double precision,
// measured by tests/unit/kernels/lanes_math_test.cc. A NaN stays a NaN: max and min return their second operand for
// one.
#pragma once

#include <cstdint>

namespace pagoda::kernels {
namespace {

/// 2^x for x ≤ 0; exactly 1 at 0, 2^-126 below -126. Relative error at most 2e-7.
[[gnu::always_inline]] inline Lanes exp2_nonpositive(Lanes x) {
  const Lanes bounded = max(broadcast(-126.0f), x);
  const Lanes whole = round_even(bounded);
  const Lanes part = sub(bounded, whole);
  Lanes p = fma(broadcast(0x1.5bba2p-10f), part, broadcast(0x1.3cea86p-7f));
  p = fma(p, part, broadcast(0x1.c6b752p-5f));
  p = fma(p, part, broadcast(0x1.ebf9bcp-3f));
  p = fma(p, part, broadcast(0x1.62e42ap-1f));
  p = fma(p, part, broadcast(1.0f));
  return mul(p, power_of_two(whole));
}

/// e^x, x first brought into [-87, 88]. Relative error at most 1.5e-7 inside.
[[gnu::always_inline]] inline Lanes exp_bounded(Lanes x) {
  const Lanes bounded = min(broadcast(88.0f), max(broadcast(-87.0f), x));
  const Lanes whole = round_even(mul(bounded, broadcast(0x1.715476p+0f)));
  Lanes part = fma(whole, broadcast(-0x1.62ep-1f), bounded);
  part = fma(whole, broadcast(-0x1.0bfbe8p-15f), part);
  Lanes p = fma(broadcast(0x1.6a2658p-10f), part, broadcast(0x1.1239fp-7f));
  p = fma(p, part, broadcast(0x1.5558eep-5f));
  p = fma(p, part, broadcast(0x1.555492p-3f));
  p = fma(p, part, broadcast(0x1.fffffcp-2f));
  p = fma(mul(p, part), part, part);
  return mul(add(p, broadcast(1.0f)), power_of_two(whole));
}

/// 1 / (1 + e^-x). Relative error at most 4e-7; a NaN stays one.
[[gnu::always_inline]] inline Lanes sigmoid(Lanes x) {
  const Lanes one = broadcast(1.0f);
  return div(one, add(one, exp_bounded(sub(broadcast(0.0f), x))));
}

/// tanh x. Relative error at most 4e-7.
[[gnu::always_inline]] inline Lanes hyperbolic_tangent(Lanes x) {
  const Lanes size = absolute(x);
  const Lanes square = mul(x, x);
  Lanes small = fma(broadcast(-0x1.75e1cep-8f), square, broadcast(0x1.52269cp-6f));
  small = fma(small, square, broadcast(-0x1.b83c5ap-5f));
  small = fma(small, square, broadcast(0x1.110726p-3f));
  small = fma(small, square, broadcast(-0x1.555532p-2f));
  small = fma(mul(small, square), size, size);
  const Lanes decay = exp_bounded(mul(size, broadcast(-2.0f)));
  const Lanes large = div(sub(broadcast(1.0f), decay), add(broadcast(1.0f), decay));
  return with_sign(select(less(size, broadcast(0.625f)), small, large), x);
}

}  // namespace
}  // namespace pagoda::kernels
