// Products of float weights, as the files of one instruction set and their host side share them: plain structs only.
//
// Arithmetic "f32_4_chains_fma", for one weight row and one token: column c goes to chain c mod 4,
// chain = fma(w[c], x[c], chain) in order of c; y = (chain0 + chain1) + (chain2 + chain3), + bias if there is one.
//
// Arithmetic "f32_4_chains_scaled", of 8-bit floats with a scale s for each block of columns: the same with a code's
// value v[c] in place of w[c], each chain from 0 on in every block; sum of chain j = fma(s, chain j, sum of chain j)
// after each block, and y from these sums. A row with a code that is NaN or infinite is NaN. Kernels compute with
// v / CodeBits::missing and with activations that a power of two brings near 2^100; both are taken back from each
// chain.
#pragma once

#include <cstdint>

namespace pagoda::kernels::float_gemm {

inline constexpr std::int64_t kTileRows = 16;
inline constexpr int kChains = 4;

enum class Element : std::uint8_t { kF32, kF16, kBf16, kE4m3, kE5m2 };

constexpr std::int64_t element_bytes(Element element) {
  constexpr std::int64_t bytes[] = {4, 2, 2, 1, 1};
  return bytes[static_cast<int>(element)];
}

/// Scales of blocks of columns.
enum class Scale : std::uint8_t {
  kNone,
  kFloat,     ///< 4 bytes
  kExponent,  ///< e8m0
};

constexpr std::int64_t scale_bytes(Scale scale) {
  return scale == Scale::kFloat ? 4 : scale == Scale::kExponent ? 1 : 0;
}

struct Kind {
  Element element = Element::kF32;
  Scale scale = Scale::kNone;

  constexpr bool operator==(const Kind&) const = default;
};

/// Packed 8-bit floats (fp8_rows16.h): a tile is a run of chunks, each kScaleBytes of scales, (blocks, 16), then codes
/// of these blocks; then kMarkBytes, (16) words, not 0 for a row that is NaN.
inline constexpr std::int64_t kScaleBytes = 64;
inline constexpr std::int64_t kMarkBytes = 64;
constexpr std::int64_t chunk_blocks(Scale scale) { return kScaleBytes / (kTileRows * scale_bytes(scale)); }

/// How a code becomes a float: sign and all, it is shifted right so far from a word's upper end that its exponent ends
/// where a float's does, copies of the sign between are masked away, and a power of two makes up for the other bias.
struct CodeBits {
  int shift;
  std::uint32_t mask;
  float missing;
};
constexpr CodeBits code_bits(Element element) {
  if (element == Element::kE5m2) return {3, 0x8fe00000u, 0x1p112f};
  return {4, 0x87f00000u, 0x1p120f};
}

/// One weight's share of a launch.
struct Product {
  /// Packed: (tiles, k, 16); 8-bit floats: see kScaleBytes.
  const std::uint8_t* weight = nullptr;
  const float* bias = nullptr;  // (n), or null
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t block = 0;       // columns with one scale, a multiple of 4
  std::int64_t tile_bytes = 0;  // of a tile with scales
  std::int64_t m = 0;
  const float* input = nullptr;  // (m, k); for 8-bit floats those of scale_up
  std::int64_t input_stride = 0;
  const float* unscale = nullptr;  // (m), for 8-bit floats: what brings the input back
  float* out = nullptr;            // (m, n)
  std::int64_t out_stride = 0;
};

struct ScaleUpParams {
  const float* input = nullptr;  // (m, k)
  std::int64_t stride = 0;
  std::int64_t k = 0;
  float* scaled = nullptr;   // (m, k)
  float* unscale = nullptr;  // (m): powers of two, from 2^-126 to 2^7
};

/// Multiplies tokens [begin, end) by powers of two so that each one's largest value is near 2^100: no product with a
/// code read 2^-120 of its value is then lost or overflows. Uses AVX2 for every instruction set.
void scale_up_avx2(const ScaleUpParams& params, std::int64_t begin, std::int64_t end);

/// Computes row tiles [begin, end) for all tokens.
using ProductKernel = void (*)(const Product& product, std::int64_t begin, std::int64_t end);

/// Null if there is none.
ProductKernel product_avx512(Kind kind);
ProductKernel product_avx2(Kind kind);

}  // namespace pagoda::kernels::float_gemm
