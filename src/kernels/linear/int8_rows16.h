// How kInt8Rows16Layout lies in memory, for its packer and its kernels. Plain constants only: kernels of one
// instruction set include it.
//
// Rows go in tiles of 16, columns in groups of 32. A tile is a region of parameters, padded to 64 bytes, then a region
// of codes, group after group. Rows past n are zero bytes.
//
// Codes are the formats' own, unsigned (signed 8-bit ones with the sign bit flipped). The 512 codes of a group and a
// tile are eight vectors of 64: vector v has, at byte 4·r + i, row r's column 4·v + i. They are stored as
//   4 bits: four vectors; vector v's low nibble belongs to vector v, its high one to vector v + 4;
//   5 bits: the same, then one vector whose bit v is the fifth bit of vector v;
//   6 bits: the same, then two vectors w with bits 2·i, 2·i + 1 the upper bits of vector 4·w + i;
//   8 bits: eight vectors.
//
// Parameters, arrays of 16 (one a row), f16 unless said:
//   kScale         a group: d
//   kScaleMinimum  a group: d, m
//   kSuper4        eight groups: d, dmin, then for each group 16 bytes of scale codes, 16 bytes of minimum codes
//   kSuper6        eight groups: d, then for each half group 16 bytes of signed scale codes
#pragma once

#include <cstdint>

namespace pagoda::kernels::int8_rows16 {

inline constexpr int kTileRows = 16;
inline constexpr int kGroup = 32;
inline constexpr int kSuperGroups = 8;

enum class Params : std::uint8_t { kScale, kScaleMinimum, kSuper4, kSuper6 };

/// What a format looks like here.
struct Encoding {
  Params params;
  int code_bits;
  int offset_log2;  ///< a weight is d·(code − 2^offset_log2); −1: d·code + m
};

inline constexpr Encoding kQ4_0 = {Params::kScale, 4, 3};
inline constexpr Encoding kQ4_1 = {Params::kScaleMinimum, 4, -1};
inline constexpr Encoding kQ5_0 = {Params::kScale, 5, 4};
inline constexpr Encoding kQ5_1 = {Params::kScaleMinimum, 5, -1};
inline constexpr Encoding kQ8_0 = {Params::kScale, 8, 7};
inline constexpr Encoding kQ4_K = {Params::kSuper4, 4, -1};
inline constexpr Encoding kQ5_K = {Params::kSuper4, 5, -1};
inline constexpr Encoding kQ6_K = {Params::kSuper6, 6, 5};

/// Bytes of a tile's codes for one group.
constexpr std::int64_t code_bytes(Encoding e) { return e.code_bits * 64; }

/// Groups that share one block of parameters, and that block's bytes.
constexpr std::int64_t param_groups(Encoding e) {
  return e.params == Params::kScale || e.params == Params::kScaleMinimum ? 1 : kSuperGroups;
}
constexpr std::int64_t param_bytes(Encoding e) {
  constexpr std::int64_t bytes[] = {32, 64, 64 + kSuperGroups * 32, 32 + kSuperGroups * 32};
  return bytes[static_cast<int>(e.params)];
}

/// Bytes of the whole parameter region of a tile, and of a tile.
constexpr std::int64_t region_bytes(Encoding e, std::int64_t groups) {
  return (groups / param_groups(e) * param_bytes(e) + 63) / 64 * 64;
}
constexpr std::int64_t tile_bytes(Encoding e, std::int64_t groups) {
  return region_bytes(e, groups) + groups * code_bytes(e);
}

}  // namespace pagoda::kernels::int8_rows16
