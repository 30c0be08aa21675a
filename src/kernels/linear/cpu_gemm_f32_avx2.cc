// f32, f16 and bf16 weights times float activations (formula in float_gemm.h). A lane is a weight row, 8 of a tile's
// 16 in a register. One token takes both halves of a tile in one pass; up to 3 tokens take a half each time.
// Zen 4, one core, 2026-11-30: bf16, 64 tokens 70 Gop/s, one token 28 GB/s; e4m3 48 Gop/s and 25 GB/s (a read: 35).
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

/// Sums of the half tile from `row` on: half `h` of the chains. Rows that are not `finite` are NaN.
template <int kHalves, int kTokens>
void store(const Product& product, std::int64_t row, std::int64_t token, const __m256 (*chains)[kHalves][kTokens],
           int h, __m256i finite) {
  const __m256i mask = rows_mask(product.n, row);
  for (int t = 0; t < kTokens; ++t) {
    __m256 sum =
        _mm256_add_ps(_mm256_add_ps(chains[0][h][t], chains[1][h][t]), _mm256_add_ps(chains[2][h][t], chains[3][h][t]));
    if (product.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(product.bias + row, mask));
    sum = _mm256_blendv_ps(_mm256_set1_ps(__builtin_nanf("")), sum, _mm256_castsi256_ps(finite));
    _mm256_maskstore_ps(product.out + (token + t) * product.out_stride + row, mask, sum);
  }
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

  const __m256i finite = _mm256_set1_epi32(-1);
  for (int h = 0; h < kHalves; ++h) {
    store<kHalves, kTokens>(product, tile * kTileRows + 8 * (half + h), token, chains, h, finite);
  }
}

/// Four columns of a half tile of 8-bit floats, as CodeBits reads them.
struct Columns {
  __m256 value[4];
};

/// As in the file of AVX-512.
template <Element kElement>
Columns load_columns(const std::uint8_t* at) {
  constexpr CodeBits kBits = code_bits(kElement);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(kBits.mask));
  const auto value = [&](__m256i bits) { return _mm256_castsi256_ps(_mm256_and_si256(bits, mask)); };
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i odd = _mm256_srai_epi16(codes, kBits.shift);
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), kBits.shift);
  return {{value(_mm256_slli_epi32(even, 16)), value(_mm256_slli_epi32(odd, 16)), value(even), value(odd)}};
}

template <Scale kScale>
__m256 load_scales(const std::uint8_t* at) {
  if constexpr (kScale == Scale::kFloat) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  const __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
  const __m256i bits = _mm256_blendv_epi8(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(0x00400000), zero);
  const __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
  return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan));
}

/// As `multiply`, of 8-bit floats, block by block.
template <Kind kKind, int kHalves, int kTokens>
void multiply_codes(const Product& product, std::int64_t tile, int half, std::int64_t token) {
  constexpr std::int64_t kLane = scale_bytes(kKind.scale);
  const std::uint8_t* at = product.weight + tile * product.tile_bytes;
  const std::uint8_t* marks = at + product.tile_bytes - kMarkBytes;
  const float* x = product.input + token * product.input_stride;
  const float* unscale = product.unscale + token;
  using Sums = __m256[kChains][kHalves][kTokens];
  const auto clear = [](Sums& sums) {
    for (int i = 0; i < kChains; ++i) {
      for (int h = 0; h < kHalves; ++h) {
        for (int t = 0; t < kTokens; ++t) sums[i][h][t] = _mm256_setzero_ps();
      }
    }
  };
  Sums sums;
  clear(sums);
  for (std::int64_t first = 0; first < product.k;) {
    const std::uint8_t* scales = at + 8 * half * kLane;
    at += kScaleBytes;
    for (int b = 0; b < chunk_blocks(kKind.scale) && first < product.k; ++b, scales += kTileRows * kLane) {
      Sums chains;
      clear(chains);
      const auto add = [&](const Columns& columns, int h, int i, std::int64_t c) {
        for (int t = 0; t < kTokens; ++t) {
          const __m256 activation = _mm256_set1_ps(x[t * product.input_stride + c]);
          chains[i][h][t] = _mm256_fmadd_ps(columns.value[i], activation, chains[i][h][t]);
        }
      };
      const std::int64_t end = first + product.block < product.k ? first + product.block : product.k;
      std::int64_t c = first;
      for (; c + kChains <= end; c += kChains, at += kChains * kTileRows) {
        for (int h = 0; h < kHalves; ++h) {
          const Columns columns = load_columns<kKind.element>(at + 32 * (half + h));
          for (int i = 0; i < kChains; ++i) add(columns, h, i, c + i);
          asm("" : "+r"(x));  // g++ would keep this half's activations for the other, and a chain in memory
        }
      }
      for (int h = 0; h < kHalves && c < end; ++h) {  // of the last block
        const Columns columns = load_columns<kKind.element>(at + 32 * (half + h));
        add(columns, h, 0, c);
        if (c + 1 < end) add(columns, h, 1, c + 1);
        if (c + 2 < end) add(columns, h, 2, c + 2);
      }
      first += product.block;
      for (int h = 0; h < kHalves; ++h) {
        const __m256 scale = load_scales<kKind.scale>(scales + 8 * h * kLane);
        for (int t = 0; t < kTokens; ++t) {
          const __m256 whole = _mm256_set1_ps(unscale[t] * code_bits(kKind.element).missing);
          for (int i = 0; i < kChains; ++i) {
            sums[i][h][t] = _mm256_fmadd_ps(scale, _mm256_mul_ps(chains[i][h][t], whole), sums[i][h][t]);
          }
        }
      }
    }
  }
  for (int h = 0; h < kHalves; ++h) {
    const auto* marked = reinterpret_cast<const __m256i*>(marks + 32 * (half + h));
    const __m256i finite = _mm256_cmpeq_epi32(_mm256_loadu_si256(marked), _mm256_setzero_si256());
    store<kHalves, kTokens>(product, tile * kTileRows + 8 * (half + h), token, sums, h, finite);
  }
}

template <Kind kKind>
void run_codes(const Product& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    if (product.m == 1) {
      multiply_codes<kKind, 2, 1>(product, tile, 0, 0);
      continue;
    }
    for (int half = 0; half < 2; ++half) {
      std::int64_t token = 0;
      for (; token + kMaxTokens <= product.m; token += kMaxTokens) {
        multiply_codes<kKind, 1, kMaxTokens>(product, tile, half, token);
      }
      for (; token < product.m; ++token) multiply_codes<kKind, 1, 1>(product, tile, half, token);
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

/// 2^n, a normal number.
float power_of_two(std::int32_t n) {
  const std::int32_t bits = (n + 127) << 23;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

void scale_up_avx2(const ScaleUpParams& params, std::int64_t begin, std::int64_t end) {
  for (std::int64_t token = begin; token < end; ++token) {
    const float* x = params.input + token * params.stride;
    std::int32_t largest = 0;  // of magnitudes as whole numbers, whose order is the same; NaN is above all
    for (std::int64_t c = 0; c < params.k; ++c) {
      std::int32_t bits;
      __builtin_memcpy(&bits, x + c, sizeof bits);
      bits &= 0x7fffffff;
      largest = bits > largest ? bits : largest;
    }
    // All magnitudes are below 2^exponent; both powers must be normal, also the second times 2^120.
    const std::int32_t above = (largest >> 23) - 126;
    const std::int32_t exponent = above < -26 ? -26 : above > 107 ? 107 : above;
    const float up = power_of_two(100 - exponent);
    float* scaled = params.scaled + token * params.k;
    for (std::int64_t c = 0; c < params.k; ++c) scaled[c] = x[c] * up;
    params.unscale[token] = power_of_two(exponent - 100);
  }
}

ProductKernel product_avx2(Kind kind) {
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
