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
    const int low = (block.codes[group / 2 * 32 + element % 32] >> (group % 2 * 4)) & 15;
    const int high = (block.high_bits[element % 32] >> group) & 1;
    const float scale = f16_to_float(block.scale) * static_cast<float>(unpack_k_scale(block.scales, group, 0));
    const float minimum = f16_to_float(block.minimum) * static_cast<float>(unpack_k_scale(block.scales, group, 4));
    return scale * static_cast<float>(low | high << 4) - minimum;
  }
};

}  // namespace pagoda::quant
