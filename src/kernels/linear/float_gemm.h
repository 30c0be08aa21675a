// Products of float weights, as the files of one instruction set and their host side share them: plain structs only.
//
// Arithmetic "f32_4_chains_fma", for one weight row and one token: column c goes to chain c mod 4,
// chain = fma(w[c], x[c], chain) in order of c; y = (chain0 + chain1) + (chain2 + chain3), + bias if there is one.
//
// Arithmetic "f32_4_chains_scaled", of 8-bit floats with a scale s for each block of columns: the same with v[c] in
// place of w[c], each chain from 0 on in every block; sum of chain j = fma(s, chain j, sum of chain j) after each
// block, and y from these sums. v is the code's value, of e4m3 divided by 256, and s that much larger.
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

/// What e4m3 codes are short of when they are read as binary16 with three bits more.
inline constexpr float kE4m3Missing = 256;

/// One weight's share of a launch.
struct Product {
  /// Packed: (tiles, k, 16); with scales, in each tile first these, (blocks, 16), up to a multiple of 64 bytes.
  const std::uint8_t* weight = nullptr;
  const float* bias = nullptr;  // (n), or null
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t block = 0;         // columns with one scale, a multiple of 4
  std::int64_t tile_bytes = 0;    // of a tile with scales
  std::int64_t region_bytes = 0;  // of its scales
  std::int64_t m = 0;
  const float* input = nullptr;  // (m, k)
  std::int64_t input_stride = 0;
  float* out = nullptr;  // (m, n)
  std::int64_t out_stride = 0;
};

/// Computes row tiles [begin, end) for all tokens.
using ProductKernel = void (*)(const Product& product, std::int64_t begin, std::int64_t end);

/// Null if there is none.
ProductKernel product_avx512(Kind kind);
ProductKernel product_avx2(Kind kind);

}  // namespace pagoda::kernels::float_gemm
