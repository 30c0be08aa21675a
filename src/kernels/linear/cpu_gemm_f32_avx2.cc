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

ProductKernel product_avx2(Element element) {
  constexpr ProductKernel kernels[] = {&run<Element::kF32>, &run<Element::kF16>, &run<Element::kBf16>};
  return kernels[static_cast<int>(element)];
}

}  // namespace pagoda::kernels::float_gemm
