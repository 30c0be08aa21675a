// Activations to 8- or 16-bit codes in groups of 32 (int8_gemm.h has the formula). Reads 128 bytes and writes 52 or 84
// for a group. One tile of tokens is a unit. Zen 4, 2026-11-30: 7 ns a group, 12 with two terms.
#include <immintrin.h>

#include "kernels/linear/int8_gemm.h"

namespace pagoda::kernels::int8_gemm {
namespace {

using int8_rows16::kGroup;

// Below this a group is taken for zeros: 32639 / amax would overflow.
constexpr float kSmallest = 1e-33f;

float float_of(std::int32_t bits) { return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits))); }

std::int32_t sum_of(__m256i a) {
  const __m128i sum4 = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i sum2 = _mm_add_epi32(sum4, _mm_shuffle_epi32(sum4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum2, _mm_shuffle_epi32(sum2, 0xb1)));
}

/// The bits of the largest |x|: as integers they are in the floats' order, with infinity and NaN on top.
std::int32_t max_bits(const __m256* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
  __m128i most4 = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  most4 = _mm_max_epi32(most4, _mm_shuffle_epi32(most4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(most4, _mm_shuffle_epi32(most4, 0xb1)));
}

/// 32 integers, each within int8, in order.
void store_bytes(const __m256i* v, std::int8_t* out) {
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
}

/// Where token `token` of a group's record with `tokens` tokens keeps its parts.
struct Slot {
  float* scale;
  float* sum;
  std::int32_t* minus_sum;
  std::int32_t* minus_half;  // of the second half: `tokens` further
  std::int8_t* codes;        // of the second term: 32 · `tokens` further
  std::int64_t tokens;
};

Slot slot_of(std::uint8_t* record, std::int64_t tokens, std::int64_t token) {
  float* floats = reinterpret_cast<float*>(record);
  std::int32_t* integers = reinterpret_cast<std::int32_t*>(record);
  return {floats + token,
          floats + tokens + token,
          integers + 2 * tokens + token,
          integers + 3 * tokens + token,
          reinterpret_cast<std::int8_t*>(record + 20 * tokens + kGroup * token),
          tokens};
}

template <int kTerms>
void quantize_group(const float* from, const Slot& slot) {
  constexpr float kMost = kTerms == 1 ? 127.0f : 32639.0f;
  __m256 x[4];
  for (int i = 0; i < 4; ++i) x[i] = _mm256_loadu_ps(from + 8 * i);
  const std::int32_t bits = max_bits(x);
  const float amax = float_of(bits);
  const bool finite = bits < 0x7f800000;
  const bool live = finite && amax >= kSmallest;
  const float scale = live ? amax / kMost : finite ? 0.0f : float_of(0x7fc00000);
  const __m256 inverse = _mm256_set1_ps(live ? kMost / amax : 0.0f);
  __m256i v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], inverse));
  if (!live) v[0] = v[1] = v[2] = v[3] = _mm256_setzero_si256();

  const std::int32_t first = sum_of(_mm256_add_epi32(v[0], v[1]));
  const std::int32_t second = sum_of(_mm256_add_epi32(v[2], v[3]));
  *slot.scale = scale;
  *slot.sum = scale * static_cast<float>(first + second);
  *slot.minus_sum = -(first + second);
  slot.minus_half[0] = -first;
  slot.minus_half[slot.tokens] = -second;
  if constexpr (kTerms == 1) {
    store_bytes(v, slot.codes);
  } else {
    __m256i upper[4];
    __m256i lower[4];
    for (int i = 0; i < 4; ++i) {
      upper[i] = _mm256_srai_epi32(_mm256_add_epi32(v[i], _mm256_set1_epi32(128)), 8);
      lower[i] = _mm256_sub_epi32(v[i], _mm256_slli_epi32(upper[i], 8));
    }
    store_bytes(upper, slot.codes);
    store_bytes(lower, slot.codes + kGroup * slot.tokens);
  }
}

template <int kTerms>
void quantize_tile(const QuantizeParams& params, std::int64_t first, std::int64_t tokens) {
  const std::int64_t record_bytes = tokens * token_bytes(kTerms);
  std::uint8_t* tile = params.activations + first * params.groups * token_bytes(kTerms);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float* row = params.input + (first + token) * params.stride;
    for (std::int64_t group = 0; group < params.groups; ++group) {
      quantize_group<kTerms>(row + group * kGroup, slot_of(tile + group * record_bytes, tokens, token));
    }
  }
}

}  // namespace

void quantize_avx2(const QuantizeParams& params, std::int64_t begin, std::int64_t end) {
  const std::int64_t tiles = token_tiles(params.m, params.terms);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const std::int64_t first = tile * params.m / tiles;
    const std::int64_t tokens = (tile + 1) * params.m / tiles - first;
    params.terms == 1 ? quantize_tile<1>(params, first, tokens) : quantize_tile<2>(params, first, tokens);
  }
}

}  // namespace pagoda::kernels::int8_gemm
