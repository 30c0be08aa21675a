// MXFP4: 32 elements in 17 bytes, w = 2^(e - 127)·value[q], values 0, ½, 1, 1½, 2, 3, 4, 6 and their negatives.
//
//   byte 0    1                           17
//        | e   | q0|q16 q1|q17 … q15|q31    |
//
// The low nibble of byte j is element j, the high one element j + 16; bit 3 of a code is the sign (minus zero reads as
// zero). Every e has a value here, as in the reference: 0 is 2^-127, and 255, which OCP MX calls NaN, is 2^128.
// Sources: OCP Microscaling Formats 1.0; the nibble order and the ends of e as the `gguf` reference reader (0.19)
// decodes them.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct MXFP4 {
  static constexpr char kName[] = "mxfp4";
  static constexpr int kGgufType = 39;
  static constexpr int kBlockElements = 32;
  struct Block {
    std::uint8_t exponent;
    std::uint8_t codes[16];
  };
  /// Half the scale, 2^(exponent - 128): the codes below are doubled, so that they are whole.
  static PAGODA_SHARED float half_scale(std::uint8_t exponent) {
    const std::uint32_t bits = exponent;
    return float_of_bits(bits < 2 ? 0x00200000u << bits : (bits - 1) << 23);
  }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    const int q = code(block, element);
    const int exponent = (q >> 1) & 3;
    const int doubled = exponent == 0 ? q & 1 : (2 | (q & 1)) << (exponent - 1);
    return half_scale(block.exponent) * static_cast<float>((q & 8) != 0 ? -doubled : doubled);
  }

  static constexpr Coding kCoding{.bits = 4, .group = 32, .table = CodeTable::kE2m1, .scale = ScaleType::kE8m0};
  static PAGODA_SHARED int code(const Block& block, int element) {
    const int q = element < 16 ? block.codes[element] & 15 : block.codes[element - 16] >> 4;
    return q == 8 ? 0 : q;  // minus zero reads as zero
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.exponent; }

  /// Checkpoints but GGUF's have neighbours in a byte (`code` of an even element in the low nibble).
  static PAGODA_SHARED void set_code(Block& block, int element, int code) {
    std::uint8_t& byte = block.codes[element % 16];
    byte = static_cast<std::uint8_t>(element < 16 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4);
  }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t) {
    block.exponent = static_cast<std::uint8_t>(scale);
  }
};

}  // namespace pagoda::quant
