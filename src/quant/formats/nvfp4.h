// NVFP4: groups of 16 elements e2m1 with a scale e4m3, and one scale for the whole tensor: w = (x·s)·t.
//
//   byte 0    4              20                         148
//        | t   | s0 s1 … s15   | x1|x0 x3|x2 … x255|x254  |
//
// A block is 256 elements, so that a row carries the tensor's scale t (a float, a multiplier) with 2.8 % more bytes;
// the last one of a row may be used in part. Element 2j is the low nibble of byte j, 2j + 1 the high one. x·s is exact,
// so that the product is rounded once. Source: NVFP4QTensor of NVIDIA ModelOpt; compressed-tensors 0.20
// (nvfp4-pack-quantized), whose weight_global_scale is 1/t.
#pragma once

#include "base/numbers.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

struct NVFP4 {
  static constexpr char kName[] = "nvfp4";
  static constexpr int kGgufType = -1;
  static constexpr int kBlockElements = 256;
  static constexpr int kGroup = 16;
  struct Block {
    float tensor_scale;
    std::uint8_t scales[16];
    std::uint8_t codes[128];
  };
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return fp4_e2m1_to_float(static_cast<std::uint8_t>(code(block, element))) *
           fp8_e4m3_to_float(block.scales[element / kGroup]) * block.tensor_scale;
  }

  static constexpr Coding kCoding{
      .bits = 4, .group = kGroup, .table = CodeTable::kE2m1, .scale = ScaleType::kE4m3, .super = SuperScale::kF32};
  static PAGODA_SHARED int code(const Block& block, int element) {
    return block.codes[element / 2] >> (element % 2 * 4) & 15;
  }
  static PAGODA_SHARED std::uint32_t scale_bits(const Block& block, int group) { return block.scales[group]; }
  static PAGODA_SHARED std::uint32_t super_bits(const Block& block) { return bits_of_float(block.tensor_scale); }

  static PAGODA_SHARED std::uint8_t* code_bytes(Block& block) { return block.codes; }
  static PAGODA_SHARED void set_group(Block& block, int group, std::uint32_t scale, std::uint32_t) {
    block.scales[group] = static_cast<std::uint8_t>(scale);
  }
  static PAGODA_SHARED void set_super(Block& block, std::uint32_t scale) { block.tensor_scale = float_of_bits(scale); }
};

}  // namespace pagoda::quant
