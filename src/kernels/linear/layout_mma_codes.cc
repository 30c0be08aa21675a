// mma_codes: codes in the order of tensor-core fragments, scales beside them (cuda_mma_codes.h). What GPUs' kernels
// read; packed there by cuda_pack_codes.cu, and here for tests and for memory that a host can see.
#include "base/check.h"
#include "kernels/linear/cuda_mma_codes.h"
#include "kernels/linear/layout.h"
#include "quant/formats.h"

namespace pagoda::kernels {
namespace {

bool supports(const quant::Format& format) { return format.coding != nullptr; }

std::size_t packed_bytes(const quant::Format& format, WeightShape shape) {
  return static_cast<std::size_t>(mma_codes_bytes(*format.coding, shape.n, shape.k));
}

void pack(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows16 == 0 && (num_rows % kTileRows16 == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const auto* rows = reinterpret_cast<const std::uint8_t*>(file_rows);
  auto* to = reinterpret_cast<std::uint8_t*>(packed);
  quant::Formats::for_each([&]<class F>() {
    if constexpr (requires { F::kCoding; }) {
      if (format.name != F::kName) return;
      for (std::int64_t tile = 0; tile < num_tiles16(num_rows); ++tile) {
        for (std::int64_t unit = 0; unit < num_units(shape.k); ++unit) {
          for (int lane = 0; lane < 32; ++lane) {
            pack_mma_codes<F>(rows, format.row_bytes(shape.k), first_row, num_rows, shape.n, shape.k, tile, unit, lane,
                              to);
          }
        }
      }
    }
  });
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(packed);
  for (std::int64_t column = 0; column < shape.k; ++column) {
    out[column] = mma_codes_value(*format.coding, from, shape.n, shape.k, row, column);
  }
}

}  // namespace

const Layout kMmaCodesLayout = {.name = "mma_codes",
                                .row_multiple = kTileRows16,
                                .supports = supports,
                                .packed_bytes = packed_bytes,
                                .pack = pack,
                                .unpack_row = nullptr,
                                .decode_row = decode_row};

}  // namespace pagoda::kernels
