// A layout: how a weight matrix lies in memory for the kernels that read it. A weight is packed once, at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/format.h"

namespace pagoda::kernels {

/// The size of a weight matrix: n rows (outputs) of k columns (inputs); k is a multiple of the format's block.
struct WeightShape {
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Descriptors have static storage and are compared by address. Packed memory must be aligned to kLayoutAlignment.
struct Layout {
  std::string_view name;
  /// `pack` takes ranges of rows that begin at a multiple of this.
  std::int64_t row_multiple = 1;

  bool (*supports)(const quant::Format& format) = nullptr;

  /// Bytes of the packed matrix; within a few per cent of the file's bytes, or of 4 bytes an element for rows_f32.
  std::size_t (*packed_bytes)(const quant::Format& format, WeightShape shape) = nullptr;

  /// Packs rows [first_row, first_row + num_rows), given as the file has them, into the whole matrix at `packed`.
  /// The range ends at a multiple of row_multiple or at n. Disjoint ranges may be packed by several threads at once;
  /// every byte of `packed` is written once all ranges are packed.
  void (*pack)(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
               const std::byte* file_rows, std::byte* packed) = nullptr;

  /// One row as the file had it, byte for byte (format.row_bytes(k) of them). Null for rows_f32 and mma_codes, which
  /// keep what a row means.
  void (*unpack_row)(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                     std::byte* file_row) = nullptr;

  /// One row's k values, exactly as format.decode_row gives them.
  void (*decode_row)(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                     float* out) = nullptr;
};

inline constexpr std::size_t kLayoutAlignment = 64;

/// The file's own order: row after row.
extern const Layout kRowsLayout;

/// Each row decoded to float once: what the reference reads.
extern const Layout kRowsF32Layout;

/// Rows interleaved 16 at a time, codes split into vectors of 4 columns x 16 rows: what the int8 kernels read.
extern const Layout kInt8Rows16Layout;

/// f32, f16 and bf16 with rows interleaved 16 at a time: column after column of 16 elements.
extern const Layout kFloatRows16Layout;

/// 8-bit floats with rows interleaved 16 at a time, after their blocks' scales (fp8_rows16.h).
extern const Layout kFp8Rows16Layout;

/// bf16 in the order of tensor-core fragments: what GPUs' kernels read (cuda_mma16.h).
extern const Layout kMma16Layout;

/// Codes of formats that state a coding, in the same order, with their scales (cuda_mma_codes.h).
extern const Layout kMmaCodesLayout;

std::span<const Layout* const> all_layouts();

}  // namespace pagoda::kernels
