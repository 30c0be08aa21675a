// Float weights of 8 to 32 bits times float activations (formula in float_gemm.h). A lane is a weight row: a column of
// 16 rows is one load, widened to float (four columns of 8 bits are), and serves up to 6 tokens, each with its
// activation broadcast and its four chains in registers. Reads a row tile once for every 6 tokens; at one token, memory
// is the limit. Zen 4, one core, 2026-11-30: bf16, 64 tokens 106 Gop/s of 118, one token 30 GB/s beside 36 of plain
// reads; e4m3, 512 tokens 94 Gop/s, one token 25 GB/s: 13 vector operations for 64 codes. AVX512-BF16 would not help
// bf16: its dot product does twice the multiplications, and activations of 16 significant bits take two terms.
#include <immintrin.h>

#include "kernels/linear/float_gemm.h"

namespace pagoda::kernels::float_gemm {
namespace {

constexpr int kMaxTokens = 6;
/// Bytes that prefetching runs ahead of a stream of codes; wider weights are prefetched by the CPU alone.
constexpr std::int64_t kAhead = 2048;

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

/// Sums of a tile's rows, `nan` of which are NaN.
template <int kTokens>
void store(const Product& product, std::int64_t tile, std::int64_t token, const __m512 (*chains)[kTokens],
           __mmask16 nan) {
  const std::int64_t rows = product.n - tile * kTileRows;
  const __mmask16 mask = rows >= kTileRows ? __mmask16(0xffff) : static_cast<__mmask16>((1u << rows) - 1u);
  for (int t = 0; t < kTokens; ++t) {
    __m512 sum = _mm512_add_ps(_mm512_add_ps(chains[0][t], chains[1][t]), _mm512_add_ps(chains[2][t], chains[3][t]));
    if (product.bias != nullptr) {
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, product.bias + tile * kTileRows));
    }
    sum = _mm512_mask_mov_ps(sum, nan, _mm512_set1_ps(__builtin_nanf("")));
    _mm512_mask_storeu_ps(product.out + (token + t) * product.out_stride + tile * kTileRows, mask, sum);
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
    for (int i = 0; i < kChains; ++i) add(i, c + i);
  }
  if (c < product.k) add(0, c);
  if (c + 1 < product.k) add(1, c + 1);
  if (c + 2 < product.k) add(2, c + 2);

  store<kTokens>(product, tile, token, chains, 0);
}

/// Four columns of 8-bit floats, as CodeBits reads them.
struct Columns {
  __m512 value[4];
};

/// Two columns are shifted at once, as 16-bit numbers: the upper is then in place, the lower 16 bits too low.
template <Element kElement>
Columns load_columns(const std::uint8_t* at) {
  constexpr CodeBits kBits = code_bits(kElement);
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(kBits.mask));
  const auto value = [&](__m512i bits) { return _mm512_castsi512_ps(_mm512_and_si512(bits, mask)); };
  const __m512i codes = _mm512_loadu_si512(at);
  const __m512i odd = _mm512_srai_epi16(codes, kBits.shift);
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(codes, 8), kBits.shift);
  return {{value(_mm512_slli_epi32(even, 16)), value(_mm512_slli_epi32(odd, 16)), value(even), value(odd)}};
}

/// Scales of 16 rows.
template <Scale kScale>
__m512 load_scales(const std::uint8_t* at) {
  if constexpr (kScale == Scale::kFloat) return _mm512_loadu_ps(at);
  // 0 is 2^-127, which is subnormal, and 255 NaN.
  const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  __m512i bits = _mm512_slli_epi32(e, 23);
  bits = _mm512_mask_mov_epi32(bits, _mm512_testn_epi32_mask(e, e), _mm512_set1_epi32(0x00400000));
  const __mmask16 nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)));
}

/// As `multiply`, of 8-bit floats, block by block.
template <Kind kKind, int kTokens>
void multiply_codes(const Product& product, std::int64_t tile, std::int64_t token) {
  const std::uint8_t* at = product.weight + tile * product.tile_bytes;
  const __m512i marks = _mm512_loadu_si512(at + product.tile_bytes - kMarkBytes);
  const float* x = product.input + token * product.input_stride;
  const float* unscale = product.unscale + token;
  __m512 sums[kChains][kTokens];
  for (int i = 0; i < kChains; ++i) {
    for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm512_setzero_ps();
  }
  for (std::int64_t first = 0; first < product.k;) {
    const std::uint8_t* scales = at;
    at += kScaleBytes;
    for (int b = 0; b < chunk_blocks(kKind.scale) && first < product.k; ++b) {
      __m512 chains[kChains][kTokens];
      for (int i = 0; i < kChains; ++i) {
        for (int t = 0; t < kTokens; ++t) chains[i][t] = _mm512_setzero_ps();
      }
      const auto add = [&](const Columns& columns, int i, std::int64_t c) {
        for (int t = 0; t < kTokens; ++t) {
          const __m512 activation = _mm512_set1_ps(x[t * product.input_stride + c]);
          chains[i][t] = _mm512_fmadd_ps(columns.value[i], activation, chains[i][t]);
        }
      };
      const std::int64_t end = first + product.block < product.k ? first + product.block : product.k;
      std::int64_t c = first;
      for (; c + kChains <= end; c += kChains, at += kChains * kTileRows) {
        _mm_prefetch(reinterpret_cast<const char*>(at) + kAhead, _MM_HINT_T0);
        const Columns columns = load_columns<kKind.element>(at);
        for (int i = 0; i < kChains; ++i) add(columns, i, c + i);
      }
      if (c < end) {  // of the last block; with indices known, the chains stay in registers
        const Columns columns = load_columns<kKind.element>(at);
        add(columns, 0, c);
        if (c + 1 < end) add(columns, 1, c + 1);
        if (c + 2 < end) add(columns, 2, c + 2);
      }
      first += product.block;
      const __m512 scale = load_scales<kKind.scale>(scales + b * kTileRows * scale_bytes(kKind.scale));
      for (int t = 0; t < kTokens; ++t) {
        const __m512 whole = _mm512_set1_ps(unscale[t] * code_bits(kKind.element).missing);
        for (int i = 0; i < kChains; ++i) {
          sums[i][t] = _mm512_fmadd_ps(scale, _mm512_mul_ps(chains[i][t], whole), sums[i][t]);
        }
      }
    }
  }
  store<kTokens>(product, tile, token, sums, _mm512_test_epi32_mask(marks, marks));
}

/// `multiply_codes` for a number of tokens known at run time.
template <Kind kKind, int kTokens = kMaxTokens>
void multiply_codes_tokens(const Product& product, std::int64_t tile, std::int64_t token, std::int64_t tokens) {
  if constexpr (kTokens > 0) {
    if (tokens == kTokens) return multiply_codes<kKind, kTokens>(product, tile, token);
    multiply_codes_tokens<kKind, kTokens - 1>(product, tile, token, tokens);
  }
}

template <Kind kKind>
void run_codes(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (std::int64_t token = 0; token < product.m; token += kMaxTokens) {
      const std::int64_t left = product.m - token;
      multiply_codes_tokens<kKind>(product, tile, token, left < kMaxTokens ? left : kMaxTokens);
    }
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
  if (kind == kE4m3) return &run_codes<kE4m3>;
  if (kind == kE5m2) return &run_codes<kE5m2>;
  if (kind == kMx) return &run_codes<kMx>;
  constexpr ProductKernel kernels[] = {&run<Element::kF32>, &run<Element::kF16>, &run<Element::kBf16>};
  return kind.scale == Scale::kNone && kind.element <= Element::kBf16 ? kernels[static_cast<int>(kind.element)]
                                                                      : nullptr;
}

}  // namespace pagoda::kernels::float_gemm
