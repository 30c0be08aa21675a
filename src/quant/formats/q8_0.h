// Q8_0: 32 elements in 34 bytes, w = scale·q with q in -128 … 127.
//
//   byte 0     2                    34
//        | d    | q0 q1 q2 … q31      |
//
// d (scale) is binary16; the codes are signed bytes.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q8_0 {
  static constexpr char kName[] = "q8_0";
  static constexpr int kGgufType = 8;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint16_t scale;
    std::int8_t codes[32];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return f16_to_float(block.scale) * static_cast<float>(block.codes[element]);
  }

  static constexpr Coding kCoding{.bits = 8, .group = 32, .bias = 128};
  static PAGODA_SHARED int code(const Block& block, int element) { return block.codes[element] + 128; }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
};

}  // namespace pagoda::quant
