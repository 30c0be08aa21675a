// Sixteen float lanes in one AVX-512 register. The three lanes_*.h files offer the same names; a kernel's body is
// written once on them and compiled once for each set of instructions. Everything has internal linkage, so that no
// object built for one set of instructions offers a symbol to others.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace pagoda::kernels {
namespace {

constexpr bool kFusedLanes = true;  // fma rounds once
constexpr int kMaxTileRows = 6;     // an outer product's accumulators and operands fit the registers
constexpr int kMaxTileVectors = 4;

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

struct Lanes {
  __m512 v;
};
struct Mask {
  __mmask16 bits;
};

[[gnu::always_inline]] inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
[[gnu::always_inline]] inline Lanes load(const Half* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
[[gnu::always_inline]] inline Lanes load(const Brain* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
[[gnu::always_inline]] inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
[[gnu::always_inline]] inline void store(Half* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
/// NaN stays a NaN (quiet).
[[gnu::always_inline]] inline void store(Brain* p, Lanes a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i kept = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
}
[[gnu::always_inline]] inline Lanes broadcast(float a) { return {_mm512_set1_ps(a)}; }
[[gnu::always_inline]] inline Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes sub(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes mul(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes div(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes max(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes min(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Lanes square_root(Lanes a) { return {_mm512_sqrt_ps(a.v)}; }
/// a·b + c
[[gnu::always_inline]] inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
[[gnu::always_inline]] inline Lanes round_even(Lanes a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
[[gnu::always_inline]] inline Lanes absolute(Lanes a) { return {_mm512_abs_ps(a.v)}; }
/// a with b's sign
[[gnu::always_inline]] inline Lanes with_sign(Lanes a, Lanes b) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return {_mm512_castsi512_ps(_mm512_or_si512(_mm512_andnot_si512(sign, _mm512_castps_si512(a.v)),
                                              _mm512_and_si512(sign, _mm512_castps_si512(b.v))))};
}
/// 2^n for whole n in [-126, 127]
[[gnu::always_inline]] inline Lanes power_of_two(Lanes n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
/// Lanes begin … end - 1; both may lie outside 0 … 16.
[[gnu::always_inline]] inline Mask lanes_between(std::int64_t begin, std::int64_t end) {
  const unsigned from = begin <= 0 ? 0u : begin >= 16 ? 16u : static_cast<unsigned>(begin);
  const unsigned to = end <= 0 ? 0u : end >= 16 ? 16u : static_cast<unsigned>(end);
  return {static_cast<__mmask16>(((1u << to) - 1u) & ~((1u << from) - 1u))};
}
[[gnu::always_inline]] inline Mask less(Lanes a, Lanes b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
[[gnu::always_inline]] inline Lanes select(Mask m, Lanes yes, Lanes no) {
  return {_mm512_mask_blend_ps(m.bits, no.v, yes.v)};
}
/// The first `count` elements (at most 16), zeros after them; memory behind them is not touched.
[[gnu::always_inline]] inline Lanes load_first(const float* p, std::int64_t count) {
  return {_mm512_maskz_loadu_ps(lanes_between(0, count).bits, p)};
}
[[gnu::always_inline]] inline void store_first(float* p, Lanes a, std::int64_t count) {
  _mm512_mask_storeu_ps(p, lanes_between(0, count).bits, a.v);
}
[[gnu::always_inline]] inline Lanes load_first(const Half* p, std::int64_t count) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_between(0, count).bits, p))};
}
[[gnu::always_inline]] inline Lanes load_first(const Brain* p, std::int64_t count) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes_between(0, count).bits, p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
/// Neighbours 2i and 2i + 1 change places.
[[gnu::always_inline]] inline Lanes swap_pairs(Lanes a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
/// Lane i meets lane i + 8, then i + 4, i + 2, i + 1.
[[gnu::always_inline]] inline float sum(Lanes a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
[[gnu::always_inline]] inline float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

}  // namespace
}  // namespace pagoda::kernels
