// Packing into kFp8Rows16Layout and back (fp8_rows16.h has the picture).
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/linear/fp8_rows16.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {
namespace {

using float_gemm::Element;
using float_gemm::Kind;
using float_gemm::kTileRows;
using float_gemm::Scale;

struct KindOf {
  std::string_view format;
  Kind kind;
};

constexpr std::array kKinds = {
    KindOf{"fp8_e4m3", {Element::kE4m3, Scale::kFloat}}, KindOf{"fp8_e4m3_g32", {Element::kE4m3, Scale::kFloat}},
    KindOf{"fp8_e5m2", {Element::kE5m2, Scale::kFloat}}, KindOf{"fp8_e5m2_g32", {Element::kE5m2, Scale::kFloat}},
    KindOf{"mxfp8", {Element::kE4m3, Scale::kExponent}},
};

bool supports(const quant::Format& format) {
  return std::ranges::find(kKinds, format.name, &KindOf::format) != kKinds.end();
}

std::int64_t blocks_of(const quant::Format& format, std::int64_t k) { return ceil_div(k, format.block_elements); }

std::size_t packed_bytes(const quant::Format& format, WeightShape shape) {
  return static_cast<std::size_t>(ceil_div(shape.n, kTileRows) * fp8_tile_bytes(format, shape.k));
}

/// Where a block of 16 rows lies in a tile.
struct BlockPlace {
  std::int64_t scales;
  std::int64_t codes;
};

BlockPlace place_of(const quant::Format& format, std::int64_t block) {
  const Scale scale = fp8_kind(format).scale;
  const std::int64_t blocks = float_gemm::chunk_blocks(scale);
  const std::int64_t code_bytes = format.block_elements * kTileRows;
  const std::int64_t chunk = block / blocks * (float_gemm::kScaleBytes + blocks * code_bytes);
  const std::int64_t index = block % blocks;
  return {chunk + index * kTileRows * float_gemm::scale_bytes(scale),
          chunk + float_gemm::kScaleBytes + index * code_bytes};
}

/// Between a block of a file and its place: `kPack` says which way. A block is its scale, then its codes.
template <bool kPack>
void move_block(const quant::Format& format, WeightShape shape, std::int64_t row, std::int64_t block,
                std::byte* file_block, std::byte* packed) {
  const std::int64_t scale_bytes = float_gemm::scale_bytes(fp8_kind(format).scale);
  const BlockPlace place = place_of(format, block);
  std::byte* tile = packed + row / kTileRows * fp8_tile_bytes(format, shape.k);
  const std::int64_t lane = row % kTileRows;
  std::byte* scale = tile + place.scales + lane * scale_bytes;
  kPack ? std::memcpy(scale, file_block, static_cast<std::size_t>(scale_bytes))
        : std::memcpy(file_block, scale, static_cast<std::size_t>(scale_bytes));
  std::byte* codes = tile + place.codes + 4 * lane;
  for (std::int64_t i = 0; i < format.block_elements; i += 4) {
    std::byte* in_file = file_block + scale_bytes + i;
    std::byte* in_tile = codes + i * kTileRows;
    kPack ? std::memcpy(in_tile, in_file, 4) : std::memcpy(in_file, in_tile, 4);
  }
}

/// Whether one of these codes is NaN or infinite.
bool has_special(Element element, const std::byte* codes, std::int64_t count) {
  const int special = element == Element::kE5m2 ? 0x7c : 0x7f;
  return std::any_of(codes, codes + count,
                     [&](std::byte code) { return (std::to_integer<int>(code) & special) == special; });
}

void pack(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows == 0 && (num_rows % kTileRows == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const Kind kind = fp8_kind(format);
  const std::int64_t bytes = fp8_tile_bytes(format, shape.k);
  std::memset(packed + first_row / kTileRows * bytes, 0,
              static_cast<std::size_t>(ceil_div(num_rows, kTileRows) * bytes));
  auto* file = const_cast<std::byte*>(file_rows);  // only read in this direction
  for (std::int64_t row = first_row; row < first_row + num_rows; ++row) {
    std::uint32_t mark = 0;
    for (std::int64_t block = 0; block < blocks_of(format, shape.k); ++block, file += format.block_bytes) {
      move_block<true>(format, shape, row, block, file, packed);
      const std::int64_t used = std::min(format.block_elements, shape.k - block * format.block_elements);
      if (has_special(kind.element, file + float_gemm::scale_bytes(kind.scale), used)) mark = 1;
    }
    std::memcpy(packed + (row / kTileRows + 1) * bytes - float_gemm::kMarkBytes + 4 * (row % kTileRows), &mark, 4);
  }
}

void unpack_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                std::byte* file_row) {
  auto* tiles = const_cast<std::byte*>(packed);
  for (std::int64_t block = 0; block < blocks_of(format, shape.k); ++block) {
    move_block<false>(format, shape, row, block, file_row + block * format.block_bytes, tiles);
  }
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  auto* tiles = const_cast<std::byte*>(packed);
  for (std::int64_t block = 0; block < blocks_of(format, shape.k); ++block) {
    alignas(4) std::array<std::byte, 256> bytes{};
    move_block<false>(format, shape, row, block, bytes.data(), tiles);
    const std::int64_t first = block * format.block_elements;
    format.decode_row(bytes.data(), std::min(format.block_elements, shape.k - first), out + first);
  }
}

}  // namespace

Kind fp8_kind(const quant::Format& format) {
  const auto found = std::ranges::find(kKinds, format.name, &KindOf::format);
  PAGODA_CHECK(found != kKinds.end(), "{} has no fp8_rows16 layout", format.name);
  return found->kind;
}

std::int64_t fp8_tile_bytes(const quant::Format& format, std::int64_t k) {
  const std::int64_t blocks = blocks_of(format, k);
  const std::int64_t chunks = ceil_div(blocks, float_gemm::chunk_blocks(fp8_kind(format).scale));
  return chunks * float_gemm::kScaleBytes + blocks * format.block_elements * kTileRows + float_gemm::kMarkBytes;
}

const Layout kFp8Rows16Layout = {.name = "fp8_rows16",
                                 .row_multiple = kTileRows,
                                 .supports = supports,
                                 .packed_bytes = packed_bytes,
                                 .pack = pack,
                                 .unpack_row = unpack_row,
                                 .decode_row = decode_row};

}  // namespace pagoda::kernels
