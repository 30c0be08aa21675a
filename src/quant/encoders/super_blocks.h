// The formats of 256 elements whose groups' scales are small integers under one f16: scales are found for each group,
// then rounded, and codes are taken under the rounded ones. The headers in formats/ draw their bytes.
#pragma once

#include "quant/encoders/blocks_of_32.h"
#include "quant/encoders/search.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"

namespace pagoda::quant {

/// Groups of w = (d·s)·q - dmin·m: their rounded scales and minima, and all codes.
template <int kGroups>
struct Lines {
  std::uint16_t scale = 0;    // d
  std::uint16_t minimum = 0;  // dmin
  std::uint8_t scales[kGroups] = {};
  std::uint8_t minima[kGroups] = {};
  std::uint8_t codes[256] = {};
};

template <int kGroups>
Lines<kGroups> fit_lines(const float* values, int most_code, int most_scale) {
  constexpr int kGroup = 256 / kGroups;
  std::array<Line, kGroups> fitted;
  float most = 0;
  float lowest = 0;
  for (int g = 0; g < kGroups; ++g) {
    fitted[g] = fit_line<kGroup>(values + g * kGroup, most_code, true);
    most = std::max(most, fitted[g].scale);
    lowest = std::max(lowest, -fitted[g].offset);
  }
  Lines<kGroups> out;
  out.scale = float_to_f16(most / static_cast<float>(most_scale));
  out.minimum = float_to_f16(lowest / static_cast<float>(most_scale));
  const float d = f16_to_float(out.scale);
  const float dmin = f16_to_float(out.minimum);
  const float scale_inverse = inverse_of(d);
  const float minimum_inverse = inverse_of(dmin);
  for (int g = 0; g < kGroups; ++g) {
    const int scale = nearest_code(fitted[g].scale, scale_inverse, 0, most_scale);
    const int minimum = nearest_code(-fitted[g].offset, minimum_inverse, 0, most_scale);
    out.scales[g] = static_cast<std::uint8_t>(scale);
    out.minima[g] = static_cast<std::uint8_t>(minimum);
    const float inverse = inverse_of(d * static_cast<float>(scale));
    const float offset = dmin * static_cast<float>(minimum);
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      out.codes[i] = static_cast<std::uint8_t>(nearest_code(values[i] + offset, inverse, 0, most_code));
    }
  }
  return out;
}

inline void encode(const float* values, Q2_K::Block& block, Q2_K) {
  const auto lines = fit_lines<16>(values, 3, 15);
  block.scale = lines.scale;
  block.minimum = lines.minimum;
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<std::uint8_t>(lines.scales[g] | lines.minima[g] << 4);
  for (auto& byte : block.codes) byte = 0;
  for (int i = 0; i < 256; ++i) {
    block.codes[i / 128 * 32 + i % 32] |= static_cast<std::uint8_t>(lines.codes[i] << (i % 128 / 32 * 2));
  }
}

/// The twelve bytes that Q4_K and Q5_K have alike: unpack_k_scale's inverse.
inline void pack_k_scales(const Lines<8>& lines, std::uint8_t (&packed)[12]) {
  for (int k = 0; k < 4; ++k) {
    packed[k] = static_cast<std::uint8_t>(lines.scales[k] | lines.scales[k + 4] >> 4 << 6);
    packed[4 + k] = static_cast<std::uint8_t>(lines.minima[k] | lines.minima[k + 4] >> 4 << 6);
    packed[8 + k] = static_cast<std::uint8_t>((lines.scales[k + 4] & 15) | (lines.minima[k + 4] & 15) << 4);
  }
}

/// Of each two groups of 32 the first lies in low nibbles, the second in high ones.
inline void pack_group_nibbles(const std::uint8_t (&codes)[256], std::uint8_t (&packed)[128]) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      packed[pair * 32 + i] =
          static_cast<std::uint8_t>((codes[pair * 64 + i] & 15) | (codes[pair * 64 + 32 + i] & 15) << 4);
    }
  }
}

inline void encode(const float* values, Q4_K::Block& block, Q4_K) {
  const auto lines = fit_lines<8>(values, 15, 63);
  block.scale = lines.scale;
  block.minimum = lines.minimum;
  pack_k_scales(lines, block.scales);
  pack_group_nibbles(lines.codes, block.codes);
}

inline void encode(const float* values, Q5_K::Block& block, Q5_K) {
  const auto lines = fit_lines<8>(values, 31, 63);
  block.scale = lines.scale;
  block.minimum = lines.minimum;
  pack_k_scales(lines, block.scales);
  pack_group_nibbles(lines.codes, block.codes);
  for (auto& byte : block.high_bits) byte = 0;
  for (int i = 0; i < 256; ++i) block.high_bits[i % 32] |= static_cast<std::uint8_t>((lines.codes[i] >> 4) << (i / 32));
}

/// Groups' scales under one f16: d and each group's signed multiple of it, in [-2^(kBits - 1), 2^(kBits - 1) - 1].
template <int kBits, int kGroups>
std::uint16_t round_scales(const float (&wanted)[kGroups], int (&scales)[kGroups]) {
  constexpr int kLeast = -(1 << (kBits - 1));
  const std::uint16_t d = float_to_f16(largest<kGroups>(wanted) / static_cast<float>(kLeast));
  const float inverse = inverse_of(f16_to_float(d));
  for (int g = 0; g < kGroups; ++g) scales[g] = nearest_code(wanted[g], inverse, kLeast, -kLeast - 1);
  return d;
}

/// Groups of 16 with signed codes; what is stored in `codes` has 2^(kCodeBits - 1) added.
template <int kCodeBits, int kScaleBits>
std::uint16_t fit_scales_of_16(const float* values, int (&scales)[16], std::uint8_t (&codes)[256]) {
  constexpr int kHalf = 1 << (kCodeBits - 1);
  float wanted[16];
  for (int g = 0; g < 16; ++g) wanted[g] = fit_scale<16>(values + 16 * g, -kHalf, kHalf - 1);
  const std::uint16_t d = round_scales<kScaleBits>(wanted, scales);
  for (int i = 0; i < 256; ++i) {
    const float inverse = inverse_of(f16_to_float(d) * static_cast<float>(scales[i / 16]));
    codes[i] = static_cast<std::uint8_t>(nearest_code(values[i], inverse, -kHalf, kHalf - 1) + kHalf);
  }
  return d;
}

inline void encode(const float* values, Q3_K::Block& block, Q3_K) {
  int scales[16];
  std::uint8_t codes[256];
  block.scale = fit_scales_of_16<3, 6>(values, scales, codes);
  for (auto& byte : block.scales) byte = 0;
  for (int g = 0; g < 16; ++g) {
    const int stored = scales[g] + 32;
    block.scales[g % 8] |= static_cast<std::uint8_t>((stored & 15) << (g / 8 * 4));
    block.scales[8 + g % 4] |= static_cast<std::uint8_t>((stored >> 4) << (g / 4 * 2));
  }
  for (auto& byte : block.high_bits) byte = 0;
  for (auto& byte : block.codes) byte = 0;
  for (int i = 0; i < 256; ++i) {
    block.codes[i / 128 * 32 + i % 32] |= static_cast<std::uint8_t>((codes[i] & 3) << (i % 128 / 32 * 2));
    block.high_bits[i % 32] |= static_cast<std::uint8_t>((codes[i] >> 2) << (i / 32));
  }
}

inline void encode(const float* values, Q6_K::Block& block, Q6_K) {
  int scales[16];
  std::uint8_t codes[256];
  block.scale = fit_scales_of_16<6, 8>(values, scales, codes);
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<std::int8_t>(scales[g]);
  for (auto& byte : block.low_bits) byte = 0;
  for (auto& byte : block.high_bits) byte = 0;
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    block.low_bits[half * 64 + i % 64] |= static_cast<std::uint8_t>((codes[i] & 15) << (i % 128 / 64 * 4));
    block.high_bits[half * 32 + i % 32] |= static_cast<std::uint8_t>((codes[i] >> 4) << (i % 128 / 32 * 2));
  }
}

inline void encode(const float* values, IQ4_XS::Block& block, IQ4_XS) {
  const CodeBook<16>& book = iq4_code_book();
  float wanted[8];
  for (int g = 0; g < 8; ++g) wanted[g] = book.fit_scale<32>(values + 32 * g);
  int scales[8];
  block.scale = round_scales<6>(wanted, scales);
  block.scales_high = 0;
  for (auto& byte : block.scales_low) byte = 0;
  for (int g = 0; g < 8; ++g) {
    const int stored = scales[g] + 32;
    block.scales_low[g / 2] |= static_cast<std::uint8_t>((stored & 15) << (g % 2 * 4));
    block.scales_high = static_cast<std::uint16_t>(block.scales_high | (stored >> 4) << (g * 2));
    const float inverse = inverse_of(f16_to_float(block.scale) * static_cast<float>(scales[g]));
    std::uint8_t codes[32];
    for (int i = 0; i < 32; ++i) {
      codes[i] = static_cast<std::uint8_t>(book.nearest_code(values[32 * g + i] * inverse));
    }
    for (int i = 0; i < 16; ++i) {
      block.codes[16 * g + i] = static_cast<std::uint8_t>(codes[i] | codes[i + 16] << 4);
    }
  }
}

}  // namespace pagoda::quant
