// Products of float weights, as the files of one instruction set and their host side share them: plain structs only.
//
// Arithmetic "f32_4_chains_fma", for one weight row and one token: column c goes to chain c mod 4,
// chain = fma(w[c], x[c], chain) in order of c; y = (chain0 + chain1) + (chain2 + chain3), + bias if there is one.
#pragma once

#include <cstdint>

namespace pagoda::kernels::float_gemm {

inline constexpr std::int64_t kTileRows = 16;
inline constexpr int kChains = 4;

enum class Element : std::uint8_t { kF32, kF16, kBf16 };

constexpr std::int64_t element_bytes(Element element) { return element == Element::kF32 ? 4 : 2; }

/// One weight's share of a launch.
struct Product {
  const std::uint8_t* weight = nullptr;  // packed: (tiles, k, 16)
  const float* bias = nullptr;           // (n), or null
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;
  const float* input = nullptr;  // (m, k)
  std::int64_t input_stride = 0;
  float* out = nullptr;  // (m, n)
  std::int64_t out_stride = 0;
};

/// Computes row tiles [begin, end) for all tokens.
using ProductKernel = void (*)(const Product& product, std::int64_t begin, std::int64_t end);

ProductKernel product_avx512(Element element);
ProductKernel product_avx2(Element element);

}  // namespace pagoda::kernels::float_gemm
