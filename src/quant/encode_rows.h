// Encoders whose scales are those of more than a block, and blocks taken apart again into what checkpoints keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quant/format.h"

namespace pagoda::quant {

/// Rows of fp8_e4m3 with one scale a row: its largest value becomes 448.
void encode_fp8_channels(const float* values, std::int64_t rows, std::int64_t cols, std::byte* blocks);

/// The same with one scale for each 128 rows and 128 columns, counted from the first row given.
void encode_fp8_tiles(const float* values, std::int64_t rows, std::int64_t cols, std::byte* blocks);

/// What a whole nvfp4 tensor whose largest magnitude is `peak` is divided by: the largest group's scale is then 448.
/// It is the number that compressed-tensors keeps; the tensor's scale is its inverse.
float nvfp4_divisor(float peak);

/// Rows of nvfp4 under that divisor.
void encode_nvfp4(const float* values, std::int64_t rows, std::int64_t cols, float divisor, std::byte* blocks);

/// What a row's blocks say, group by group.
struct SplitRow {
  std::vector<std::uint8_t> codes;     ///< as code_bits.h has them, in whole bytes
  std::vector<std::uint32_t> scales;   ///< of each group: bits of kCoding.scale
  std::vector<std::uint32_t> offsets;  ///< of each group: bits of kCoding.offset; zeros if there is none
};

/// Takes the first `cols` elements of a row apart. Null for a format without a coding.
using SplitBlocks = void (*)(const std::byte* row, std::int64_t cols, SplitRow& out);
SplitBlocks find_splitter(const Format& format);

}  // namespace pagoda::quant
