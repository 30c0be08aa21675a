// The int8 products, as the files of one instruction set and their host side share them: plain structs only.
//
// Arithmetic "int8_g32" (one term) and "int16_g32" (two terms), for one weight row and one token:
//   each group of 32 columns of the token: s = amax / 127 (or / 32639), v = round(x / s), ties to even
//   acc = 0; for each group in order, for each of its scales d (one, or one for each half group):
//     dot = Σ (code − offset)·v                exact, in int32
//     acc = fma(s, d·float(dot), acc)
//     acc = fma(m, s·float(Σ v), acc)          if the format has a minimum
//   y = acc + bias
// With two terms v = 256·a1 + a2, both in int8. NaN or an infinity in a group makes its s NaN.
#pragma once

#include <cstdint>

#include "kernels/linear/int8_rows16.h"

namespace pagoda::kernels::int8_gemm {

/// Tokens are quantised and multiplied in tiles of at most this many, so that a tile's sums stay in registers.
constexpr std::int64_t max_tile_tokens(int terms) { return terms == 1 ? 6 : 4; }

/// m tokens fall into this many tiles of nearly equal size; tile i is [i·m / tiles, (i + 1)·m / tiles).
constexpr std::int64_t token_tiles(std::int64_t m, int terms) {
  return (m + max_tile_tokens(terms) - 1) / max_tile_tokens(terms);
}

/// One group of a tile of kTokens quantised tokens. A tile's groups follow each other; so do tiles.
template <int kTokens, int kTerms>
struct Record {
  float scale[kTokens];
  float sum[kTokens];                   ///< s·Σ v
  std::int32_t minus_sum[kTokens];      ///< −Σ v
  std::int32_t minus_half[2][kTokens];  ///< of each half group
  std::int8_t codes[kTerms][kTokens][int8_rows16::kGroup];
};

/// Bytes of a record per token: no field is padded.
constexpr std::int64_t token_bytes(int terms) { return 20 + terms * int8_rows16::kGroup; }
static_assert(sizeof(Record<5, 1>) == 5 * token_bytes(1) && sizeof(Record<3, 2>) == 3 * token_bytes(2));

struct QuantizeParams {
  const float* input = nullptr;  // (m, k)
  std::int64_t stride = 0;
  std::int64_t m = 0;
  std::int64_t groups = 0;
  int terms = 1;
  std::uint8_t* activations = nullptr;
};

/// Quantises the tokens of tiles [begin, end). Uses AVX2 for every instruction set.
void quantize_avx2(const QuantizeParams& params, std::int64_t begin, std::int64_t end);

/// One weight's share of a launch.
struct Product {
  const std::uint8_t* weight = nullptr;  // packed
  const float* bias = nullptr;           // (n), or null
  const std::uint8_t* activations = nullptr;
  std::int64_t n = 0;
  std::int64_t groups = 0;
  std::int64_t stored_groups = 0;  // of a row of the packed weight: those of a last block used in part, too
  std::int64_t tile_bytes = 0;     // of a row tile of the packed weight
  int group_log2 = 0;              // Encoding::group_log2
  std::int64_t m = 0;
  float* out = nullptr;  // (m, n)
  std::int64_t out_stride = 0;
};

/// Computes row tiles [begin, end) of 16 rows for all tokens.
using ProductKernel = void (*)(const Product& product, std::int64_t begin, std::int64_t end);

/// The kernels for an encoding, of equal bits; null if there is none.
ProductKernel product_avx512(const int8_rows16::Encoding& encoding, int terms);
ProductKernel product_avx2(const int8_rows16::Encoding& encoding, int terms);

}  // namespace pagoda::kernels::int8_gemm
