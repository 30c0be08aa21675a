// What a weight format is: how the elements of one matrix row lie in bytes, and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/formats/coding.h"

namespace pagoda::quant {

struct RowParts;

/// One format of the list in formats.h. Descriptors have static storage; formats are compared by address.
/// A row of `cols` elements is `cols / block_elements` blocks, rounded up, one after the other, with no padding between
/// rows. What a checkpoint keeps in several tensors (codes, scales, zero points) is put together into such rows when it
/// is read (io/planar.h), so that all that follows knows one shape of weight.
struct Format {
  std::string_view name;            ///< on the command line and in results: "q4_1"
  std::int32_t gguf_type = -1;      ///< its number in GGUF files; -1: GGUF has none
  std::int64_t block_elements = 1;  ///< elements of a row that share one block
  std::int64_t block_bytes = 0;

  /// Decodes the first `cols` elements to the exact value each stands for, rounded to float once where the format's
  /// definition needs more than 24 bits.
  void (*decode_row)(const std::byte* row, std::int64_t cols, float* out) = nullptr;

  /// How kernels that know no format by name may read it; null where it is no code with a scale.
  const Coding* coding = nullptr;

  /// Makes a row of `cols` elements from its parts (quant/assemble.h), `bits` to a code and a scale for every `group`
  /// columns; null for formats that no checkpoint has in parts.
  void (*assemble_row)(const RowParts& parts, std::int64_t cols, std::byte* row) = nullptr;
  int bits = 0;
  int group = 0;

  bool divides(std::int64_t cols) const { return cols % block_elements == 0; }
  /// Whether rows may have that many elements: GGUF's are whole blocks, the last block of others may be used in part.
  bool fits(std::int64_t cols) const { return gguf_type < 0 || divides(cols); }
  std::int64_t row_bytes(std::int64_t cols) const { return (cols + block_elements - 1) / block_elements * block_bytes; }
};

std::span<const Format* const> all_formats();

/// Another name of a format: of a kind of checkpoint whose weights are the same blocks once they are read.
struct FormatAlias {
  std::string_view name;
  std::string_view of;
};
std::span<const FormatAlias> format_aliases();

/// The format of that name or alias, or null.
const Format* find_format(std::string_view name);

/// The format with that GGUF type number, or null.
const Format* find_gguf_type(std::int32_t type);

}  // namespace pagoda::quant
