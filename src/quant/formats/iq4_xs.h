// IQ4_XS: 256 elements in 136 bytes, w = (d·(s - 32))·value[q] with q in 0 … 15, the values of IQ4_NL, and s in 0 … 63
// for each 32 elements.
//
//   byte 0    2            4                 8                               136
//        | d   | high of s   | low of s: 4     | 8 times 16 bytes of 32 codes    |
//
// Nibble g % 2 of low byte g / 2 is bits 0–3 of scale g; bits 2g and 2g + 1 of the little-endian 16-bit high word are
// its bits 4 and 5. The low nibble of code byte 16g + l is element 32g + l, the high one element 32g + 16 + l. d is
// binary16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"
#include "quant/formats/iq4_nl.h"

namespace pagoda::quant {

struct IQ4_XS {
  static constexpr char kName[] = "iq4_xs";
  static constexpr int kGgufType = 23;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint16_t scale;
    std::uint16_t scales_high;
    std::uint8_t scales_low[4];
    std::uint8_t codes[128];
  };
  /// The scale of elements 32·group and up, -32 … 31.
  static PAGODA_SHARED int scale_of(const Block& block, int group) {
    const int low = (block.scales_low[group / 2] >> (group % 2 * 4)) & 15;
    const int high = (block.scales_high >> (group * 2)) & 3;
    return (low | high << 4) - 32;
  }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const float scale = f16_to_float(block.scale) * static_cast<float>(scale_of(block, element / 32));
    return scale * static_cast<float>(iq4_value(code(block, element)));
  }

  static constexpr Coding kCoding{
      .bits = 4, .group = 32, .table = CodeTable::kIq4, .scale = ScaleType::kS8, .super = SuperScale::kF16};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return (block.codes[element / 32 * 16 + element % 16] >> (element % 32 / 16 * 4)) & 15;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int group) {
    return static_cast<std::uint8_t>(scale_of(block, group));
  }
  static PAGODA_SHARED std::uint32_t super_bits(const Block& block) { return block.scale; }
};

}  // namespace pagoda::quant
