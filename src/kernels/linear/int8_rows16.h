// How kInt8Rows16Layout lies in memory, for its packer and its kernels. Plain constants only: kernels of one
// instruction set include it.
//
// Rows go in tiles of 16, columns in groups of 32. A tile is a run of chunks of eight groups; the last may have fewer.
// A chunk is its parameters, padded to 64 bytes, then its codes, group after group: one stream, which a CPU's
// prefetching follows by itself (decision 0090). Rows past n are zero bytes.
//
// Codes are the formats' own, unsigned (signed 8-bit ones with the sign bit flipped). The 512 codes of a group and a
// tile are eight vectors of 64: vector v has, at byte 4·r + i, row r's column 4·v + i. They are stored as
//   4 bits: four vectors; vector v's low nibble belongs to vector v, its high one to vector v + 4;
//   5 bits: the same, then one vector whose bit v is the fifth bit of vector v;
//   6 bits: the same, then two vectors w with bits 2·i, 2·i + 1 the upper bits of vector 4·w + i;
//   8 bits: eight vectors.
// Codes of 4 bits may be places in a table of 16 whole numbers.
//
// Parameters, arrays of 16 (one a row), f16 unless said; formats with groups of 64 or 128 columns have one block of
// them for two or four groups here:
//   kScale         a group: d
//   kScaleMinimum  a group: d, m
//   kBf16Pair      a group: d, m, both bf16
//   kFloatZero     a group: d as f32, whose lowest byte is z; m = -d·z, exact
//   kExponent      a group: 16 bytes e; d = 2^(e - 128), half the scale, for tables of doubled values
//   kSuper4        eight groups: d, dmin, then for each group 16 bytes of scale codes, 16 bytes of minimum codes
//   kSuper6        eight groups: d, then for each half group 16 bytes of signed scale codes
//   kSuper8        eight groups: d, then for each group 16 bytes of signed scale codes
//   kSuperE4m3     eight groups: d as f32, then for each half group 16 bytes of e4m3 scales; d·s/2, as in kExponent
#pragma once

#include <cstdint>

namespace pagoda::kernels::int8_rows16 {

inline constexpr int kTileRows = 16;
inline constexpr int kGroup = 32;
inline constexpr std::int64_t kSuperGroups = 8;

enum class Params : std::uint8_t {
  kScale,
  kScaleMinimum,
  kBf16Pair,
  kFloatZero,
  kExponent,
  kSuper4,
  kSuper6,
  kSuper8,
  kSuperE4m3
};

enum class Table : std::uint8_t {
  kNone,
  kIq4,   ///< the values of iq4_nl
  kE2m1,  ///< those of e2m1, doubled
};

/// What a format looks like here.
struct Encoding {
  Params params;
  int code_bits;
  int offset_log2;  ///< a weight is d·(code − 2^offset_log2); −1: d·code + m. A table's entries have the offset added
  Table table = Table::kNone;
  int group_log2 = 0;  ///< parameters are those of 2^this groups, where they are not of eight

  constexpr bool operator==(const Encoding&) const = default;

  /// The same, but for how many groups share parameters: what a kernel is compiled for.
  constexpr Encoding kind() const { return {params, code_bits, offset_log2, table, 0}; }
};

inline constexpr Encoding kQ4_0 = {Params::kScale, 4, 3};
inline constexpr Encoding kQ4_1 = {Params::kScaleMinimum, 4, -1};
inline constexpr Encoding kQ5_0 = {Params::kScale, 5, 4};
inline constexpr Encoding kQ5_1 = {Params::kScaleMinimum, 5, -1};
inline constexpr Encoding kQ8_0 = {Params::kScale, 8, 7};
inline constexpr Encoding kQ4_K = {Params::kSuper4, 4, -1};
inline constexpr Encoding kQ5_K = {Params::kSuper4, 5, -1};
inline constexpr Encoding kQ6_K = {Params::kSuper6, 6, 5};
inline constexpr Encoding kIQ4_NL = {Params::kScale, 4, 7, Table::kIq4};
inline constexpr Encoding kIQ4_XS = {Params::kSuper8, 4, 7, Table::kIq4};
inline constexpr Encoding kMXFP4 = {Params::kExponent, 4, 4, Table::kE2m1};
inline constexpr Encoding kNVFP4 = {Params::kSuperE4m3, 4, 4, Table::kE2m1};
inline constexpr Encoding kAffine4 = {Params::kBf16Pair, 4, -1};
inline constexpr Encoding kAffine8 = {Params::kBf16Pair, 8, -1};
inline constexpr Encoding kPacked4 = {Params::kFloatZero, 4, -1};
inline constexpr Encoding kPacked8 = {Params::kFloatZero, 8, -1};

/// Every kind of encoding that kernels are compiled for.
inline constexpr Encoding kKinds[] = {kQ4_0,   kQ4_1,   kQ5_0,  kQ5_1,  kQ8_0,    kQ4_K,    kQ5_K,    kQ6_K,
                                      kIQ4_NL, kIQ4_XS, kMXFP4, kNVFP4, kAffine4, kAffine8, kPacked4, kPacked8};

/// Bytes of a tile's codes for one group.
constexpr std::int64_t code_bytes(Encoding e) { return e.code_bits * 64; }

/// Groups that share one block of parameters, at most a chunk, and that block's bytes.
constexpr bool is_super(Encoding e) { return e.params >= Params::kSuper4; }
constexpr std::int64_t param_groups(Encoding e) { return is_super(e) ? kSuperGroups : 1 << e.group_log2; }
constexpr std::int64_t param_bytes(Encoding e) {
  constexpr std::int64_t bytes[] = {32,
                                    64,
                                    64,
                                    64,
                                    16,
                                    64 + kSuperGroups * 32,
                                    32 + kSuperGroups * 32,
                                    32 + kSuperGroups * 16,
                                    64 + kSuperGroups * 32};
  return bytes[static_cast<int>(e.params)];
}

/// Scales of a group: one, or one for each half.
constexpr int scales_a_group(Encoding e) {
  return e.params == Params::kSuper6 || e.params == Params::kSuperE4m3 ? 2 : 1;
}
constexpr bool has_minimum(Encoding e) { return e.offset_log2 < 0; }

/// The entries of an encoding's table with its offset added, at most 8 bits, unsigned.
struct TableBytes {
  alignas(16) std::uint8_t bytes[16];
};
constexpr TableBytes table_bytes(Encoding e) {
  constexpr int iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  constexpr int e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  TableBytes table{};
  for (int code = 0; code < 16 && e.table != Table::kNone; ++code) {
    const int value = (e.table == Table::kIq4 ? iq4 : e2m1)[code] + (1 << e.offset_log2);
    table.bytes[code] = static_cast<std::uint8_t>(value);
  }
  return table;
}

/// Groups of a chunk: those of a block of parameters, or so many blocks that they fill 64 bytes.
constexpr std::int64_t chunk_groups(Encoding e) {
  return is_super(e) ? kSuperGroups : param_groups(e) * (64 / param_bytes(e));
}

/// Bytes of the parameters of a chunk of `groups` groups, of such a chunk, and of a tile.
constexpr std::int64_t chunk_params(Encoding e, std::int64_t groups) {
  return ((groups + param_groups(e) - 1) / param_groups(e) * param_bytes(e) + 63) / 64 * 64;
}
constexpr std::int64_t chunk_bytes(Encoding e, std::int64_t groups) {
  return chunk_params(e, groups) + groups * code_bytes(e);
}
constexpr std::int64_t tile_bytes(Encoding e, std::int64_t groups) {
  const std::int64_t chunk = chunk_groups(e);
  return groups / chunk * chunk_bytes(e, chunk) + chunk_bytes(e, groups % chunk);
}

/// Where a group lies in a tile of `groups` groups.
struct GroupPlace {
  std::int64_t params;  ///< offset of its chunk's parameters
  std::int64_t codes;   ///< offset of its codes
  std::int64_t index;   ///< in its chunk
};
constexpr GroupPlace group_place(Encoding e, std::int64_t groups, std::int64_t group) {
  const std::int64_t chunk = chunk_groups(e);
  const std::int64_t first = group / chunk * chunk;
  const std::int64_t in_chunk = groups - first < chunk ? groups - first : chunk;
  const std::int64_t params = group / chunk * chunk_bytes(e, chunk);
  return {params, params + chunk_params(e, in_chunk) + (group - first) * code_bytes(e), group - first};
}

}  // namespace pagoda::kernels::int8_rows16
