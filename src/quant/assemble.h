// Rows of blocks from the parts that a checkpoint, or an encoder, has them in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "quant/formats/code_bits.h"
#include "quant/formats/coding.h"

namespace pagoda::quant {

/// One row. A format takes part that has, beside `decode`,
///
///   set_group(block, group, scale_bits, offset_bits)   the inverse of kCoding's scale_bits and offset_bits
///   set_super(block, bits)                             the same of super_bits, if kCoding.super is not kNone
///   code_bytes(block) → std::uint8_t*                  if its codes lie as those of code_bits.h do; or else
///   set_code(block, element, code)
struct RowParts {
  const std::uint8_t* codes = nullptr;     ///< of all columns, as in code_bits.h, of the format's own width
  std::span<const std::uint32_t> scales;   ///< of each group of columns, the last one in part: bits of kCoding.scale
  std::span<const std::uint32_t> offsets;  ///< the same of what kCoding.offset says, zero points of kZero; or empty
  std::uint32_t super = 0;                 ///< bits of what all of the row share, if kCoding.super is not kNone
};

template <class F>
constexpr int group_of() {
  if constexpr (requires { F::kCoding; }) {
    return F::kCoding.group;
  } else {
    return F::kBlockElements;
  }
}

/// How many bits a code has: those of the formats without a coding are of 4.
template <class F>
constexpr int bits_of() {
  if constexpr (requires { F::kCoding; }) {
    return F::kCoding.bits;
  } else {
    return 4;
  }
}

/// Writes the `cols` elements of a row; what a last block has room for beyond them is zero.
template <class F>
void assemble_blocks(const RowParts& parts, std::int64_t cols, std::byte* row) {
  using Block = typename F::Block;
  constexpr int kBlock = F::kBlockElements;
  constexpr std::int64_t kCodeBytes = kBlock * bits_of<F>() / 8;
  const std::int64_t row_code_bytes = (cols * bits_of<F>() + 7) / 8;
  auto* blocks = reinterpret_cast<Block*>(row);
  for (std::int64_t first = 0; first < cols; first += kBlock) {
    Block& block = blocks[first / kBlock];
    std::memset(&block, 0, sizeof block);
    const std::int64_t begin = first / kBlock * kCodeBytes;
    if constexpr (requires { F::code_bytes(block); }) {
      std::memcpy(F::code_bytes(block), parts.codes + begin,
                  static_cast<std::size_t>(std::min(kCodeBytes, row_code_bytes - begin)));
    } else {
      for (int i = 0; i < std::min<std::int64_t>(kBlock, cols - first); ++i) {
        F::set_code(block, i, code_at<bits_of<F>()>(parts.codes + begin, i));
      }
    }
    if constexpr (requires { F::set_super(block, 0u); }) F::set_super(block, parts.super);
    for (int g = 0; g < kBlock / group_of<F>(); ++g) {
      const auto at = static_cast<std::size_t>(first / group_of<F>() + g);
      if (at >= parts.scales.size()) break;
      F::set_group(block, g, parts.scales[at], parts.offsets.empty() ? 0u : parts.offsets[at]);
    }
  }
}

}  // namespace pagoda::quant
