// Q4_1: 32 elements in 20 bytes, w = scale·q + minimum with q in 0 … 15.
//
//   byte 0     2       4                            20
//        | d    | m     | q0|q16 q1|q17 … q15|q31    |
//
// d (scale) and m (minimum) are binary16; the low nibble of byte j is element j, the high one element j + 16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q4_1 {
  static constexpr char kName[] = "q4_1";
  static constexpr int kGgufType = 3;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint16_t scale;
    std::uint16_t minimum;
    std::uint8_t codes[16];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return f16_to_float(block.scale) * static_cast<float>(code(block, element)) + f16_to_float(block.minimum);
  }

  static constexpr Coding kCoding{.bits = 4, .group = 32, .offset = OffsetType::kValue};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return element < 16 ? block.codes[element] & 15 : block.codes[element - 16] >> 4;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
  static PAGODA_SHARED std::uint32_t offset_bits(const Block& block, int) { return block.minimum; }
};

}  // namespace pagoda::quant
