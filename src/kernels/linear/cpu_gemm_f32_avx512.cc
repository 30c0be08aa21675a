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

/// Codes of 2 columns as binary16: e5m2 is its upper half; e4m3 has a bit of mantissa more and an exponent whose bias
/// is 8 smaller.
template <Element kElement>
__m512i load_codes(const std::uint8_t* at) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m512i upper = _mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 8);
  if constexpr (kElement == Element::kE5m2) return upper;
  const __m512i size = _mm512_and_si512(_mm512_srli_epi16(upper, 1), _mm512_set1_epi16(0x3f80));
  const __m512i value = _mm512_ternarylogic_epi32(size, upper, _mm512_set1_epi16(static_cast<short>(0x8000)), 0xf8);
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(size, _mm512_set1_epi16(0x3f80));
  return _mm512_mask_mov_epi16(value, nan, _mm512_set1_epi16(0x7e00));
}

/// Scales of 16 rows; e4m3's with what its codes are short of.
template <Kind kKind>
__m512 load_scales(const std::uint8_t* at) {
  __m512 scales;
  if constexpr (kKind.scale == Scale::kFloat) {
    scales = _mm512_loadu_ps(at);
  } else {  // 0 is 2^-127, which is subnormal, and 255 NaN
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    __m512i bits = _mm512_slli_epi32(e, 23);
    bits = _mm512_mask_mov_epi32(bits, _mm512_testn_epi32_mask(e, e), _mm512_set1_epi32(0x00400000));
    const __mmask16 nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
    scales = _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
  }
  if constexpr (kKind.element == Element::kE4m3) scales = _mm512_mul_ps(scales, _mm512_set1_ps(kE4m3Missing));
  return scales;
}

/// As `multiply`, block by block.
template <Kind kKind, int kTokens>
void multiply_blocks(const Product& product, std::int64_t tile, std::int64_t token) {
  const std::uint8_t* scales = product.weight + tile * product.tile_bytes;
  const std::uint8_t* w = scales + product.region_bytes;
  const float* x = product.input + token * product.input_stride;
  __m512 sums[kChains][kTokens];
  for (int i = 0; i < kChains; ++i) {
    for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm512_setzero_ps();
  }
  for (std::int64_t first = 0; first < product.k; first += product.block) {
    const std::int64_t left = product.k - first;
    const std::int64_t count = left < product.block ? left : product.block;
    __m512 chains[kChains][kTokens];
    for (int i = 0; i < kChains; ++i) {
      for (int t = 0; t < kTokens; ++t) chains[i][t] = _mm512_setzero_ps();
    }
    const auto add = [&](int chain, std::int64_t c, __m256i halves) {
      const __m512 column = _mm512_cvtph_ps(halves);
      for (int t = 0; t < kTokens; ++t) {
        const __m512 activation = _mm512_set1_ps(x[t * product.input_stride + first + c]);
        chains[chain][t] = _mm512_fmadd_ps(column, activation, chains[chain][t]);
      }
    };
    std::int64_t c = 0;
    for (; c + kChains <= count; c += kChains) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + (first + c) * kTileRows + kAhead, _MM_HINT_T0);
      for (int pair = 0; pair < 2; ++pair) {
        const __m512i codes = load_codes<kKind.element>(w + (first + c + 2 * pair) * kTileRows);
        add(2 * pair, c + 2 * pair, _mm512_castsi512_si256(codes));
        add(2 * pair + 1, c + 2 * pair + 1, _mm512_extracti64x4_epi64(codes, 1));
      }
    }
    for (int i = 0; c + i < count; ++i) {  // a tile's padding follows its last column
      const __m512i codes = load_codes<kKind.element>(w + (first + c + i) * kTileRows);
      add(i, c + i, _mm512_castsi512_si256(codes));
    }
    const __m512 scale = load_scales<kKind>(scales);
    scales += kTileRows * scale_bytes(kKind.scale);
    for (int i = 0; i < kChains; ++i) {
      for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm512_fmadd_ps(scale, chains[i][t], sums[i][t]);
    }
  }
  const std::int64_t rows = product.n - tile * kTileRows;
  const __mmask16 mask = rows >= kTileRows ? __mmask16(0xffff) : static_cast<__mmask16>((1u << rows) - 1u);
  for (int t = 0; t < kTokens; ++t) {
    __m512 sum = _mm512_add_ps(_mm512_add_ps(sums[0][t], sums[1][t]), _mm512_add_ps(sums[2][t], sums[3][t]));
    if (product.bias != nullptr) {
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, product.bias + tile * kTileRows));
    }
    _mm512_mask_storeu_ps(product.out + (token + t) * product.out_stride + tile * kTileRows, mask, sum);
  }
}

template <Kind kKind>
void run_blocks(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::int64_t token = 0;
    for (; token + 3 <= product.m; token += 3) multiply_blocks<kKind, 3>(product, tile, token);
    for (; token < product.m; ++token) multiply_blocks<kKind, 1>(product, tile, token);
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

ProductKernel product_avx512(Kind kind) {
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
