// What a weight format is: how the elements of one matrix row lie in bytes, and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/formats/coding.h"

namespace pagoda::quant {

/// One format of the list in formats.h. Descriptors have static storage; formats are compared by address.
/// A row of `cols` elements is `cols / block_elements` blocks, one after the other, with no padding between rows.
struct Format {
  std::string_view name;            ///< on the command line and in results: "q4_1"
  std::int32_t gguf_type = -1;      ///< its number in GGUF files; -1: GGUF has none
  std::int64_t block_elements = 1;  ///< elements of a row that share one block
  std::int64_t block_bytes = 0;

  /// Decodes `cols` elements (a multiple of block_elements) to the exact value each stands for, rounded to float once
  /// where the format's definition needs more than 24 bits.
  void (*decode_row)(const std::byte* row, std::int64_t cols, float* out) = nullptr;

  /// How kernels that know no format by name may read it; null where it is no code with a scale.
  const Coding* coding = nullptr;

  bool divides(std::int64_t cols) const { return cols % block_elements == 0; }
  std::int64_t row_bytes(std::int64_t cols) const { return cols / block_elements * block_bytes; }
};

std::span<const Format* const> all_formats();

/// The format of that name, or null.
const Format* find_format(std::string_view name);

/// The format with that GGUF type number, or null.
const Format* find_gguf_type(std::int32_t type);

}  // namespace pagoda::quant
