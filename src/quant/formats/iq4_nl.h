// IQ4_NL: 32 elements in 18 bytes, w = scale·value[q] with q in 0 … 15 and a fixed table of unevenly spaced values.
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

/// The 16 values of IQ4_NL and IQ4_XS.
PAGODA_SHARED int iq4_value(int code) {
  constexpr std::int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return values[code];
}

struct IQ4_NL {
  static constexpr char kName[] = "iq4_nl";
  static constexpr int kGgufType = 20;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint16_t scale;
    std::uint8_t codes[16];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return f16_to_float(block.scale) * static_cast<float>(iq4_value(code(block, element)));
  }

  static constexpr Coding kCoding{.bits = 4, .group = 32, .table = CodeTable::kIq4};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return element < 16 ? block.codes[element] & 15 : block.codes[element - 16] >> 4;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
};

}  // namespace pagoda::quant
