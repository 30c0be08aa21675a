// Q5_1: 32 elements in 24 bytes, w = scale·q + minimum with q in 0 … 31.
//
//   byte 0     2       4                8                           24
//        | d    | m     | h0 … h31       | q0|q16 q1|q17 … q15|q31    |
//
// d (scale) and m (minimum) are binary16; bit i of the little-endian 32-bit h is bit 4 of element i. Of the lower four
// bits, the low nibble of byte j is element j's, the high one element j + 16's.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q5_1 {
  static constexpr char kName[] = "q5_1";
  static constexpr int kGgufType = 7;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint16_t scale;
    std::uint16_t minimum;
    std::uint8_t high_bits[4];
    std::uint8_t codes[16];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return f16_to_float(block.scale) * static_cast<float>(code(block, element)) + f16_to_float(block.minimum);
  }

  static constexpr Coding kCoding{.bits = 5, .group = 32, .offset = OffsetType::kValue};
  static PAGODA_SHARED int code(const Block& block, int element) {
    const int low = element < 16 ? block.codes[element] & 15 : block.codes[element - 16] >> 4;
    return low | ((block.high_bits[element / 8] >> (element % 8)) & 1) << 4;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
  static PAGODA_SHARED std::uint32_t offset_bits(const Block& block, int) { return block.minimum; }
};

}  // namespace pagoda::quant
