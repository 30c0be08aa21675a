// Sixteen float lanes in two AVX2 registers; see lanes_avx512.h. Every operation rounds as the AVX-512 one does, so
// that bodies written on lanes give the same bits on both.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace pagoda::kernels {
namespace {

constexpr bool kFusedLanes = true;
constexpr int kMaxTileRows = 3;
constexpr int kMaxTileVectors = 2;

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

struct Lanes {
  __m256 a, b;
};
struct Mask {
  __m256 a, b;
};

[[gnu::always_inline]] inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
[[gnu::always_inline]] inline __m128i load_eight(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
[[gnu::always_inline]] inline Lanes load(const Half* p) {
  return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 8))};
}
[[gnu::always_inline]] inline __m256 widen(__m128i brain) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(brain), 16));
}
[[gnu::always_inline]] inline Lanes load(const Brain* p) { return {widen(load_eight(p)), widen(load_eight(p + 8))}; }
[[gnu::always_inline]] inline void store(float* p, Lanes x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
[[gnu::always_inline]] inline void store(Half* p, Lanes x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
[[gnu::always_inline]] inline __m128i narrow(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 kept =
      _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(kept), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
[[gnu::always_inline]] inline void store(Brain* p, Lanes x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(x.a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), narrow(x.b));
}
[[gnu::always_inline]] inline Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
[[gnu::always_inline]] inline Lanes add(Lanes x, Lanes y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes sub(Lanes x, Lanes y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes mul(Lanes x, Lanes y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes div(Lanes x, Lanes y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes max(Lanes x, Lanes y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes min(Lanes x, Lanes y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
[[gnu::always_inline]] inline Lanes square_root(Lanes x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
[[gnu::always_inline]] inline Lanes fma(Lanes x, Lanes y, Lanes z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
[[gnu::always_inline]] inline Lanes round_even(Lanes x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
[[gnu::always_inline]] inline Lanes absolute(Lanes x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
[[gnu::always_inline]] inline Lanes with_sign(Lanes x, Lanes y) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(sign, x.a), _mm256_and_ps(sign, y.a)),
          _mm256_or_ps(_mm256_andnot_ps(sign, x.b), _mm256_and_ps(sign, y.b))};
}
[[gnu::always_inline]] inline __m256 power_of_two(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
[[gnu::always_inline]] inline Lanes power_of_two(Lanes n) { return {power_of_two(n.a), power_of_two(n.b)}; }
[[gnu::always_inline]] inline __m256 eight_between(std::int64_t begin, std::int64_t end) {
  const int from = begin <= 0 ? 0 : begin >= 8 ? 8 : static_cast<int>(begin);
  const int to = end <= 0 ? 0 : end >= 8 ? 8 : static_cast<int>(end);
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(from), index),
                                                 _mm256_cmpgt_epi32(_mm256_set1_epi32(to), index)));
}
[[gnu::always_inline]] inline Mask lanes_between(std::int64_t begin, std::int64_t end) {
  return {eight_between(begin, end), eight_between(begin - 8, end - 8)};
}
[[gnu::always_inline]] inline Mask less(Lanes x, Lanes y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
[[gnu::always_inline]] inline Lanes select(Mask m, Lanes yes, Lanes no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
[[gnu::always_inline]] inline Lanes load_first(const float* p, std::int64_t count) {
  const Mask mask = lanes_between(0, count);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(mask.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.b))};
}
[[gnu::always_inline]] inline void store_first(float* p, Lanes x, std::int64_t count) {
  const Mask mask = lanes_between(0, count);
  _mm256_maskstore_ps(p, _mm256_castps_si256(mask.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(mask.b), x.b);
}
template <class Narrow>
[[gnu::always_inline]] inline Lanes load_first_narrow(const Narrow* p, std::int64_t count) {
  alignas(32) Narrow copy[16] = {};
  for (std::int64_t i = 0; i < count && i < 16; ++i) copy[i] = p[i];
  return load(copy);
}
[[gnu::always_inline]] inline Lanes load_first(const Half* p, std::int64_t count) {
  return load_first_narrow(p, count);
}
[[gnu::always_inline]] inline Lanes load_first(const Brain* p, std::int64_t count) {
  return load_first_narrow(p, count);
}
[[gnu::always_inline]] inline Lanes swap_pairs(Lanes x) {
  return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
}
[[gnu::always_inline]] inline float sum(Lanes x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
[[gnu::always_inline]] inline float largest(Lanes x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

}  // namespace
}  // namespace pagoda::kernels
