// f32, f16 and bf16 with rows interleaved 16 at a time: tile after tile, in it column after column of 16 elements.
#include <cstring>

#include "base/check.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kTileRows = 16;

bool supports(const quant::Format& format) {
  return format.name == "f32" || format.name == "f16" || format.name == "bf16";
}

std::size_t packed_bytes(const quant::Format& format, WeightShape shape) {
  return static_cast<std::size_t>((shape.n + kTileRows - 1) / kTileRows * kTileRows * shape.k * format.block_bytes);
}

std::int64_t offset_of(WeightShape shape, std::int64_t row, std::int64_t column) {
  return (row / kTileRows * shape.k + column) * kTileRows + row % kTileRows;
}

template <class Element>
void pack_elements(WeightShape shape, std::int64_t first_row, std::int64_t num_rows, const std::byte* file_rows,
                   std::byte* packed) {
  const std::int64_t padded = (num_rows + kTileRows - 1) / kTileRows * kTileRows;
  for (std::int64_t row = first_row; row < first_row + padded; ++row) {
    for (std::int64_t column = 0; column < shape.k; ++column) {
      Element element{};
      if (row < first_row + num_rows) {
        std::memcpy(&element, file_rows + ((row - first_row) * shape.k + column) * std::int64_t{sizeof element},
                    sizeof element);
      }
      std::memcpy(packed + offset_of(shape, row, column) * std::int64_t{sizeof element}, &element, sizeof element);
    }
  }
}

void pack(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows == 0 && (num_rows % kTileRows == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const auto move = format.block_bytes == 4 ? &pack_elements<std::uint32_t> : &pack_elements<std::uint16_t>;
  move(shape, first_row, num_rows, file_rows, packed);
}

void unpack_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                std::byte* file_row) {
  const std::int64_t bytes = format.block_bytes;
  for (std::int64_t column = 0; column < shape.k; ++column) {
    std::memcpy(file_row + column * bytes, packed + offset_of(shape, row, column) * bytes,
                static_cast<std::size_t>(bytes));
  }
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  for (std::int64_t column = 0; column < shape.k; ++column) {
    format.decode_row(packed + offset_of(shape, row, column) * format.block_bytes, 1, out + column);
  }
}

}  // namespace

const Layout kFloatRows16Layout = {.name = "float_rows16",
                                   .row_multiple = kTileRows,
                                   .supports = supports,
                                   .packed_bytes = packed_bytes,
                                   .pack = pack,
                                   .unpack_row = unpack_row,
                                   .decode_row = decode_row};

}  // namespace pagoda::kernels
