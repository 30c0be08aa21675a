// 8-bit floats with a scale: w = scale·x, x e4m3 (without infinities) or e5m2.
//
//   byte 0       4                4 + columns
//        | scale  | x0 x1 x2 …      |
//
// The scale is a float, and a multiplier, whatever name a checkpoint gives it (weight_scale_inv is one too). It is that
// of 128 columns of a row: of a whole tensor or channel, or of the row's share of a block of 128; formats that end in
// _g32 are for blocks of other multiples of 32 columns. The product is rounded once. Source: OCP 8-bit Floating
// Point 1.0; transformers' FineGrainedFP8; compressed-tensors 0.20 (float-quantized).
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

template <int kColumns, bool kWideExponent>
struct Fp8 {
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = kColumns;
  struct Block {
    float scale;
    std::uint8_t codes[kColumns];
  };
  static PAGODA_SHARED float value(std::uint8_t code) {
    return kWideExponent ? fp8_e5m2_to_float(code) : fp8_e4m3_to_float(code);
  }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return value(block.codes[element]) * block.scale;
  }

  static constexpr Coding kCoding{.bits = 8,
                                  .group = kColumns,
                                  .table = kWideExponent ? CodeTable::kE5m2 : CodeTable::kE4m3,
                                  .scale = ScaleType::kF32};
  static PAGODA_SHARED int code(const Block& block, int element) { return block.codes[element]; }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return bits_of_float(block.scale); }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t) {
    block.scale = float_of_bits(scale);
  }
};

// clang-format off
struct FP8_E4M3 : Fp8<128, false> { static constexpr char kName[] = "fp8_e4m3"; };
struct FP8_E4M3_G32 : Fp8<32, false> { static constexpr char kName[] = "fp8_e4m3_g32"; };
struct FP8_E5M2 : Fp8<128, true> { static constexpr char kName[] = "fp8_e5m2"; };
struct FP8_E5M2_G32 : Fp8<32, true> { static constexpr char kName[] = "fp8_e5m2_g32"; };
// clang-format on

}  // namespace pagoda::quant
