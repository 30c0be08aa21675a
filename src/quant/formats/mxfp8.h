// MXFP8: 32 elements in 33 bytes, w = 2^(e - 127)·x with x e4m3. Byte 0 is e, then come the elements in their order; e
// of 255 is NaN. Source: OCP Microscaling Formats 1.0.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct MXFP8 {
  static constexpr char kName[] = "mxfp8";
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint8_t exponent;
    std::uint8_t codes[32];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return fp8_e4m3_to_float(block.codes[element]) * e8m0_to_float(block.exponent);
  }

  static constexpr Coding kCoding{.bits = 8, .group = 32, .table = CodeTable::kE4m3, .scale = ScaleType::kE8m0};
  static PAGODA_SHARED int code(const Block& block, int element) { return block.codes[element]; }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.exponent; }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t) {
    block.exponent = static_cast<std::uint8_t>(scale);
  }
};

}  // namespace pagoda::quant
