// How attention multiplies with AVX512-BF16: pairs of bfloat16 (two dimensions, or two keys), products and sums in
// float. Queries, keys, weights and values are rounded to 8 significant bits: relative error of an output about 2^-9 /
// sqrt(n). After lanes_avx512.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/lanes_math.h"

namespace pagoda::kernels {
namespace {

struct Pair {
  std::uint32_t bits;  // the even term in the low half
};
struct PairLanes {
  __m512i v;
};

constexpr std::int64_t kDepth = 2;
using Factor = Pair;
using Wide = Pair;
using Column = PairLanes;

/// Words 0, 16, 1, 17 …: the lanes of two rows of sixteen, side by side.
[[gnu::always_inline]] inline __m512i side_by_side(__m512i words) {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), words);
}
[[gnu::always_inline]] inline __m512i narrow_two(Lanes low, Lanes high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v));
}
[[gnu::always_inline]] inline Column columns_of(Lanes even, Lanes odd) { return {side_by_side(narrow_two(even, odd))}; }
[[gnu::always_inline]] inline Column load_column(const Half* p, std::int64_t stride) {
  return columns_of(load(p), load(p + stride));
}
[[gnu::always_inline]] inline Column load_column(const Brain* p, std::int64_t stride) {
  const __m256i even = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i odd = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + stride));
  return {side_by_side(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1))};
}
[[gnu::always_inline]] inline Column load_column(const float* p, std::int64_t stride) {
  return columns_of(load(p), load(p + stride));
}
[[gnu::always_inline]] inline Column load_column(const Pair* p, std::int64_t) { return {_mm512_loadu_si512(p)}; }
[[gnu::always_inline]] inline void store_column(Pair* p, Column c) { _mm512_storeu_si512(p, c.v); }
/// The even (0) or the odd (1) terms alone, zeros for the others.
[[gnu::always_inline]] inline Column keep_term(Column c, std::int64_t term) {
  const auto mask = static_cast<std::int32_t>(term == 0 ? 0x0000ffffu : 0xffff0000u);
  return {_mm512_and_si512(c.v, _mm512_set1_epi32(mask))};
}

[[gnu::always_inline]] inline Lanes multiply_add(Column factor, Column c, Lanes sums) {
  return {_mm512_dpbf16_ps(sums.v, reinterpret_cast<__m512bh>(factor.v), reinterpret_cast<__m512bh>(c.v))};
}
[[gnu::always_inline]] inline Column broadcast_factor(const Pair* p) {
  return {_mm512_set1_epi32(static_cast<std::int32_t>(p->bits))};
}
/// 2^x for x ≤ 0, exactly 1 at 0, 2^-126 below -126; relative error at most 1.1e-4, a twentieth of what rounding to a
/// factor adds.
[[gnu::always_inline]] inline Lanes weight_of(Lanes x) {
  const Lanes bounded = max(broadcast(-126.0f), x);
  const Lanes whole = round_even(bounded);
  const Lanes part = sub(bounded, whole);
  Lanes p = fma(broadcast(0x1.c2a218p-5f), part, broadcast(0x1.f00c4cp-3f));
  p = fma(p, part, broadcast(0x1.62f5fap-1f));
  p = fma(p, part, broadcast(1.0f));
  return mul(p, power_of_two(whole));
}
[[gnu::always_inline]] inline void store_factors(Pair* p, Lanes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v)));
}
[[gnu::always_inline]] inline Lanes store_weights(Pair* p, Lanes first, Lanes second, Lanes total) {
  const __m512i pairs = narrow_two(first, second);
  _mm512_storeu_si512(p, pairs);
  return multiply_add({_mm512_set1_epi32(0x3f803f80)}, {pairs}, total);  // times one and one
}

}  // namespace
}  // namespace pagoda::kernels
