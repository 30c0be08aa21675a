// Affine groups, as MLX writes them: w = scale·q + bias, q an unsigned integer of 2 to 8 bits.
//
//   byte 0      2      4                  4 + group·bits/8
//        | scale | bias | q0 q1 q2 …        |
//
// Codes follow each other from the least significant bit on (code_bits.h). Scale and bias are both bfloat16, or both
// binary16 in the formats whose names end in _f16. A checkpoint keeps codes, scales and biases in three tensors; they
// are put together when they are read. scale·q is exact in a float, so that the sum is rounded once. Source:
// mlx.core.quantize and mlx.core.dequantize of MLX.
#pragma once

#include "base/numbers.h"
#include "quant/formats/code_bits.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

template <int kCodeBits, int kGroup, bool kHalf = false>
struct Affine {
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = kGroup;
  struct Block {
    std::uint16_t scale;
    std::uint16_t bias;
    std::uint8_t codes[kGroup * kCodeBits / 8];
  };
  static PAGODA_SHARED float widen(std::uint16_t bits) { return kHalf ? f16_to_float(bits) : bf16_to_float(bits); }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return widen(block.scale) * static_cast<float>(code(block, element)) + widen(block.bias);
  }

  static constexpr Coding kCoding{.bits = kCodeBits,
                                  .group = kGroup,
                                  .scale = kHalf ? ScaleType::kF16 : ScaleType::kBf16,
                                  .offset = OffsetType::kValue};
  static PAGODA_SHARED int code(const Block& block, int element) { return code_at<kCodeBits>(block.codes, element); }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale; }
  static PAGODA_SHARED std::uint32_t offset_bits(const Block& block, int) { return block.bias; }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t offset) {
    block.scale = static_cast<std::uint16_t>(scale);
    block.bias = static_cast<std::uint16_t>(offset);
  }
};

// clang-format off
struct AFFINE2_G32 : Affine<2, 32> { static constexpr char kName[] = "affine2_g32"; };
struct AFFINE2_G64 : Affine<2, 64> { static constexpr char kName[] = "affine2_g64"; };
struct AFFINE2_G128 : Affine<2, 128> { static constexpr char kName[] = "affine2_g128"; };
struct AFFINE3_G32 : Affine<3, 32> { static constexpr char kName[] = "affine3_g32"; };
struct AFFINE3_G64 : Affine<3, 64> { static constexpr char kName[] = "affine3_g64"; };
struct AFFINE3_G128 : Affine<3, 128> { static constexpr char kName[] = "affine3_g128"; };
struct AFFINE4_G32 : Affine<4, 32> { static constexpr char kName[] = "affine4_g32"; };
struct AFFINE4_G64 : Affine<4, 64> { static constexpr char kName[] = "affine4_g64"; };
struct AFFINE4_G128 : Affine<4, 128> { static constexpr char kName[] = "affine4_g128"; };
struct AFFINE5_G32 : Affine<5, 32> { static constexpr char kName[] = "affine5_g32"; };
struct AFFINE5_G64 : Affine<5, 64> { static constexpr char kName[] = "affine5_g64"; };
struct AFFINE5_G128 : Affine<5, 128> { static constexpr char kName[] = "affine5_g128"; };
struct AFFINE6_G32 : Affine<6, 32> { static constexpr char kName[] = "affine6_g32"; };
struct AFFINE6_G64 : Affine<6, 64> { static constexpr char kName[] = "affine6_g64"; };
struct AFFINE6_G128 : Affine<6, 128> { static constexpr char kName[] = "affine6_g128"; };
struct AFFINE8_G32 : Affine<8, 32> { static constexpr char kName[] = "affine8_g32"; };
struct AFFINE8_G64 : Affine<8, 64> { static constexpr char kName[] = "affine8_g64"; };
struct AFFINE8_G128 : Affine<8, 128> { static constexpr char kName[] = "affine8_g128"; };
// Those of checkpoints in binary16; other widths are widened to the next of these, code by code.
struct AFFINE4_G32_F16 : Affine<4, 32, true> { static constexpr char kName[] = "affine4_g32_f16"; };
struct AFFINE4_G64_F16 : Affine<4, 64, true> { static constexpr char kName[] = "affine4_g64_f16"; };
struct AFFINE4_G128_F16 : Affine<4, 128, true> { static constexpr char kName[] = "affine4_g128_f16"; };
struct AFFINE8_G32_F16 : Affine<8, 32, true> { static constexpr char kName[] = "affine8_g32_f16"; };
struct AFFINE8_G64_F16 : Affine<8, 64, true> { static constexpr char kName[] = "affine8_g64_f16"; };
struct AFFINE8_G128_F16 : Affine<8, 128, true> { static constexpr char kName[] = "affine8_g128_f16"; };
// clang-format on

}  // namespace pagoda::quant
