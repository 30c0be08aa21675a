// Sixteen float lanes as an array, for any processor; see lanes_avx512.h. `fma` is a multiplication and an addition,
// each rounded: a fused one would be a call into the mathematics library here.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/numbers.h"

namespace pagoda::kernels {
namespace {

constexpr bool kFusedLanes = false;
constexpr int kMaxTileRows = 3;
constexpr int kMaxTileVectors = 1;

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

struct Lanes {
  float v[16];
};
struct Mask {
  bool v[16];
};

template <class Body>
[[gnu::always_inline]] inline Lanes each_lane(const Body& body) {
  Lanes out;
  for (int i = 0; i < 16; ++i) out.v[i] = body(i);
  return out;
}
[[gnu::always_inline]] inline float widen(float x) { return x; }
[[gnu::always_inline]] inline float widen(Half x) { return f16_to_float(x.bits); }
[[gnu::always_inline]] inline float widen(Brain x) { return bf16_to_float(x.bits); }

template <class T>
[[gnu::always_inline]] inline Lanes load(const T* p) {
  return each_lane([&](int i) { return widen(p[i]); });
}
[[gnu::always_inline]] inline void store(float* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
[[gnu::always_inline]] inline void store(Half* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i].bits = float_to_f16(a.v[i]);
}
[[gnu::always_inline]] inline void store(Brain* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i].bits = float_to_bf16(a.v[i]);
}
[[gnu::always_inline]] inline Lanes broadcast(float a) {
  return each_lane([&](int) { return a; });
}
[[gnu::always_inline]] inline Lanes add(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
[[gnu::always_inline]] inline Lanes sub(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
[[gnu::always_inline]] inline Lanes mul(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
[[gnu::always_inline]] inline Lanes div(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
[[gnu::always_inline]] inline Lanes max(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
[[gnu::always_inline]] inline Lanes min(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
[[gnu::always_inline]] inline Lanes square_root(const Lanes& a) {
  return each_lane([&](int i) { return std::sqrt(a.v[i]); });
}
[[gnu::always_inline]] inline Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_lane([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
/// Adding and taking away 1.5 · 2^23 leaves no room for a fraction; for |a| < 2^22.
[[gnu::always_inline]] inline Lanes round_even(const Lanes& a) {
  return each_lane([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
}
[[gnu::always_inline]] inline Lanes absolute(const Lanes& a) {
  return each_lane([&](int i) { return std::fabs(a.v[i]); });
}
[[gnu::always_inline]] inline Lanes with_sign(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return std::copysign(a.v[i], b.v[i]); });
}
/// A NaN has no whole number: its lane's value is of no use and is not looked at.
[[gnu::always_inline]] inline Lanes power_of_two(const Lanes& n) {
  return each_lane([&](int i) {
    const float whole = n.v[i] >= -126.0f && n.v[i] <= 127.0f ? n.v[i] : 0.0f;
    return float_of_bits(static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) + 127) << 23);
  });
}
[[gnu::always_inline]] inline Mask lanes_between(std::int64_t begin, std::int64_t end) {
  Mask mask;
  for (int i = 0; i < 16; ++i) mask.v[i] = i >= begin && i < end;
  return mask;
}
[[gnu::always_inline]] inline Mask less(const Lanes& a, const Lanes& b) {
  Mask mask;
  for (int i = 0; i < 16; ++i) mask.v[i] = a.v[i] < b.v[i];
  return mask;
}
[[gnu::always_inline]] inline Lanes select(const Mask& m, const Lanes& yes, const Lanes& no) {
  return each_lane([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}
template <class T>
[[gnu::always_inline]] inline Lanes load_first(const T* p, std::int64_t count) {
  return each_lane([&](int i) { return i < count ? widen(p[i]) : 0.0f; });
}
[[gnu::always_inline]] inline void store_first(float* p, const Lanes& a, std::int64_t count) {
  for (int i = 0; i < 16; ++i) {
    if (i < count) p[i] = a.v[i];
  }
}
[[gnu::always_inline]] inline Lanes swap_pairs(const Lanes& a) {
  return each_lane([&](int i) { return a.v[i ^ 1]; });
}
[[gnu::always_inline]] inline float sum(Lanes a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  }
  return a.v[0];
}
[[gnu::always_inline]] inline float largest(Lanes a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

}  // namespace
}  // namespace pagoda::kernels
