// f32, f16 and bf16 weights times float activations (formula in float_gemm.h). A lane is a weight row: a column of 16
// rows is one load, widened to float, and serves up to 6 tokens, each with its activation broadcast and its four
// chains in registers. Reads a row tile once for every 6 tokens; at one token, memory is the limit.
// Zen 4, one core, 2026-11-30: bf16, 64 tokens 106 Gop/s of 118, one token 26 GB/s. AVX512-BF16 would not help: its dot
// product does twice the multiplications, and activations of 16 significant bits take two terms.
#include <immintrin.h>

#include "kernels/linear/float_gemm.h"

namespace pagoda::kernels::float_gemm {
namespace {

constexpr int kMaxTokens = 6;
/// Bytes that prefetching runs ahead of a stream of weights.
constexpr std::int64_t kAhead = 4096;

template <Element kElement>
__m512 load_column(const std::uint8_t* at) {
  if constexpr (kElement == Element::kF32) {
    return _mm512_loadu_ps(at);
  } else {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    if constexpr (kElement == Element::kF16) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

template <Element kElement, int kTokens>
void multiply(const Product& product, std::int64_t tile, std::int64_t token) {
  constexpr std::int64_t kColumn = kTileRows * element_bytes(kElement);
  const std::uint8_t* w = product.weight + tile * product.k * kColumn;
  const float* x = product.input + token * product.input_stride;
  __m512 chains[kChains][kTokens];
  for (int i = 0; i < kChains; ++i) {
    for (int t = 0; t < kTokens; ++t) chains[i][t] = _mm512_setzero_ps();
  }
  const auto add = [&](int chain, std::int64_t c) {
    const __m512 column = load_column<kElement>(w + c * kColumn);
    for (int t = 0; t < kTokens; ++t) {
      const __m512 activation = _mm512_set1_ps(x[t * product.input_stride + c]);
      chains[chain][t] = _mm512_fmadd_ps(column, activation, chains[chain][t]);
    }
  };
  std::int64_t c = 0;
  for (; c + kChains <= product.k; c += kChains) {
    for (std::int64_t line = 0; line < kChains * kColumn; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + c * kColumn + kAhead + line, _MM_HINT_T0);
    }
    for (int i = 0; i < kChains; ++i) add(i, c + i);
  }
  if (c < product.k) add(0, c);
  if (c + 1 < product.k) add(1, c + 1);
  if (c + 2 < product.k) add(2, c + 2);

  const std::int64_t rows = product.n - tile * kTileRows;
  const __mmask16 mask = rows >= kTileRows ? __mmask16(0xffff) : static_cast<__mmask16>((1u << rows) - 1u);
  for (int t = 0; t < kTokens; ++t) {
    __m512 sum = _mm512_add_ps(_mm512_add_ps(chains[0][t], chains[1][t]), _mm512_add_ps(chains[2][t], chains[3][t]));
    if (product.bias != nullptr) {
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, product.bias + tile * kTileRows));
    }
    _mm512_mask_storeu_ps(product.out + (token + t) * product.out_stride + tile * kTileRows, mask, sum);
  }
}

/// `multiply` for a number of tokens known at run time.
template <Element kElement, int kTokens = kMaxTokens>
void multiply_tokens(const Product& product, std::int64_t tile, std::int64_t token, std::int64_t tokens) {
  if constexpr (kTokens > 0) {
    if (tokens == kTokens) return multiply<kElement, kTokens>(product, tile, token);
    multiply_tokens<kElement, kTokens - 1>(product, tile, token, tokens);
  }
}

template <Element kElement>
void run(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (std::int64_t token = 0; token < product.m; token += kMaxTokens) {
      const std::int64_t left = product.m - token;
      multiply_tokens<kElement>(product, tile, token, left < kMaxTokens ? left : kMaxTokens);
    }
  }
}

}  // namespace

ProductKernel product_avx512(Element element) {
  constexpr ProductKernel kernels[] = {&run<Element::kF32>, &run<Element::kF16>, &run<Element::kBf16>};
  return kernels[static_cast<int>(element)];
}

}  // namespace pagoda::kernels::float_gemm
