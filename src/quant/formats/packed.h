// Packed integers with a scale and a zero point a group: w = (q - zero)·scale, q unsigned.
//
//   byte 0                4                  4 + group·bits/8
//        | zero | scale    | q0 q1 q2 …        |
//
// Codes follow each other from the least significant bit on (code_bits.h). The first 32 bits are a float whose low byte
// gave way to the zero point, 0 … 2^bits - 1: such a float holds every bfloat16 and every binary16, which are what
// checkpoints have for scales, to the bit. One block thus serves compressed-tensors (symmetric: zero is 2^(bits-1)),
// GPTQ (both versions; columns in the order of their groups) and AWQ; a channel's one scale is repeated in each of its
// blocks. Source: compressed-tensors 0.20 (pack-quantized, int-quantized); the packing of AutoGPTQ, GPTQModel and
// AutoAWQ.
#pragma once

#include "base/numbers.h"
#include "quant/formats/code_bits.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

template <int kCodeBits, int kGroup>
struct Packed {
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = kGroup;
  struct Block {
    std::uint32_t scale_and_zero;
    std::uint8_t codes[kGroup * kCodeBits / 8];
  };
  static PAGODA_SHARED float scale(const Block& block) { return float_of_bits(block.scale_and_zero & 0xffffff00u); }
  static PAGODA_SHARED int zero(const Block& block) { return static_cast<int>(block.scale_and_zero & 0xffu); }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return static_cast<float>(code(block, element) - zero(block)) * scale(block);
  }

  static constexpr Coding kCoding{
      .bits = kCodeBits, .group = kGroup, .scale = ScaleType::kF32, .offset = OffsetType::kZero};
  static PAGODA_SHARED int code(const Block& block, int element) { return code_at<kCodeBits>(block.codes, element); }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int) { return block.scale_and_zero; }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int, std::uint32_t scale, std::uint32_t zero) {
    block.scale_and_zero = (scale & 0xffffff00u) | zero;
  }
};

// clang-format off
struct PACKED2_G128 : Packed<2, 128> { static constexpr char kName[] = "packed2_g128"; };
struct PACKED3_G128 : Packed<3, 128> { static constexpr char kName[] = "packed3_g128"; };
struct PACKED4_G32 : Packed<4, 32> { static constexpr char kName[] = "packed4_g32"; };
struct PACKED4_G64 : Packed<4, 64> { static constexpr char kName[] = "packed4_g64"; };
struct PACKED4_G128 : Packed<4, 128> { static constexpr char kName[] = "packed4_g128"; };
struct PACKED8_G32 : Packed<8, 32> { static constexpr char kName[] = "packed8_g32"; };
struct PACKED8_G64 : Packed<8, 64> { static constexpr char kName[] = "packed8_g64"; };
struct PACKED8_G128 : Packed<8, 128> { static constexpr char kName[] = "packed8_g128"; };
// clang-format on

}  // namespace pagoda::quant
