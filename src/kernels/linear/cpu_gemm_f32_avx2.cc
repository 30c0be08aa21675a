// f32, f16 and bf16 weights times float activations (formula in float_gemm.h). A lane is a weight row, 8 of a tile's
// 16 in a register. One token takes both halves of a tile in one pass; up to 3 tokens take a half each time.
// Zen 4, one core, 2026-11-30: bf16, 64 tokens 70 Gop/s, one token 18 GB/s.
#include <immintrin.h>

#include "kernels/linear/float_gemm.h"

namespace pagoda::kernels::float_gemm {
namespace {

constexpr int kMaxTokens = 3;
/// Bytes that prefetching runs ahead of a stream of weights.
constexpr std::int64_t kAhead = 4096;

template <Element kElement>
__m256 load_column(const std::uint8_t* at) {
  if constexpr (kElement == Element::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  } else {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kElement == Element::kF16) return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
}

/// Lanes of the half tile from `row` on that are rows of the weight.
__m256i rows_mask(std::int64_t n, std::int64_t row) {
  const std::int64_t rows = n - row;
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(rows > 8 ? 8 : static_cast<int>(rows)), lane);
}

/// Half tiles [half, half + kHalves) of a tile for kTokens tokens.
template <Element kElement, int kHalves, int kTokens>
void multiply(const Product& product, std::int64_t tile, int half, std::int64_t token) {
  constexpr std::int64_t kHalf = kTileRows / 2 * element_bytes(kElement);
  const std::uint8_t* w = product.weight + tile * product.k * 2 * kHalf + half * kHalf;
  const float* x = product.input + token * product.input_stride;
  __m256 chains[kChains][kHalves][kTokens];
  for (int i = 0; i < kChains; ++i) {
    for (int h = 0; h < kHalves; ++h) {
      for (int t = 0; t < kTokens; ++t) chains[i][h][t] = _mm256_setzero_ps();
    }
  }
  const auto add = [&](int chain, std::int64_t c) {
    for (int h = 0; h < kHalves; ++h) {
      const __m256 column = load_column<kElement>(w + c * 2 * kHalf + h * kHalf);
      for (int t = 0; t < kTokens; ++t) {
        const __m256 activation = _mm256_set1_ps(x[t * product.input_stride + c]);
        chains[chain][h][t] = _mm256_fmadd_ps(column, activation, chains[chain][h][t]);
      }
    }
  };
  std::int64_t c = 0;
  for (; c + kChains <= product.k; c += kChains) {
    for (std::int64_t line = 0; line < kChains * 2 * kHalf; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + c * 2 * kHalf + kAhead + line, _MM_HINT_T0);
    }
    for (int i = 0; i < kChains; ++i) add(i, c + i);
  }
  if (c < product.k) add(0, c);
  if (c + 1 < product.k) add(1, c + 1);
  if (c + 2 < product.k) add(2, c + 2);

  for (int h = 0; h < kHalves; ++h) {
    const std::int64_t row = tile * kTileRows + 8 * (half + h);
    const __m256i mask = rows_mask(product.n, row);
    for (int t = 0; t < kTokens; ++t) {
      __m256 sum = _mm256_add_ps(_mm256_add_ps(chains[0][h][t], chains[1][h][t]),
                                 _mm256_add_ps(chains[2][h][t], chains[3][h][t]));
      if (product.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(product.bias + row, mask));
      _mm256_maskstore_ps(product.out + (token + t) * product.out_stride + row, mask, sum);
    }
  }
}

/// Codes of a column's half as binary16, as in the file of AVX-512.
template <Element kElement>
__m128i load_codes(const std::uint8_t* at) {
  const __m128i upper = _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  if constexpr (kElement == Element::kE5m2) return upper;
  const __m128i size = _mm_and_si128(_mm_srli_epi16(upper, 1), _mm_set1_epi16(0x3f80));
  const __m128i sign = _mm_and_si128(upper, _mm_set1_epi16(static_cast<short>(0x8000)));
  const __m128i nan = _mm_cmpeq_epi16(size, _mm_set1_epi16(0x3f80));
  return _mm_blendv_epi8(_mm_or_si128(size, sign), _mm_set1_epi16(0x7e00), nan);
}

template <Kind kKind>
__m256 load_scales(const std::uint8_t* at) {
  __m256 scales;
  if constexpr (kKind.scale == Scale::kFloat) {
    scales = _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  } else {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    __m256i bits = _mm256_slli_epi32(e, 23);
    const __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
    bits = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x00400000), zero);
    const __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
    scales = _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan));
  }
  if constexpr (kKind.element == Element::kE4m3) scales = _mm256_mul_ps(scales, _mm256_set1_ps(kE4m3Missing));
  return scales;
}

/// As `multiply`, of one half of a tile, block by block.
template <Kind kKind, int kTokens>
void multiply_blocks(const Product& product, std::int64_t tile, int half, std::int64_t token) {
  constexpr std::int64_t kScaleBytes = scale_bytes(kKind.scale);
  const std::uint8_t* scales = product.weight + tile * product.tile_bytes;
  const std::uint8_t* w = scales + product.region_bytes + 8 * half;
  scales += 8 * half * kScaleBytes;
  const float* x = product.input + token * product.input_stride;
  __m256 sums[kChains][kTokens];
  for (int i = 0; i < kChains; ++i) {
    for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm256_setzero_ps();
  }
  for (std::int64_t first = 0; first < product.k; first += product.block) {
    const std::int64_t left = product.k - first;
    const std::int64_t count = left < product.block ? left : product.block;
    __m256 chains[kChains][kTokens];
    for (int i = 0; i < kChains; ++i) {
      for (int t = 0; t < kTokens; ++t) chains[i][t] = _mm256_setzero_ps();
    }
    const auto add = [&](int chain, std::int64_t c) {
      const __m256 column = _mm256_cvtph_ps(load_codes<kKind.element>(w + (first + c) * kTileRows));
      for (int t = 0; t < kTokens; ++t) {
        const __m256 activation = _mm256_set1_ps(x[t * product.input_stride + first + c]);
        chains[chain][t] = _mm256_fmadd_ps(column, activation, chains[chain][t]);
      }
    };
    std::int64_t c = 0;
    for (; c + kChains <= count; c += kChains) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + (first + c) * kTileRows + kAhead, _MM_HINT_T0);
      for (int i = 0; i < kChains; ++i) add(i, c + i);
    }
    for (int i = 0; c + i < count; ++i) add(i, c + i);
    const __m256 scale = load_scales<kKind>(scales);
    scales += kTileRows * kScaleBytes;
    for (int i = 0; i < kChains; ++i) {
      for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm256_fmadd_ps(scale, chains[i][t], sums[i][t]);
    }
  }
  const std::int64_t row = tile * kTileRows + 8 * half;
  const __m256i mask = rows_mask(product.n, row);
  for (int t = 0; t < kTokens; ++t) {
    __m256 sum = _mm256_add_ps(_mm256_add_ps(sums[0][t], sums[1][t]), _mm256_add_ps(sums[2][t], sums[3][t]));
    if (product.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(product.bias + row, mask));
    _mm256_maskstore_ps(product.out + (token + t) * product.out_stride + row, mask, sum);
  }
}

template <Kind kKind>
void run_blocks(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (int half = 0; half < 2; ++half) {
      std::int64_t token = 0;
      for (; token + 2 <= product.m; token += 2) multiply_blocks<kKind, 2>(product, tile, half, token);
      for (; token < product.m; ++token) multiply_blocks<kKind, 1>(product, tile, half, token);
    }
  }
}

template <Element kElement>
void run(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::int64_t token = 0;
    if (product.m == 1) {
      multiply<kElement, 2, 1>(product, tile, 0, 0);
      continue;
    }
    for (int half = 0; half < 2; ++half) {
      for (token = 0; token + kMaxTokens <= product.m; token += kMaxTokens) {
        multiply<kElement, 1, kMaxTokens>(product, tile, half, token);
      }
      for (; token < product.m; ++token) multiply<kElement, 1, 1>(product, tile, half, token);
    }
  }
}

}  // namespace

ProductKernel product_avx2(Kind kind) {
  constexpr Kind kE4m3{Element::kE4m3, Scale::kFloat}, kE5m2{Element::kE5m2, Scale::kFloat},
      kMx{Element::kE4m3, Scale::kExponent};
  if (kind == kE4m3) return &run_blocks<kE4m3>;
  if (kind == kE5m2) return &run_blocks<kE5m2>;
  if (kind == kMx) return &run_blocks<kMx>;
  constexpr ProductKernel kernels[] = {&run<Element::kF32>, &run<Element::kF16>, &run<Element::kBf16>};
  return kind.scale == Scale::kNone && kind.element <= Element::kBf16 ? kernels[static_cast<int>(kind.element)]
                                                                      : nullptr;
}

}  // namespace pagoda::kernels::float_gemm
