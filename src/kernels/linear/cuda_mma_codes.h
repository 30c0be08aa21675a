// The layout mma_codes, shared by host and device: weights whose formats state a coding (quant/formats/coding.h), in
// the order of tensor-core fragments, at the format's own weight. First all codes, then, from a multiple of 256 bytes
// on, all scales.
//
// Codes: tiles of 16 rows one after the other, in a tile units of 64 columns, 128 · bits bytes each. A unit is four
// steps s of 16 columns; lane 4·r + quad of a warp has what the four registers i of a product of 16 × 8 × 16 take: row
// r + 8·(i % 2), columns 16s + 8·(i / 2) + 2·quad + e, e = 0, 1. A unit is made of planes:
//
//   bits   planes, bytes of a lane
//   4      word s (16): register i at bits 4i and 16 + 4i
//   5      the low four bits as 4 (16), the high bits (4): at bits 4s + i and 16 + 4s + i
//   6      the low four bits as 4 (16), the high bits (8): word s / 2, at bits 8·(s % 2) + 2i and 16 more
//   2, 3   as the high bits of 6 (8), and of 5 (4)
//   8      whole numbers: low four bits as 4 (16), high four bits as 4 (16); floats: steps 0 and 1 (16), 2 and 3 (16),
//   of
//          a step a word of row r and one of row r + 8: registers 0 and 1 have bytes 1 and 3, registers 2 and 3 bytes
//          0, 2
//
// Scales: tiles again, in a tile spans of max(group, 64) columns, or of 256 where these share something (super). In a
// span first what is shared, by r and h; then, for each max(group, 64) columns, by r, group and h, scale and offset. So
// a lane finds what it needs of 64 columns in one vector of 4 to 16 bytes. Scales of e4m3 lie as e5m3, for which see
// below.
#pragma once

#include "quant/formats/coding.h"
#include "quant/formats/iq4_nl.h"

namespace pagoda::kernels {

using quant::Coding;

constexpr int kUnitColumns = 64;
constexpr int kTileRows16 = 16;

PAGODA_SHARED constexpr int unit_bytes(const Coding& coding) { return 128 * coding.bits; }

PAGODA_SHARED constexpr bool is_float_code(const Coding& coding) {
  return coding.table == quant::CodeTable::kE4m3 || coding.table == quant::CodeTable::kE5m2;
}

PAGODA_SHARED constexpr int scale_bytes(const Coding& coding) {
  switch (coding.scale) {
    case quant::ScaleType::kF32:
      return 4;
    case quant::ScaleType::kF16:
    case quant::ScaleType::kBf16:
      return 2;
    default:
      return 1;
  }
}

/// Of a group's scale and offset.
PAGODA_SHARED constexpr int entry_bytes(const Coding& coding) {
  const bool offset = coding.offset == quant::OffsetType::kValue || coding.offset == quant::OffsetType::kMinimum;
  return scale_bytes(coding) * (offset ? 2 : 1);
}

PAGODA_SHARED constexpr int super_bytes(const Coding& coding) {
  if (coding.super == quant::SuperScale::kNone) return 0;
  return coding.super == quant::SuperScale::kF16 ? 2 : 4;
}

/// Columns whose scales lie together.
PAGODA_SHARED constexpr int sub_span_columns(const Coding& coding) {
  return coding.group < kUnitColumns ? kUnitColumns : coding.group;
}
PAGODA_SHARED constexpr int sub_span_groups(const Coding& coding) { return sub_span_columns(coding) / coding.group; }
PAGODA_SHARED constexpr int sub_span_bytes(const Coding& coding) {
  return sub_span_groups(coding) * kTileRows16 * entry_bytes(coding);
}
PAGODA_SHARED constexpr int span_columns(const Coding& coding) {
  return coding.super == quant::SuperScale::kNone ? sub_span_columns(coding) : quant::kSuperColumns;
}
PAGODA_SHARED constexpr int span_bytes(const Coding& coding) {
  return kTileRows16 * super_bytes(coding) + span_columns(coding) / sub_span_columns(coding) * sub_span_bytes(coding);
}

PAGODA_SHARED std::int64_t num_units(std::int64_t k) { return (k + kUnitColumns - 1) / kUnitColumns; }
PAGODA_SHARED std::int64_t num_spans(const Coding& coding, std::int64_t k) {
  return (k + span_columns(coding) - 1) / span_columns(coding);
}
PAGODA_SHARED std::int64_t num_tiles16(std::int64_t n) { return (n + kTileRows16 - 1) / kTileRows16; }

/// Whether scales are binary16, or products of one: such weights take x of f16.
PAGODA_SHARED constexpr bool has_f16_scales(const Coding& coding) {
  return coding.scale == quant::ScaleType::kF16 || coding.super == quant::SuperScale::kF16 ||
         coding.super == quant::SuperScale::kF16Pair;
}

/// Where the scales begin.
PAGODA_SHARED std::int64_t mma_codes_scales_offset(const Coding& coding, std::int64_t n, std::int64_t k) {
  return num_tiles16(n) * num_units(k) * unit_bytes(coding);
}
PAGODA_SHARED std::int64_t mma_codes_bytes(const Coding& coding, std::int64_t n, std::int64_t k) {
  return mma_codes_scales_offset(coding, n, k) + num_tiles16(n) * num_spans(coding, k) * span_bytes(coding);
}

/// Column, from the unit's first, of element e of a register.
PAGODA_SHARED constexpr int column_of_register(int step, int quad, int reg, int element) {
  return 16 * step + 8 * (reg / 2) + 2 * quad + element;
}

/// Bytes of a unit's first plane. The second begins there.
PAGODA_SHARED constexpr int low_plane_bytes(const Coding& coding) { return coding.bits < 4 ? 256 : 512; }

// Codes of four bits, so that few instructions make bf16 of them. Whole numbers lie one after the other in the half of
// a word that has four of them. e2m1 lies as bf16 has it, 2^126 too small (sign, and the lowest bits of the exponent
// and the highest of the mantissa), turned to the left by 0, 4 and 26 for registers 0, 1 and 2. That leaves four bits
// of each half. Register 3 of an even step and of the next one lie in a third word, turned by 8 and by 30: half of its
// bits are what the even step's word has left, the others, turned by 2, what the odd step's has.
inline constexpr std::uint32_t kE2m1Bits = 0x81c081c0u;
inline constexpr std::uint32_t kE2m1Left = 0x60306030u;  ///< of a word, without registers 0, 1 and 2

PAGODA_SHARED constexpr int e2m1_turn(int step, int reg) {
  return reg == 0 ? 0 : reg == 1 ? 4 : reg == 2 ? 26 : step % 2 == 0 ? 8 : 30;
}
PAGODA_SHARED constexpr std::uint32_t turn_left(std::uint32_t word, int by) {
  return by == 0 ? word : word << by | word >> (32 - by);
}
PAGODA_SHARED constexpr std::uint32_t turn_right(std::uint32_t word, int by) {
  return by == 0 ? word : word >> by | word << (32 - by);
}
/// The third word of two steps.
PAGODA_SHARED constexpr std::uint32_t e2m1_third(std::uint32_t even, std::uint32_t odd) {
  return (even & kE2m1Left) | (turn_left(odd, 2) & ~kE2m1Left);
}

/// A lane's codes of a unit, as they are stored.
struct LaneCodes {
  std::uint32_t nibbles[8];  ///< 4, 5, 6 bits: four words; 8 bits: eight
  std::uint32_t twos[2];     ///< 2, 3, 6 bits
  std::uint32_t ones;        ///< 3, 5 bits
};

// Scales of e4m3 beside codes with a sign lie so that a shift and an addition make floats of them, with five bits of
// exponent and neither sign, nor zero, nor NaN: their sign is the codes', those of a scale of zero are zeros, and NaN
// is what 256 columns share, since a row's sums are NaN in any case.
inline constexpr int kE5m3Bias = 10;  ///< byte b is (1 + b % 8 / 8) · 2^(b / 8 - 10)

PAGODA_SHARED constexpr bool has_e5m3_scales(const Coding& coding) { return coding.scale == quant::ScaleType::kE4m3; }

PAGODA_SHARED std::uint32_t e5m3_of_e4m3(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fu;
  if (magnitude >= 8) return magnitude + (3u << 3);
  if (magnitude == 0) return 0;
  const std::uint32_t highest = magnitude >= 4 ? 2 : magnitude >= 2 ? 1 : 0;
  return (highest + 1) << 3 | (magnitude << (3 - highest) & 7u);
}
PAGODA_SHARED float e5m3_to_float(std::uint32_t byte) {
  return float_of_bits((byte << 20) + (static_cast<std::uint32_t>(127 - kE5m3Bias) << 23));
}
PAGODA_SHARED constexpr bool is_e4m3_nan(std::uint32_t bits) { return (bits & 0x7fu) == 0x7fu; }

/// A code of e2m1 with what e5m3 lacks of its scale.
PAGODA_SHARED constexpr std::uint32_t e2m1_under_scale(std::uint32_t code, std::uint32_t e4m3_scale) {
  const std::uint32_t sign = (code & 8u) ^ (e4m3_scale >> 4 & 8u);
  return (e4m3_scale & 0x7fu) == 0 ? sign : sign | (code & 7u);
}

/// Adds a code to a lane's, which begin as zeros.
PAGODA_SHARED void place_code(const Coding& coding, LaneCodes& lane, int step, int reg, int element,
                              std::uint32_t code) {
  const int upper = 16 * element;
  if (is_float_code(coding)) {
    lane.nibbles[2 * step + reg % 2] |= code << (upper + (reg < 2 ? 8 : 0));
    return;
  }
  const std::uint32_t low = coding.bits < 4 ? code & 3u : code & 15u;
  if (coding.table == quant::CodeTable::kE2m1) {
    const std::uint32_t bits = turn_left((low & 7u) << (6 + upper) | (low >> 3) << (15 + upper), e2m1_turn(step, reg));
    if (reg < 3) {
      lane.nibbles[step] |= bits;
    } else {
      lane.nibbles[step / 2 * 2] |= bits & kE2m1Left;
      lane.nibbles[step / 2 * 2 + 1] |= turn_right(bits & ~kE2m1Left, 2);
    }
  } else if (coding.table == quant::CodeTable::kIq4) {
    lane.nibbles[step] |= low << (4 * (2 * reg + element));
  } else if (coding.bits < 4) {
    lane.twos[step / 2] |= low << (upper + 8 * (step % 2) + 2 * reg);
  } else {
    lane.nibbles[step] |= low << (upper + 4 * reg);
  }
  switch (coding.bits) {
    case 3:
      lane.ones |= (code >> 2 & 1u) << (upper + 4 * step + reg);
      break;
    case 5:
      lane.ones |= (code >> 4 & 1u) << (upper + 4 * step + reg);
      break;
    case 6:
      lane.twos[step / 2] |= (code >> 4 & 3u) << (upper + 8 * (step % 2) + 2 * reg);
      break;
    case 8:
      lane.nibbles[4 + step] |= (code >> 4 & 15u) << (upper + 4 * reg);
      break;
    default:
      break;
  }
}

/// The code again: place_code's inverse.
PAGODA_SHARED std::uint32_t code_of(const Coding& coding, const LaneCodes& lane, int step, int reg, int element) {
  const int upper = 16 * element;
  if (is_float_code(coding)) {
    return lane.nibbles[2 * step + reg % 2] >> (upper + (reg < 2 ? 8 : 0)) & 255u;
  }
  const std::uint32_t one = lane.ones >> (upper + 4 * step + reg) & 1u;
  const std::uint32_t two = lane.twos[step / 2] >> (upper + 8 * (step % 2) + 2 * reg) & 3u;
  if (coding.bits == 2) return two;
  if (coding.bits == 3) return two | one << 2;
  std::uint32_t low = 0;
  if (coding.table == quant::CodeTable::kE2m1) {
    const std::uint32_t* words = lane.nibbles + step / 2 * 2;
    const std::uint32_t bits =
        turn_right(reg < 3 ? words[step % 2] : e2m1_third(words[0], words[1]), e2m1_turn(step, reg)) >> upper;
    low = (bits >> 6 & 7u) | (bits >> 15 & 1u) << 3;
  } else if (coding.table == quant::CodeTable::kIq4) {
    low = lane.nibbles[step] >> (4 * (2 * reg + element)) & 15u;
  } else {
    low = lane.nibbles[step] >> (upper + 4 * reg) & 15u;
  }
  if (coding.bits == 5) return low | one << 4;
  if (coding.bits == 6) return low | two << 4;
  if (coding.bits == 8) return low | (lane.nibbles[4 + step] >> (upper + 4 * reg) & 15u) << 4;
  return low;
}

/// Writes a lane's codes to its places in a unit, and reads them.
PAGODA_SHARED void store_lane(const Coding& coding, const LaneCodes& codes, int lane, std::uint8_t* unit) {
  auto* words = reinterpret_cast<std::uint32_t*>(unit);
  if (coding.bits >= 4) {
    for (int i = 0; i < (coding.bits == 8 ? 8 : 4); ++i) words[i / 4 * 128 + lane * 4 + i % 4] = codes.nibbles[i];
  }
  const bool twos_first = coding.bits < 4;
  if (twos_first || coding.bits == 6) {
    for (int i = 0; i < 2; ++i) words[(twos_first ? 0 : 128) + lane * 2 + i] = codes.twos[i];
  }
  if (coding.bits == 3 || coding.bits == 5) words[low_plane_bytes(coding) / 4 + lane] = codes.ones;
}
PAGODA_SHARED LaneCodes load_lane(const Coding& coding, int lane, const std::uint8_t* unit) {
  LaneCodes codes{};
  const auto* words = reinterpret_cast<const std::uint32_t*>(unit);
  if (coding.bits >= 4) {
    for (int i = 0; i < (coding.bits == 8 ? 8 : 4); ++i) codes.nibbles[i] = words[i / 4 * 128 + lane * 4 + i % 4];
  }
  const bool twos_first = coding.bits < 4;
  if (twos_first || coding.bits == 6) {
    for (int i = 0; i < 2; ++i) codes.twos[i] = words[(twos_first ? 0 : 128) + lane * 2 + i];
  }
  if (coding.bits == 3 || coding.bits == 5) codes.ones = words[low_plane_bytes(coding) / 4 + lane];
  return codes;
}

/// Where the entry of a group of a row lies, in bytes from the scales' beginning; a column of the group is given.
PAGODA_SHARED std::int64_t entry_offset(const Coding& coding, std::int64_t k, std::int64_t row, std::int64_t column) {
  const std::int64_t span = row / 16 * num_spans(coding, k) + column / span_columns(coding);
  const auto within = static_cast<int>(column % span_columns(coding));
  const int sub = within / sub_span_columns(coding), group = within % sub_span_columns(coding) / coding.group;
  const auto r = static_cast<int>(row % 8), h = static_cast<int>(row % 16 / 8);
  return span * span_bytes(coding) + kTileRows16 * super_bytes(coding) + sub * sub_span_bytes(coding) +
         ((r * sub_span_groups(coding) + group) * 2 + h) * entry_bytes(coding);
}
PAGODA_SHARED std::int64_t super_offset(const Coding& coding, std::int64_t k, std::int64_t row, std::int64_t column) {
  const std::int64_t span = row / 16 * num_spans(coding, k) + column / span_columns(coding);
  return span * span_bytes(coding) + (row % 8 * 2 + row % 16 / 8) * super_bytes(coding);
}

PAGODA_SHARED void store_bits(std::uint8_t* to, std::uint32_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(bits >> (8 * i));
}
PAGODA_SHARED std::uint32_t load_bits(const std::uint8_t* from, int bytes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < bytes; ++i) bits |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return bits;
}

PAGODA_SHARED float table_value(quant::CodeTable table, std::uint32_t code) {
  switch (table) {
    case quant::CodeTable::kInteger:
      return static_cast<float>(code);
    case quant::CodeTable::kE2m1:
      return fp4_e2m1_to_float(static_cast<std::uint8_t>(code));
    case quant::CodeTable::kE4m3:
      return fp8_e4m3_to_float(static_cast<std::uint8_t>(code));
    case quant::CodeTable::kE5m2:
      return fp8_e5m2_to_float(static_cast<std::uint8_t>(code));
    case quant::CodeTable::kIq4:
      return static_cast<float>(quant::iq4_value(static_cast<int>(code)));
  }
  return 0;
}

/// One element of a packed matrix, rounded as the formats' own `decode` rounds it.
PAGODA_SHARED float mma_codes_value(const Coding& coding, const std::uint8_t* packed, std::int64_t n, std::int64_t k,
                                    std::int64_t row, std::int64_t column) {
  const std::uint8_t* unit = packed + (row / 16 * num_units(k) + column / kUnitColumns) * unit_bytes(coding);
  const auto within = static_cast<int>(column % 16);
  const LaneCodes lane = load_lane(coding, static_cast<int>(row % 8) * 4 + within % 8 / 2, unit);
  const int reg = within / 8 * 2 + static_cast<int>(row % 16 / 8);
  const std::uint32_t code = code_of(coding, lane, static_cast<int>(column % 64 / 16), reg, within % 2);

  const std::uint8_t* scales = packed + mma_codes_scales_offset(coding, n, k);
  const std::uint8_t* entry = scales + entry_offset(coding, k, row, column);
  const std::uint32_t scale_bits = load_bits(entry, scale_bytes(coding));
  const std::uint32_t offset_bits = load_bits(entry + scale_bytes(coding), entry_bytes(coding) - scale_bytes(coding));
  const std::uint32_t super_bits = load_bits(scales + super_offset(coding, k, row, column), super_bytes(coding));
  const float scale = has_e5m3_scales(coding) ? e5m3_to_float(scale_bits) : quant::scale_value(coding, scale_bits);
  float value = table_value(coding.table, code) - static_cast<float>(coding.bias);
  if (coding.offset == quant::OffsetType::kZero) return (value - static_cast<float>(scale_bits & 255u)) * scale;
  value = value * scale * quant::super_value(coding.super, super_bits);
  if (coding.offset == quant::OffsetType::kNone) return value;  // the sign of a zero stays
  return value + quant::offset_value(coding, scale, scale_bits, offset_bits, super_bits);
}

/// Packs what lane `lane` has of a unit: its codes and, by the first 16 lanes, the scales of a row that begin there.
/// `rows` are those of the tiles from `first_row` (a multiple of 16) on, as the format F has them, of n in all.
template <class F>
PAGODA_SHARED void pack_mma_codes(const std::uint8_t* rows, std::int64_t row_bytes, std::int64_t first_row,
                                  std::int64_t num_rows, std::int64_t n, std::int64_t k, std::int64_t tile,
                                  std::int64_t unit, int lane, std::uint8_t* packed) {
  constexpr Coding kCoding = F::kCoding;
  static_assert(!has_e5m3_scales(kCoding) ||
                (kCoding.table == quant::CodeTable::kE2m1 && kCoding.super == quant::SuperScale::kF32));
  constexpr std::uint32_t kFloatNan = 0x7fc00000u;
  const auto block_of = [&](std::int64_t row, std::int64_t column) -> const typename F::Block& {
    const auto* blocks = reinterpret_cast<const typename F::Block*>(rows + row * row_bytes);
    return blocks[column / F::kBlockElements];
  };
  LaneCodes codes{};
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = tile * 16 + half * 8 + lane / 4;
    if (row >= num_rows) break;
    for (int i = 0; i < 16; ++i) {
      const int step = i / 4, reg = i / 2 % 2 * 2 + half, element = i % 2;
      const std::int64_t column = unit * kUnitColumns + column_of_register(step, lane % 4, reg, element);
      if (column >= k) continue;
      const auto& block = block_of(row, column);
      const auto within = static_cast<int>(column % F::kBlockElements);
      auto code = static_cast<std::uint32_t>(F::code(block, within));
      if constexpr (has_e5m3_scales(kCoding)) {
        code = e2m1_under_scale(code, F::scale_bits(block, within / kCoding.group));
      }
      place_code(kCoding, codes, step, reg, element, code);
    }
  }
  const std::int64_t place = (first_row / 16 + tile) * num_units(k) + unit;
  store_lane(kCoding, codes, lane, packed + place * unit_bytes(kCoding));

  if (lane >= 16) return;
  std::uint8_t* scales = packed + mma_codes_scales_offset(kCoding, n, k);
  const std::int64_t row = tile * 16 + lane;
  // Rows and columns past the matrix have zeros for scales: their sums stay finite.
  const std::int64_t first = unit * kUnitColumns;
  if constexpr (kCoding.super != quant::SuperScale::kNone) {
    if (first % span_columns(kCoding) == 0) {
      std::uint32_t bits = row < num_rows ? F::super_bits(block_of(row, first)) : 0;
      if constexpr (has_e5m3_scales(kCoding)) {
        for (std::int64_t column = first; row < num_rows && column < k && column < first + span_columns(kCoding);
             column += kCoding.group) {
          const auto group = static_cast<int>(column % F::kBlockElements / kCoding.group);
          if (is_e4m3_nan(F::scale_bits(block_of(row, column), group))) bits = kFloatNan;
        }
      }
      store_bits(scales + super_offset(kCoding, k, first_row + row, first), bits, super_bytes(kCoding));
    }
  }
  // The last unit of a row also ends its span.
  std::int64_t end = first + kUnitColumns;
  if (unit + 1 == num_units(k)) end = num_spans(kCoding, k) * span_columns(kCoding);
  for (std::int64_t column = first; column < end; column += kCoding.group) {
    if (column % kCoding.group != 0) break;  // a group that began in an earlier unit
    std::uint8_t* entry = scales + entry_offset(kCoding, k, first_row + row, column);
    const bool inside = row < num_rows && column < k;
    const auto group = static_cast<int>(column % F::kBlockElements / kCoding.group);
    std::uint32_t scale = inside ? F::scale_bits(block_of(row, column), group) : 0;
    if constexpr (has_e5m3_scales(kCoding)) scale = e5m3_of_e4m3(scale);
    store_bits(entry, scale, scale_bytes(kCoding));
    if constexpr (entry_bytes(kCoding) > scale_bytes(kCoding)) {
      store_bits(entry + scale_bytes(kCoding), inside ? F::offset_bits(block_of(row, column), group) : 0,
                 entry_bytes(kCoding) - scale_bytes(kCoding));
    }
  }
}

}  // namespace pagoda::kernels
