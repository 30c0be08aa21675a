// Q4_K: 256 elements in 144 bytes, w = (d·s)·q - dmin·m with q in 0 … 15 and s, m in 0 … 63 for each 32 elements.
//
//   byte 0    2      4                          16                              144
//        | d   | dmin | s, m: 12 bytes (below)   | 4 times 32 bytes of 64 codes    |
//
//   scale byte k = 0 … 3   bits 0–5: s of group k      bits 6–7: bits 4–5 of s of group k + 4
//         byte 4 + k       bits 0–5: m of group k      bits 6–7: bits 4–5 of m of group k + 4
//         byte 8 + k       low nibble: bits 0–3 of s of group k + 4, high nibble: bits 0–3 of m of group k + 4
//
// The low nibble of code byte 32c + l is element 64c + l, the high one element 64c + 32 + l. d and dmin are binary16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

/// The 6-bit scale (`which` 0) or minimum (4) of `group` 0 … 7 in the twelve bytes that Q4_K and Q5_K have alike.
PAGODA_SHARED int unpack_k_scale(const std::uint8_t* packed, int group, int which) {
  if (group < 4) return packed[which + group] & 63;
  const int low = (packed[4 + group] >> which) & 15;
  return low | (packed[which + group - 4] >> 6) << 4;
}

struct Q4_K {
  static constexpr char kName[] = "q4_k";
  static constexpr int kGgufType = 12;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint16_t scale;
    std::uint16_t minimum;
    std::uint8_t scales[12];
    std::uint8_t codes[128];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const int group = element / 32;
    const float scale = f16_to_float(block.scale) * static_cast<float>(unpack_k_scale(block.scales, group, 0));
    const float minimum = f16_to_float(block.minimum) * static_cast<float>(unpack_k_scale(block.scales, group, 4));
    return scale * static_cast<float>(code(block, element)) - minimum;
  }

  static constexpr Coding kCoding{
      .bits = 4, .group = 32, .scale = ScaleType::kU8, .offset = OffsetType::kMinimum, .super = SuperScale::kF16Pair};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return (block.codes[element / 64 * 32 + element % 32] >> (element / 32 % 2 * 4)) & 15;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int group) {
    return static_cast<std::uint32_t>(unpack_k_scale(block.scales, group, 0));
  }
  static PAGODA_SHARED std::uint32_t offset_bits(const Block& block, int group) {
    return static_cast<std::uint32_t>(unpack_k_scale(block.scales, group, 4));
  }
  static PAGODA_SHARED std::uint32_t super_bits(const Block& block) {
    return block.scale | static_cast<std::uint32_t>(block.minimum) << 16;
  }
};

}  // namespace pagoda::quant
