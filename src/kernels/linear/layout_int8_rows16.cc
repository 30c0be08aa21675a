// Packing into kInt8Rows16Layout and back (int8_rows16.h has the picture). What the bytes of each format mean is said
// in quant/formats/. A group's codes move as words; packing costs a core 0.1 to 1 ns a weight (Zen 4, 2026-11-30), so
// that an 8B model is packed in 1 to 8 s of CPU time.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/linear/int8_formats.h"
#include "kernels/linear/int8_lane.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {
namespace {

using namespace int8_rows16;

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

/// 32 columns' codes of 4 bits, which lie at bit `shift` of 32 bytes.
template <bool kPack>
void move_split_nibbles(Byte* file, int shift, const Lane& group) {
  Byte tile[16];
  if constexpr (!kPack) Mover<kPack>::nibbles(tile, group);
  for (int i = 0; i < 16; ++i) {
    if constexpr (kPack) {
      tile[i] = static_cast<Byte>(((file[i] >> shift) & 15) | ((file[i + 16] >> shift) & 15) << 4);
    } else {
      set_bits(file + i, shift, 15, tile[i]);
      set_bits(file + i + 16, shift, 15, tile[i] >> 4);
    }
  }
  if constexpr (kPack) Mover<kPack>::nibbles(tile, group);
}

/// 32 columns' kBits upper bits, which lie at bit `shift` of 32 bytes: four columns at a time.
template <int kBits, bool kPack>
void move_split_upper_bits(Byte* file, int shift, const Lane& group) {
  constexpr std::uint32_t kMask = 0x01010101u * ((1u << kBits) - 1u);
  constexpr int kVectors = 8 / kBits;
  for (int w = 0; w < kBits; ++w) {
    Byte* tile = group.vector(4 + w);
    std::uint32_t upper = 0;
    if constexpr (!kPack) std::memcpy(&upper, tile, 4);
    for (int v = 0; v < kVectors; ++v) {
      Byte* columns = file + 4 * (kVectors * w + v);
      std::uint32_t bits;
      std::memcpy(&bits, columns, 4);
      if constexpr (kPack) {
        upper |= ((bits >> shift) & kMask) << (kBits * v);
      } else {
        bits = (bits & ~(kMask << shift)) | ((upper >> (kBits * v)) & kMask) << shift;
        std::memcpy(columns, &bits, 4);
      }
    }
    if constexpr (kPack) std::memcpy(tile, &upper, 4);
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
    move_split_nibbles<kPack>(low + 32 * (g / 2), 4 * (g % 2), group);
    if constexpr (kBits == 5) move_split_upper_bits<1, kPack>(high, g, group);
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
    move_split_nibbles<kPack>(file + 64 * (g / 4) + 32 * (quarter % 2), quarter < 2 ? 0 : 4, group);
    move_split_upper_bits<2, kPack>(file + 128 + 32 * (g / 4), 2 * quarter, group);
  }
}

/// mxfp4: e, then nibbles.
template <bool kPack>
void move_mxfp4(Byte* file, const Lane& lane) {
  Mover<kPack>::copy(file, lane.bytes(0), 1);
  Mover<kPack>::nibbles(file + 1, lane);
}

/// iq4_xs: d, then the upper two and the lower four bits of eight scales with 32 added, then nibbles.
template <bool kPack>
void move_iq4_xs(Byte* file, const Lane& lane) {
  Mover<kPack>::copy(file, lane.halves(0), 2);
  for (int g = 0; g < kSuperGroups; ++g) {
    Byte* high = file + 2 + g / 4;
    Byte* low = file + 4 + g / 2;
    Byte* scale = lane.bytes(32 + 16 * g);
    if constexpr (kPack) {
      *scale = static_cast<Byte>((((*low >> (g % 2 * 4)) & 15) | ((*high >> (g % 4 * 2)) & 3) << 4) - 32);
    } else {
      const int stored = static_cast<std::int8_t>(*scale) + 32;
      set_bits(low, g % 2 * 4, 15, stored);
      set_bits(high, g % 4 * 2, 3, stored >> 4);
    }
    Mover<kPack>::nibbles(file + 8 + 16 * g, {lane.params, lane.codes + g * code_bytes(kIQ4_XS), lane.row});
  }
}

/// 32 columns' codes of 4 bits in 16 bytes, in order, the first in the low bits of its byte.
template <bool kPack>
void move_paired_nibbles(Byte* file, const Lane& group) {
  Byte tile[16];
  if constexpr (!kPack) Mover<kPack>::nibbles(tile, group);
  for (int i = 0; i < 8; ++i) {
    const Byte low = kPack ? file[i] : tile[2 * i];
    const Byte high = kPack ? file[i + 8] : tile[2 * i + 1];
    const auto first = static_cast<Byte>((low & 15) | (high & 15) << 4);
    const auto second = static_cast<Byte>((low >> 4) | (high & 0xf0));
    (kPack ? tile[2 * i] : file[i]) = first;
    (kPack ? tile[2 * i + 1] : file[i + 8]) = second;
  }
  if constexpr (kPack) Mover<kPack>::nibbles(tile, group);
}

/// Codes of a block in the order of their columns.
template <int kBits, int kColumns, bool kPack>
void move_codes(Byte* file, const Lane& lane) {
  for (int g = 0; g < kColumns / kGroup; ++g) {
    const Lane group = {lane.params, lane.codes + g * 64 * kBits, lane.row};
    Byte* codes = file + g * kBits * (kGroup / 8);
    if constexpr (kBits == 8) {
      for (int v = 0; v < 8; ++v) Mover<kPack>::copy(codes + 4 * v, group.vector(v), 4);
    } else {
      move_paired_nibbles<kPack>(codes, group);
    }
  }
}

/// Affine: d, m, codes.
template <int kBits, int kColumns, bool kPack>
void move_affine(Byte* file, const Lane& lane) {
  Mover<kPack>::copy(file, lane.halves(0), 2);
  Mover<kPack>::copy(file + 2, lane.halves(32), 2);
  move_codes<kBits, kColumns, kPack>(file + 4, lane);
}

/// Packed integers: d whose lowest byte is the zero point, codes.
template <int kBits, int kColumns, bool kPack>
void move_packed(Byte* file, const Lane& lane) {
  Mover<kPack>::copy(file, lane.words(0), 4);
  move_codes<kBits, kColumns, kPack>(file + 4, lane);
}

/// nvfp4: the tensor's scale, 16 of half groups, codes.
template <bool kPack>
void move_nvfp4(Byte* file, const Lane& lane) {
  Mover<kPack>::copy(file, lane.words(0), 4);
  for (int half = 0; half < 16; ++half) Mover<kPack>::copy(file + 4 + half, lane.bytes(64 + 16 * half), 1);
  move_codes<4, 256, kPack>(file + 20, lane);
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

constexpr Encoding shared_by(Encoding kind, int columns) {
  kind.group_log2 = columns == 32 ? 0 : columns == 64 ? 1 : 2;
  return kind;
}

template <Encoding kKind, int kColumns>
constexpr Packer affine(std::string_view format) {
  constexpr int kBits = kKind.code_bits;
  return {format, shared_by(kKind, kColumns), &move_affine<kBits, kColumns, true>,
          &move_affine<kBits, kColumns, false>};
}

template <Encoding kKind, int kColumns>
constexpr Packer packed(std::string_view format) {
  constexpr int kBits = kKind.code_bits;
  return {format, shared_by(kKind, kColumns), &move_packed<kBits, kColumns, true>,
          &move_packed<kBits, kColumns, false>};
}

constexpr Packer kPackers[] = {
    simple<kQ4_0>("q4_0"),
    simple<kQ4_1>("q4_1"),
    simple<kQ5_0>("q5_0"),
    simple<kQ5_1>("q5_1"),
    simple<kQ8_0>("q8_0"),
    super4<kQ4_K>("q4_k"),
    super4<kQ5_K>("q5_k"),
    {"q6_k", kQ6_K, &move_q6_k<true>, &move_q6_k<false>},
    simple<kIQ4_NL>("iq4_nl"),
    {"iq4_xs", kIQ4_XS, &move_iq4_xs<true>, &move_iq4_xs<false>},
    {"mxfp4", kMXFP4, &move_mxfp4<true>, &move_mxfp4<false>},
    {"nvfp4", kNVFP4, &move_nvfp4<true>, &move_nvfp4<false>},
    affine<kAffine4, 32>("affine4_g32"),
    affine<kAffine4, 64>("affine4_g64"),
    affine<kAffine4, 128>("affine4_g128"),
    affine<kAffine8, 32>("affine8_g32"),
    affine<kAffine8, 64>("affine8_g64"),
    affine<kAffine8, 128>("affine8_g128"),
    affine<kQ4_1, 32>("affine4_g32_f16"),
    affine<kQ4_1, 64>("affine4_g64_f16"),
    affine<kQ4_1, 128>("affine4_g128_f16"),
    packed<kPacked4, 32>("packed4_g32"),
    packed<kPacked4, 64>("packed4_g64"),
    packed<kPacked4, 128>("packed4_g128"),
    packed<kPacked8, 32>("packed8_g32"),
    packed<kPacked8, 64>("packed8_g64"),
    packed<kPacked8, 128>("packed8_g128"),
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

/// Groups of a row, those of a last block that is used in part among them.
std::int64_t stored_groups(const quant::Format& format, std::int64_t k) {
  return round_up(k, format.block_elements) / kGroup;
}

/// Where a block of a tile's rows lies in it.
struct BlockPlace {
  std::int64_t params;
  std::int64_t codes;

  Lane lane(Byte* tile, std::int64_t row) const {
    return {tile + params, tile + codes, static_cast<int>(row % kTileRows)};
  }
};

BlockPlace place_of(const Encoding& e, const quant::Format& format, std::int64_t groups, std::int64_t block) {
  const GroupPlace place = group_place(e, groups, block * format.block_elements / kGroup);
  return {place.params + place.index / param_groups(e) * param_bytes(e), place.codes};
}

bool supports(const quant::Format& format) { return find_packer(format) != nullptr; }

std::size_t packed_bytes(const quant::Format& format, WeightShape shape) {
  const std::int64_t tiles = (shape.n + kTileRows - 1) / kTileRows;
  return static_cast<std::size_t>(tiles * tile_bytes(packer_of(format).encoding, stored_groups(format, shape.k)));
}

void pack(const quant::Format& format, WeightShape shape, std::int64_t first_row, std::int64_t num_rows,
          const std::byte* file_rows, std::byte* packed) {
  PAGODA_CHECK(first_row % kTileRows == 0 && (num_rows % kTileRows == 0 || first_row + num_rows == shape.n),
               "rows {} + {} of {}", first_row, num_rows, shape.n);
  const Packer& packer = packer_of(format);
  const std::int64_t groups = stored_groups(format, shape.k);
  const std::int64_t bytes = tile_bytes(packer.encoding, groups);
  const std::int64_t tiles = (num_rows + kTileRows - 1) / kTileRows;
  auto* out = reinterpret_cast<Byte*>(packed);
  // Padding, and rows past the end, are zero: their products are computed and dropped.
  std::memset(out + first_row / kTileRows * bytes, 0, static_cast<std::size_t>(tiles * bytes));
  // The packers' two directions share their signature; this one only reads the file.
  auto* file = reinterpret_cast<Byte*>(const_cast<std::byte*>(file_rows));
  std::vector<BlockPlace> places;  // the same in every row
  for (std::int64_t block = 0; block < ceil_div(shape.k, format.block_elements); ++block) {
    places.push_back(place_of(packer.encoding, format, groups, block));
  }
  for (std::int64_t row = first_row; row < first_row + num_rows; ++row) {
    Byte* tile = out + row / kTileRows * bytes;
    for (const BlockPlace& place : places) {
      packer.pack(file, place.lane(tile, row));
      file += format.block_bytes;
    }
  }
}

/// Calls `fn(index, lane)` for each block of row `row`.
template <class Fn>
void for_each_block(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, Fn fn) {
  const Encoding& encoding = packer_of(format).encoding;
  const std::int64_t groups = stored_groups(format, shape.k);
  auto* tiles = reinterpret_cast<Byte*>(const_cast<std::byte*>(packed));
  Byte* tile = tiles + row / kTileRows * tile_bytes(encoding, groups);
  for (std::int64_t block = 0; block < ceil_div(shape.k, format.block_elements); ++block) {
    fn(block, place_of(encoding, format, groups, block).lane(tile, row));
  }
}

void unpack_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row,
                std::byte* file_row) {
  const Packer& packer = packer_of(format);
  std::memset(file_row, 0, static_cast<std::size_t>(format.row_bytes(shape.k)));
  for_each_block(format, shape, packed, row, [&](std::int64_t block, const Lane& lane) {
    packer.unpack(reinterpret_cast<Byte*>(file_row) + block * format.block_bytes, lane);
  });
}

void decode_row(const quant::Format& format, WeightShape shape, const std::byte* packed, std::int64_t row, float* out) {
  const Packer& packer = packer_of(format);
  for_each_block(format, shape, packed, row, [&](std::int64_t block, const Lane& lane) {
    std::array<std::byte, 256> bytes{};
    packer.unpack(reinterpret_cast<Byte*>(bytes.data()), lane);
    const std::int64_t first = block * format.block_elements;
    format.decode_row(bytes.data(), std::min(format.block_elements, shape.k - first), out + first);
  });
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
