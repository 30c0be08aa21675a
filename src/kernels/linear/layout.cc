#include "kernels/linear/layout.h"

#include <array>
#include <cstring>

namespace pagoda::kernels {
namespace {

bool any_format(const quant::Format& format) { return format.decode_row != nullptr; }

std::size_t rows_bytes(const quant::Format& format, WeightShape shape) {
  return static_cast<std::size_t>(shape.n * format.row_bytes(shape.k));
}

void pack_rows(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
               const std::byte* file_rows, std::byte* packed) {
  const std::int64_t row_bytes = format.row_bytes(shape.k);
  std::memcpy(packed + first_row * row_bytes, file_rows, static_cast<std::size_t>(num_rows * row_bytes));
}

void unpack_rows_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                     std::byte* file_row) {
  const std::int64_t row_bytes = format.row_bytes(shape.k);
  std::memcpy(file_row, packed + row * row_bytes, static_cast<std::size_t>(row_bytes));
}

void decode_rows_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                     float* out) {
  format.decode_row(packed + row * format.row_bytes(shape.k), shape.k, out);
}

std::size_t rows_f32_bytes(const quant::Format&, WeightShape shape) {
  return static_cast<std::size_t>(shape.n * shape.k) * sizeof(float);
}

void pack_rows_f32(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
                   const std::byte* file_rows, std::byte* packed) {
  float* out = reinterpret_cast<float*>(packed) + first_row * shape.k;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    format.decode_row(file_rows + row * format.row_bytes(shape.k), shape.k, out + row * shape.k);
  }
}

void decode_rows_f32_row(const quant::Format&, WeightShape shape, const std::byte* packed, std::int64_t row,
                         float* out) {
  const float* values = reinterpret_cast<const float*>(packed) + row * shape.k;
  std::memcpy(out, values, static_cast<std::size_t>(shape.k) * sizeof(float));
}

}  // namespace

const Layout kRowsLayout = {.name = "rows",
                            .row_multiple = 1,
                            .supports = any_format,
                            .packed_bytes = rows_bytes,
                            .pack = pack_rows,
                            .unpack_row = unpack_rows_row,
                            .decode_row = decode_rows_row};

const Layout kRowsF32Layout = {.name = "rows_f32",
                               .row_multiple = 1,
                               .supports = any_format,
                               .packed_bytes = rows_f32_bytes,
                               .pack = pack_rows_f32,
                               .unpack_row = nullptr,
                               .decode_row = decode_rows_f32_row};

std::span<const Layout* const> all_layouts() {
  static constexpr std::array kAll = {&kRowsLayout,      &kRowsF32Layout, &kInt8Rows16Layout, &kFloatRows16Layout,
                                      &kFp8Rows16Layout, &kMma16Layout,   &kMmaCodesLayout};
  return kAll;
}

}  // namespace pagoda::kernels
