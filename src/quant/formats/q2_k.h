// Q2_K: 256 elements in 84 bytes, w = (d·s)·q - dmin·m with q in 0 … 3 and s, m in 0 … 15 for each 16 elements.
//
//   byte 0                    16                                          80    82     84
//        | s0|m0 … s15|m15     | 32 bytes of q0 … q127, 32 of q128 … q255  | d   | dmin |
//
// The low nibble of byte k is the scale of elements 16k … 16k + 15, the high one their minimum. Bits 2j and 2j + 1 of
// code byte 32h + l are element 128h + 32j + l. d and dmin are binary16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"

namespace pagoda::quant {

struct Q2_K {
  static constexpr char kName[] = "q2_k";
  static constexpr int kGgufType = 10;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint8_t scales[16];
    std::uint8_t codes[64];
    std::uint16_t scale;
    std::uint16_t minimum;
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const int scales = block.scales[element / 16];
    const int code = (block.codes[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2)) & 3;
    const float scale = f16_to_float(block.scale) * static_cast<float>(scales & 15);
    const float minimum = f16_to_float(block.minimum) * static_cast<float>(scales >> 4);
    return scale * static_cast<float>(code) - minimum;
  }
};

}  // namespace pagoda::quant
