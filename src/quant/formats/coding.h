// What most formats have in common, for kernels that know no format by name: w = s·(table[q] - bias) + o, q a code of a
// few bits, s and o of a group of neighbouring columns. A format that says so has, beside `decode`,
//
//   static constexpr Coding kCoding;
//   code(block, element) → int                 q, an index into the table
//   scale_bits(block, group) → std::uint32_t   s, as the bits of kCoding.scale; `group` counts within the block
//   offset_bits(block, group)                  o, if kCoding.offset says kValue or kMinimum
//   super_bits(block)                          if kCoding.super is not kNone
//
// The equation holds but for rounding: kernels add s·Σ(table[q] - bias)·x and o·Σx in float.
#pragma once

#include "base/numbers.h"

namespace pagoda::quant {

enum class CodeTable : std::uint8_t {
  kInteger,  ///< table[q] = q
  kE2m1,
  kE4m3,
  kE5m2,
  kIq4,  ///< 16 whole numbers (iq4_nl.h)
};

enum class ScaleType : std::uint8_t {
  kF16,
  kBf16,
  kF32,
  kE8m0,
  kE4m3,
  kU8,  ///< times what 256 columns share (SuperScale)
  kS8,
};

enum class OffsetType : std::uint8_t {
  kNone,
  kValue,    ///< o, of the scale's type
  kZero,     ///< o = -s·z: the low 8 bits of an F32 scale are z
  kMinimum,  ///< o = -u·d: u of 8 bits, d the second that 256 columns share
};

/// What 256 columns, a block of these formats, share.
enum class SuperScale : std::uint8_t {
  kNone,
  kF16,      ///< a factor of their scales
  kF16Pair,  ///< low half: the same; high half: d of kMinimum
  kF32,
};

struct Coding {
  int bits = 0;
  int group = 0;  ///< 16, 32, 64 or 128 columns
  CodeTable table = CodeTable::kInteger;
  int bias = 0;
  ScaleType scale = ScaleType::kF16;
  OffsetType offset = OffsetType::kNone;
  SuperScale super = SuperScale::kNone;

  bool operator==(const Coding&) const = default;
};

constexpr int kSuperColumns = 256;

/// A scale from its bits; of kF32 with zero points, without these.
PAGODA_SHARED float scale_value(const Coding& coding, std::uint32_t bits) {
  switch (coding.scale) {
    case ScaleType::kF16:
      return f16_to_float(static_cast<std::uint16_t>(bits));
    case ScaleType::kBf16:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    case ScaleType::kF32:
      return float_of_bits(coding.offset == OffsetType::kZero ? bits & 0xffffff00u : bits);
    case ScaleType::kE8m0:
      return e8m0_to_float(static_cast<std::uint8_t>(bits));
    case ScaleType::kE4m3:
      return fp8_e4m3_to_float(static_cast<std::uint8_t>(bits));
    case ScaleType::kU8:
      return static_cast<float>(bits & 255u);
    case ScaleType::kS8:
      return static_cast<float>(static_cast<std::int8_t>(bits));
  }
  return 0;
}

/// What the scales of 256 columns are multiplied with.
PAGODA_SHARED float super_value(SuperScale super, std::uint32_t bits) {
  if (super == SuperScale::kNone) return 1;
  return super == SuperScale::kF32 ? float_of_bits(bits) : f16_to_float(static_cast<std::uint16_t>(bits));
}

/// o, from the bits of a group's scale, its offset and what 256 columns share; `scale` is s.
PAGODA_SHARED float offset_value(const Coding& coding, float scale, std::uint32_t scale_bits, std::uint32_t offset_bits,
                                 std::uint32_t super_bits) {
  switch (coding.offset) {
    case OffsetType::kNone:
      return 0;
    case OffsetType::kValue:
      return scale_value(coding, offset_bits);
    case OffsetType::kZero:
      return -scale * static_cast<float>(scale_bits & 255u);
    case OffsetType::kMinimum:
      return -static_cast<float>(offset_bits) * f16_to_float(static_cast<std::uint16_t>(super_bits >> 16));
  }
  return 0;
}

}  // namespace pagoda::quant
