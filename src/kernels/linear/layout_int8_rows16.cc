// Packing into kInt8Rows16Layout and back (int8_rows16.h has the picture). Blocks are taken apart byte by byte; what
// the bytes of each format mean is said in quant/formats/.
#include <array>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "kernels/linear/int8_formats.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {
namespace {

using namespace int8_rows16;
using Byte = std::uint8_t;

/// One row's place in a tile.
struct Lane {
  Byte* params;  ///< of the block of parameters
  Byte* codes;   ///< of the first group
  int row;

  Byte* bytes(std::int64_t array) const { return params + array + row; }           ///< in an array of bytes
  Byte* halves(std::int64_t array) const { return params + array + 2 * row; }      ///< in an array of f16
  Byte* vector(std::int64_t index) const { return codes + 64 * index + 4 * row; }  ///< in a vector of codes
};

/// Either way between the file's bytes and the tile's: `kPack` says which.
template <bool kPack>
struct Mover {
  static void copy(Byte* file, Byte* tile, std::size_t bytes) {
    kPack ? std::memcpy(tile, file, bytes) : std::memcpy(file, tile, bytes);
  }

  /// 16 bytes with the low nibbles columns 0 … 15 and the high ones 16 … 31: GGML's order is the tile's.
  static void nibbles(Byte* file, const Lane& lane) {
    for (int v = 0; v < 4; ++v) copy(file + 4 * v, lane.vector(v), 4);
  }

  /// 32 fifth bits, bit c for column c.
  static void fifth_bits(Byte* file, const Lane& lane) {
    std::uint32_t bits = 0;
    Byte* tile = lane.vector(4);
    if constexpr (kPack) {
      std::memcpy(&bits, file, 4);
      for (int i = 0; i < 4; ++i) {
        Byte column_bits = 0;
        for (int v = 0; v < 8; ++v) column_bits = static_cast<Byte>(column_bits | ((bits >> (4 * v + i)) & 1u) << v);
        tile[i] = column_bits;
      }
    } else {
      for (int i = 0; i < 4; ++i) {
        for (int v = 0; v < 8; ++v) bits |= static_cast<std::uint32_t>((tile[i] >> v) & 1) << (4 * v + i);
      }
      std::memcpy(file, &bits, 4);
    }
  }
};

/// Codes of one column of a 4-, 5- or 6-bit group, read from or written to a tile one by one: the K formats' order is
/// not the tile's.
template <int kBits>
int get_code(const Lane& lane, int column) {
  const int v = column / 4;
  const int i = column % 4;
  int code = (lane.vector(v % 4)[i] >> (v < 4 ? 0 : 4)) & 15;
  if constexpr (kBits == 5) code |= ((lane.vector(4)[i] >> v) & 1) << 4;
  if constexpr (kBits == 6) code |= ((lane.vector(4 + v / 4)[i] >> (2 * (v % 4))) & 3) << 4;
  return code;
}

template <int kBits>
void set_code(const Lane& lane, int column, int code) {
  const int v = column / 4;
  const int i = column % 4;
  const auto set = [](Byte* byte, int shift, int mask, int value) {
    *byte = static_cast<Byte>((*byte & ~(mask << shift)) | ((value & mask) << shift));
  };
  set(lane.vector(v % 4) + i, v < 4 ? 0 : 4, 15, code);
  if constexpr (kBits == 5) set(lane.vector(4) + i, v, 1, code >> 4);
  if constexpr (kBits == 6) set(lane.vector(4 + v / 4) + i, 2 * (v % 4), 3, code >> 4);
}

void set_bits(Byte* byte, int shift, int mask, int value) {
  *byte = static_cast<Byte>((*byte & ~(mask << shift)) | ((value & mask) << shift));
}

/// q4_0, q4_1, q5_0, q5_1, q8_0: d, then m if there is one, fifth bits if there are, codes.
template <Encoding kEncoding, bool kPack>
void move_simple(Byte* file, const Lane& lane) {
  using M = Mover<kPack>;
  M::copy(file, lane.halves(0), 2);
  file += 2;
  if constexpr (kEncoding.params == Params::kScaleMinimum) {
    M::copy(file, lane.halves(32), 2);
    file += 2;
  }
  if constexpr (kEncoding.code_bits == 8) {
    for (int v = 0; v < 8; ++v) {
      Byte* tile = lane.vector(v);
      std::uint32_t codes;
      std::memcpy(&codes, kPack ? file + 4 * v : tile, 4);
      codes ^= 0x80808080u;
      std::memcpy(kPack ? tile : file + 4 * v, &codes, 4);
    }
    return;
  }
  if constexpr (kEncoding.code_bits == 5) {
    M::fifth_bits(file, lane);
    file += 4;
  }
  M::nibbles(file, lane);
}

/// The twelve bytes with eight 6-bit scales and eight 6-bit minimums of q4_k and q5_k.
template <bool kPack>
void move_super4_params(Byte* file, const Lane& lane) {
  using M = Mover<kPack>;
  M::copy(file, lane.halves(0), 2);
  M::copy(file + 2, lane.halves(32), 2);
  Byte* q = file + 4;
  for (int g = 0; g < kSuperGroups; ++g) {
    Byte* scale = lane.bytes(64 + 32 * g);
    Byte* minimum = lane.bytes(64 + 32 * g + 16);
    if constexpr (kPack) {
      *scale = g < 4 ? q[g] & 63 : static_cast<Byte>((q[g + 4] & 15) | ((q[g - 4] >> 6) << 4));
      *minimum = g < 4 ? q[g + 4] & 63 : static_cast<Byte>((q[g + 4] >> 4) | ((q[g] >> 6) << 4));
    } else if (g < 4) {
      set_bits(q + g, 0, 63, *scale);
      set_bits(q + g + 4, 0, 63, *minimum);
    } else {
      set_bits(q + g + 4, 0, 15, *scale);
      set_bits(q + g - 4, 6, 3, *scale >> 4);
      set_bits(q + g + 4, 4, 15, *minimum);
      set_bits(q + g, 6, 3, *minimum >> 4);
    }
  }
}

/// q4_k: 64 columns in 32 bytes, low nibbles first. q5_k: before them 32 bytes whose bit g is group g's fifth bit.
template <Encoding kEncoding, bool kPack>
void move_super4(Byte* file, const Lane& lane) {
  constexpr int kBits = kEncoding.code_bits;
  move_super4_params<kPack>(file, lane);
  Byte* high = file + 16;
  Byte* low = kBits == 5 ? high + 32 : high;
  for (int g = 0; g < kSuperGroups; ++g) {
    const Lane group = {lane.params, lane.codes + g * code_bytes(kEncoding), lane.row};
    for (int column = 0; column < kGroup; ++column) {
      Byte* byte = low + 32 * (g / 2) + column;
      const int shift = 4 * (g % 2);
      if constexpr (kPack) {
        int code = (*byte >> shift) & 15;
        if constexpr (kBits == 5) code |= ((high[column] >> g) & 1) << 4;
        set_code<kBits>(group, column, code);
      } else {
        const int code = get_code<kBits>(group, column);
        set_bits(byte, shift, 15, code);
        if constexpr (kBits == 5) set_bits(high + column, g, 1, code >> 4);
      }
    }
  }
}

/// q6_k: per 128 columns, 64 bytes of nibbles (columns 0 … 63 low, 64 … 127 high) and 32 bytes of upper pairs; then 16
/// signed scales; then d.
template <bool kPack>
void move_q6_k(Byte* file, const Lane& lane) {
  using M = Mover<kPack>;
  for (int half = 0; half < 16; ++half) M::copy(file + 192 + half, lane.bytes(32 + 16 * half), 1);
  M::copy(file + 208, lane.halves(0), 2);
  for (int g = 0; g < kSuperGroups; ++g) {
    const Lane group = {lane.params, lane.codes + g * code_bytes(kQ6_K), lane.row};
    const int quarter = g % 4;
    for (int column = 0; column < kGroup; ++column) {
      Byte* low = file + 64 * (g / 4) + 32 * (quarter % 2) + column;
      Byte* high = file + 128 + 32 * (g / 4) + column;
      const int shift = quarter < 2 ? 0 : 4;
      if constexpr (kPack) {
        set_code<6>(group, column, ((*low >> shift) & 15) | (((*high >> (2 * quarter)) & 3) << 4));
      } else {
        const int code = get_code<6>(group, column);
        set_bits(low, shift, 15, code);
        set_bits(high, 2 * quarter, 3, code >> 4);
      }
    }
  }
}

struct Packer {
  std::string_view format;
  Encoding encoding;
  void (*pack)(Byte* file, const Lane& lane);
  void (*unpack)(Byte* file, const Lane& lane);
};

template <Encoding kEncoding>
constexpr Packer simple(std::string_view format) {
  return {format, kEncoding, &move_simple<kEncoding, true>, &move_simple<kEncoding, false>};
}

template <Encoding kEncoding>
constexpr Packer super4(std::string_view format) {
  return {format, kEncoding, &move_super4<kEncoding, true>, &move_super4<kEncoding, false>};
}

constexpr Packer kPackers[] = {
    simple<kQ4_0>("q4_0"), simple<kQ4_1>("q4_1"),
    simple<kQ5_0>("q5_0"), simple<kQ5_1>("q5_1"),
    simple<kQ8_0>("q8_0"), super4<kQ4_K>("q4_k"),
    super4<kQ5_K>("q5_k"), {"q6_k", kQ6_K, &move_q6_k<true>, &move_q6_k<false>},
};

const Packer* find_packer(const quant::Format& format) {
  for (const Packer& packer : kPackers) {
    if (packer.format == format.name) return &packer;
  }
  return nullptr;
}

const Packer& packer_of(const quant::Format& format) {
  const Packer* packer = find_packer(format);
  PAGODA_CHECK(packer != nullptr, "{} has no int8_rows16 layout", format.name);
  return *packer;
}

/// The place of block `block` of row `row`.
Lane lane_of(const Packer& packer, const quant::Format& format, WeightShape shape, std::int64_t row, std::int64_t block,
             Byte* packed) {
  const Encoding e = packer.encoding;
  const std::int64_t groups = shape.k / kGroup;
  const std::int64_t first_group = block * format.block_elements / kGroup;
  Byte* tile = packed + row / kTileRows * tile_bytes(e, groups);
  return {tile + first_group / param_groups(e) * param_bytes(e),
          tile + region_bytes(e, groups) + first_group * code_bytes(e), static_cast<int>(row % kTileRows)};
}

bool supports(const quant::Format& format) { return find_packer(format) != nullptr; }

std::size_t packed_bytes(const quant::Format& format, WeightShape shape) {
  const std::int64_t tiles = (shape.n + kTileRows - 1) / kTileRows;
  return static_cast<std::size_t>(tiles * tile_bytes(packer_of(format).encoding, shape.k / kGroup));
}

void pack(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows == 0 && (num_rows % kTileRows == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const Packer& packer = packer_of(format);
  const std::int64_t bytes = tile_bytes(packer.encoding, shape.k / kGroup);
  const std::int64_t tiles = (num_rows + kTileRows - 1) / kTileRows;
  auto* out = reinterpret_cast<Byte*>(packed);
  // Padding, and rows past the end, are zero: their products are computed and dropped.
  std::memset(out + first_row / kTileRows * bytes, 0, static_cast<std::size_t>(tiles * bytes));
  // The packers' two directions share their signature; this one only reads the file.
  auto* file = reinterpret_cast<Byte*>(const_cast<std::byte*>(file_rows));
  const std::int64_t blocks = shape.k / format.block_elements;
  for (std::int64_t row = first_row; row < first_row + num_rows; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block, file += format.block_bytes) {
      packer.pack(file, lane_of(packer, format, shape, row, block, out));
    }
  }
}

void unpack_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                std::byte* file_row) {
  const Packer& packer = packer_of(format);
  auto* tiles = reinterpret_cast<Byte*>(const_cast<std::byte*>(packed));
  std::memset(file_row, 0, static_cast<std::size_t>(format.row_bytes(shape.k)));
  for (std::int64_t block = 0; block < shape.k / format.block_elements; ++block) {
    packer.unpack(reinterpret_cast<Byte*>(file_row) + block * format.block_bytes,
                  lane_of(packer, format, shape, row, block, tiles));
  }
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  const Packer& packer = packer_of(format);
  auto* tiles = reinterpret_cast<Byte*>(const_cast<std::byte*>(packed));
  for (std::int64_t block = 0; block < shape.k / format.block_elements; ++block) {
    std::array<std::byte, 256> bytes{};
    packer.unpack(reinterpret_cast<Byte*>(bytes.data()), lane_of(packer, format, shape, row, block, tiles));
    format.decode_row(bytes.data(), format.block_elements, out + block * format.block_elements);
  }
}

}  // namespace

const int8_rows16::Encoding* find_int8_encoding(const quant::Format& format) {
  const Packer* packer = find_packer(format);
  return packer == nullptr ? nullptr : &packer->encoding;
}

const Layout kInt8Rows16Layout = {.name = "int8_rows16",
                                  .row_multiple = kTileRows,
                                  .supports = supports,
                                  .packed_bytes = packed_bytes,
                                  .pack = pack,
                                  .unpack_row = unpack_row,
                                  .decode_row = decode_row};

}  // namespace pagoda::kernels
