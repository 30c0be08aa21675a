// Q6_K: 256 elements in 210 bytes, w = (d·s)·(q - 32) with q in 0 … 63 and s in -128 … 127 for each 16 elements.
//
//   byte 0                              128                             192          208   210
//        | low bits: 2 times 64 bytes    | high bits: 2 times 32 bytes   | s0 … s15   | d   |
//
// The low nibble of low byte 64h + k is element 128h + k, the high one element 128h + 64 + k. Bits 2j and 2j + 1 of
// high byte 32h + l are bits 4 and 5 of element 128h + 32j + l. The scales are signed bytes, d is binary16.
// Source: the GGML quantisation formats as the `gguf` reference reader (0.19) decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct Q6_K {
  static constexpr char kName[] = "q6_k";
  static constexpr int kGgufType = 14;
  static constexpr int kBlockElements = 256;
  struct Block {
    std::uint8_t low_bits[128];
    std::uint8_t high_bits[64];
    std::int8_t scales[16];
    std::uint16_t scale;
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const float scale = f16_to_float(block.scale) * static_cast<float>(block.scales[element / 16]);
    return scale * static_cast<float>(code(block, element) - 32);
  }

  static constexpr Coding kCoding{
      .bits = 6, .group = 16, .bias = 32, .scale = ScaleType::kS8, .super = SuperScale::kF16};
  static PAGODA_SHARED int code(const Block& block, int element) {
    const int half = element / 128;
    const int low = (block.low_bits[half * 64 + element % 64] >> (element % 128 / 64 * 4)) & 15;
    return low | ((block.high_bits[half * 32 + element % 32] >> (element % 128 / 32 * 2)) & 3) << 4;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int group) {
    return static_cast<std::uint8_t>(block.scales[group]);
  }
  static PAGODA_SHARED std::uint32_t super_bits(const Block& block) { return block.scale; }
};

}  // namespace pagoda::quant
