// Q3_K: 256 elements in 110 bytes, w = (d·(s - 32))·q with q in -4 … 3 and s in 0 … 63 for each 16 elements.
//
//   byte 0                  32                                          96            108   110
//        | h: 32 bytes       | 32 bytes of q0 … q127, 32 of q128 … q255  | s: 12 bytes | d   |
//
// Bits 2j and 2j + 1 of code byte 32k + l are the low bits of element 128k + 32j + l; bit j of h's byte l says that
// element 32j + l is not lowered by 4. Scale i: its low four bits are nibble i / 8 of scale byte i % 8, its high two
// are bits 2·(i / 4) and up of scale byte 8 + i % 4. d is binary16. Source: the GGML quantisation formats as the `gguf`
// reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q3_K {
  static constexpr char kName[] = "q3_k";
  static constexpr int kGgufType = 11;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint8_t high_bits[32];
    std::uint8_t codes[64];
    std::uint8_t scales[12];
    std::uint16_t scale;
  };
  /// The scale of elements 16·index and up, -32 … 31.
  static PAGODA_SHARED int scale_of(const Block& block, int index) {
    const int low = (block.scales[index % 8] >> (index / 8 * 4)) & 15;
    const int high = (block.scales[8 + index % 4] >> (index / 4 * 2)) & 3;
    return (low | high << 4) - 32;
  }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const float scale = f16_to_float(block.scale) * static_cast<float>(scale_of(block, element / 16));
    return scale * static_cast<float>(code(block, element) - 4);
  }

  static constexpr Coding kCoding{
      .bits = 3, .group = 16, .bias = 4, .scale = ScaleType::kS8, .super = SuperScale::kF16};
  static PAGODA_SHARED int code(const Block& block, int element) {
    const int low = (block.codes[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2)) & 3;
    return low | ((block.high_bits[element % 32] >> (element / 32)) & 1) << 2;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int group) {
    return static_cast<std::uint8_t>(scale_of(block, group));
  }
  static PAGODA_SHARED std::uint32_t super_bits(const Block& block) { return block.scale; }
};

}  // namespace pagoda::quant
