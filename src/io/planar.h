// A weight that a checkpoint keeps in several tensors (codes, scales, zero points), read as rows of blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/tensor_catalog.h"
#include "quant/format.h"

namespace pagoda::io {

class ModelFile;

struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Codes of rows, each row in a whole number of bytes, in the order and width of the format (quant/assemble.h).
using ReadCodes = std::function<Status(const ModelFile&, RowRange, std::span<std::uint8_t>)>;
/// One word a group of columns: scales, offsets or zero points, as quant::RowParts has them.
using ReadWords = std::function<Status(const ModelFile&, RowRange, std::span<std::uint32_t>)>;

/// Where the parts of a weight of (rows, cols) lie. What it reads with may be called from several threads at once.
struct Planar {
  const quant::Format* format = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  ReadCodes codes = {};
  ReadWords scales = {};
  ReadWords offsets = {};   ///< empty: none
  std::uint32_t super = 0;  ///< bits of the whole weight's scale
  /// Column c of the blocks is column order[c] of the weight, if it is not empty: groups of GPTQ's act-order are
  /// neighbours in blocks only.
  std::vector<std::int32_t> order = {};

  std::int64_t code_bytes() const { return (cols * format->bits + 7) / 8; }
  std::int64_t groups() const { return (cols + format->group - 1) / format->group; }
};

/// Blocks of some rows. Errors: those of reading; kFormatUnsupported for a value that no block can hold (a scale that
/// is not finite, or too fine), with the tensor's name.
Status read_planar(const Planar& planar, const ModelFile& file, RowRange rows, std::span<std::byte> into);

/// How the codes of a tensor, row after row, differ from code_bits.h.
enum class CodeOrder : std::uint8_t {
  kPlain,
  kHighNibbleFirst,
  kSigned,  ///< two's complement of 8 bits: the format's zero point is 128
};

/// Codes in rows of `entry`, which are `file_bits` wide; widened to those of the format.
ReadCodes row_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                    CodeOrder order);

/// The same with the columns in that order.
ReadCodes ordered_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                        std::vector<std::int32_t> order);

/// GPTQ: 32-bit words along the columns, (words, rows); blocks hold the columns in `order`, if it is not empty.
ReadCodes gptq_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                     std::vector<std::int32_t> order);

/// AWQ: eight rows in a 32-bit word, (cols, rows / 8).
ReadCodes awq_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols);

/// What a number of a scale tensor becomes.
enum class WordType : std::uint8_t {
  kFloat,       ///< bits of a float, of F32, F16 or BF16
  kShortFloat,  ///< the same with a low byte of zero, which the zero point takes
  kHalf,        ///< 16 bits as they are
  kE4m3,        ///< 8 bits as they are; a NaN is refused
  kE8m0,        ///< the same
  kSignedByte,  ///< 8 bits of two's complement, 128 added
};

/// A tensor of scales over a grid: the number for a row and a column is that at (row / rows_each, column / cols_each).
struct Grid {
  TensorEntry entry;
  WordType type = WordType::kFloat;
  std::int64_t rows = 0, cols = 0;  ///< of the weight
  std::int64_t rows_each = 1, cols_each = 1;
  bool transposed = false;  ///< the tensor is (groups, rows)
};
ReadWords grid_words(Grid grid, int group);

/// Zero points of `bits` that lie in 32-bit words along the rows: (groups, words), or (words, groups) if `by_words`;
/// `plus` is added, and wraps. In AWQ's order of lanes if `lanes`.
struct PackedZeros {
  TensorEntry entry;
  std::int64_t rows = 0, cols = 0, cols_each = 0;
  int bits = 4;
  std::uint32_t plus = 0;
  bool by_words = false;
  bool lanes = false;
};
ReadWords packed_zeros(PackedZeros zeros, int group);

/// How bitsandbytes keeps the scales of blocks in 8 bits: table[a]·absmax[block / each] + offset.
struct Nested {
  std::vector<float> table;
  std::vector<float> absmax;
  std::int64_t block = 0;
  float offset = 0;
};

/// Scales of the elements of a matrix taken row after row, `block` of them with one: of F32, or of U8 if nested.
ReadWords flat_words(const TensorEntry& entry, std::int64_t cols, std::int64_t block, Nested nested);

ReadWords constant_words(std::uint32_t word);

}  // namespace pagoda::io
