// Q5_K: 256 elements in 176 bytes, w = (d·s)·q - dmin·m with q in 0 … 31 and s, m in 0 … 63 for each 32 elements.
//
//   byte 0    2      4                 16             48                              176
//        | d   | dmin | s, m: as Q4_K   | h: 32 bytes  | 4 times 32 bytes of 64 codes    |
//
// The low nibble of code byte 32c + l is element 64c + l, the high one element 64c + 32 + l; bit g of h's byte l is
// bit 4 of element 32g + l. d and dmin are binary16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"
#include "quant/formats/q4_k.h"

namespace pagoda::quant {

struct Q5_K {
  static constexpr char kName[] = "q5_k";
  static constexpr int kGgufType = 13;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint16_t scale;
    std::uint16_t minimum;
    std::uint8_t scales[12];
    std::uint8_t high_bits[32];
    std::uint8_t codes[128];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const int group = element / 32;
    const float scale = f16_to_float(block.scale) * static_cast<float>(unpack_k_scale(block.scales, group, 0));
    const float minimum = f16_to_float(block.minimum) * static_cast<float>(unpack_k_scale(block.scales, group, 4));
    return scale * static_cast<float>(code(block, element)) - minimum;
  }

  static constexpr Coding kCoding{
      .bits = 5, .group = 32, .scale = ScaleType::kU8, .offset = OffsetType::kMinimum, .super = SuperScale::kF16Pair};
  static PAGODA_SHARED int code(const Block& block, int element) {
    const int low = (block.codes[element / 64 * 32 + element % 32] >> (element / 32 % 2 * 4)) & 15;
    return low | ((block.high_bits[element % 32] >> (element / 32)) & 1) << 4;
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
