// Q4_0: 32 elements in 18 bytes, w = scale·(q - 8) with q in 0 … 15.
//
//   byte 0     2                           18
//        | d    | q0|q16 q1|q17 … q15|q31    |
//
// d (scale) is binary16; the low nibble of byte j is element j, the high one element j + 16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q4_0 {
  static constexpr char kName[] = "q4_0";
  static constexpr int kGgufType = 2;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint16_t scale;
    std::uint8_t codes[16];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return f16_to_float(block.scale) * static_cast<float>(code(block, element) - 8);
  }

  static constexpr Coding kCoding{.bits = 4, .group = 32, .bias = 8};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return element < 16 ? block.codes[element] & 15 : block.codes[element - 16] >> 4;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
};

}  // namespace pagoda::quant
