// mma16: bf16 in the order of tensor-core fragments (cuda_mma16.h). What GPUs' kernels read; packed there by
// cuda_to_bf16.cu, and here for tests and for memory that a host can see.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/numbers.h"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileColumns = 32;

bool supports(const quant::Format& format) { return format.name == "bf16"; }

std::size_t packed_bytes(const quant::Format&, WeightShape shape) {
  return static_cast<std::size_t>(mma16_elements(shape.n, shape.k)) * 2;
}

void pack(const quant::Format&, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows == 0 && (num_rows % kTileRows == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const std::int64_t rows = (num_rows + kTileRows - 1) / kTileRows * kTileRows;
  const std::int64_t columns = (shape.k + kTileColumns - 1) / kTileColumns * kTileColumns;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::uint16_t element = 0;
      if (row < num_rows && column < shape.k) std::memcpy(&element, file_rows + (row * shape.k + column) * 2, 2);
      std::memcpy(packed + mma16_offset(first_row + row, column, shape.k) * 2, &element, 2);
    }
  }
}

void unpack_row(const quant::Format&, WeightShape shape, const std::byte* packed, std::int64_t row,
                std::byte* file_row) {
  for (std::int64_t column = 0; column < shape.k; ++column) {
    std::memcpy(file_row + column * 2, packed + mma16_offset(row, column, shape.k) * 2, 2);
  }
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  std::vector<std::byte> file_row(static_cast<std::size_t>(shape.k) * 2);
  unpack_row(format, shape, packed, row, file_row.data());
  format.decode_row(file_row.data(), shape.k, out);
}

}  // namespace

const Layout kMma16Layout = {.name = "mma16",
                             .row_multiple = kTileRows,
                             .supports = supports,
                             .packed_bytes = packed_bytes,
                             .pack = pack,
                             .unpack_row = unpack_row,
                             .decode_row = decode_row};

}  // namespace pagoda::kernels
