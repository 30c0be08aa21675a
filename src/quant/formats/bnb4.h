// The 4-bit types of bitsandbytes: 64 elements in 36 bytes, w = table[q]·absmax.
//
//   byte 0        4                          36
//        | absmax  | q1|q0 q3|q2 … q63|q62     |
//
// absmax is a float, of nested checkpoints already unfolded: table8[a]·nested_absmax + offset. Element 2j is the low
// nibble of byte j, 2j + 1 the high one (the checkpoint's bytes have them the other way round).
// Source: functional.py of bitsandbytes (create_normal_map, get_4bit_type); QLoRA (arXiv:2305.14314), appendix E.
#pragma once

#include "base/numbers.h"

namespace pagoda::quant {

/// The quantiles of a normal distribution, and a float of sign, 2 bits of exponent, 1 of mantissa, over its largest.
struct Nf4Table {
  static PAGODA_SHARED float value(int code) {
    constexpr float values[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};
    return values[code];
  }
};
struct Fp4Table {
  static PAGODA_SHARED float value(int code) {
    constexpr float values[8] = {0.0f, 0.0625f / 12, 8.0f / 12, 1.0f, 4.0f / 12, 0.5f, 2.0f / 12, 0.25f};
    return (code & 8) != 0 ? -values[code & 7] : values[code & 7];
  }
};

template <class Table>
struct Bnb4 {
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = 64;
  struct Block {
    float absmax;
    std::uint8_t codes[32];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return Table::value(block.codes[element / 2] >> (element % 2 * 4) & 15) * block.absmax;
  }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t) {
    block.absmax = float_of_bits(scale);
  }
};

// clang-format off
struct BNB_NF4 : Bnb4<Nf4Table> { static constexpr char kName[] = "bnb_nf4"; };
struct BNB_FP4 : Bnb4<Fp4Table> { static constexpr char kName[] = "bnb_fp4"; };
// clang-format on

}  // namespace pagoda::quant
