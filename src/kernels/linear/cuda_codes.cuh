// Codes of the layout mma_codes as fragments in registers, bf16 or f16 (kHalf), and their scales.
//
// bf16: whole numbers become 128 + q by putting q under the exponent of 128 (eight bits: 128 + low and 2048 + 16·high,
// in two parts whose products add up): Σ(128 + q - bias)·x is made right by Σx. Small floats keep their bits at the
// lower end of bf16's exponent, where they are 2^kExponent too small, and denormal if they were so: x is made larger by
// 2^kInputExponent and sums are scaled back.
// f16 has three bits more: 64 + q, eight bits 256 + q in one part. It is for whole numbers and kIq4.
#pragma once

#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_mma_codes.h"

namespace pagoda::kernels {

/// (a & mask) | b in one instruction.
__device__ __forceinline__ std::uint32_t put(std::uint32_t a, std::uint32_t mask, std::uint32_t b) {
  std::uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(mask), "r"(b));
  return r;
}

/// (a & mask) | (b & ~mask) in one instruction.
__device__ __forceinline__ std::uint32_t pick(std::uint32_t a, std::uint32_t b, std::uint32_t mask) {
  std::uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(r) : "r"(a), "r"(b), "r"(mask));
  return r;
}

__device__ constexpr float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// A whole number as f16 has it; |value| < 2048.
__device__ constexpr std::uint32_t f16_of_whole(int value) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value < 0 ? -value : value);
  if (magnitude == 0) return 0;
  int exponent = 0;
  while (magnitude >> (exponent + 1) != 0) ++exponent;
  const std::uint32_t mantissa = (exponent <= 10 ? magnitude << (10 - exponent) : 0) & 0x3ffu;
  return (value < 0 ? 0x8000u : 0u) | static_cast<std::uint32_t>(exponent + 15) << 10 | mantissa;
}

template <Coding kCoding, bool kHalf = false>
struct Codes {
  using Table = quant::CodeTable;
  static constexpr Table kTable = kCoding.table;
  static constexpr bool kWhole = kTable == Table::kInteger;
  static constexpr bool kEightFloat = is_float_code(kCoding);
  static constexpr bool kEightWhole = kWhole && kCoding.bits == 8;
  static constexpr int kParts = kEightWhole && !kHalf ? 2 : 1;
  /// What is added to a code by the way.
  static constexpr float kMagic = !kWhole       ? 0.0f
                                  : kHalf       ? (kEightWhole ? 256.0f : 64.0f)
                                  : kEightWhole ? 2176.0f
                                                : 128.0f;
  static constexpr bool kNeedsSums = kWhole;
  static constexpr int kExponent = kTable == Table::kE2m1   ? 126
                                   : kTable == Table::kE4m3 ? 120
                                   : kTable == Table::kE5m2 ? 112
                                                            : 0;
  static constexpr int kInputExponent = kExponent != 0 ? 96 : 0;
  static_assert(!kHalf || kWhole || kTable == Table::kIq4);

  /// A lane's codes of a unit, as they lie.
  struct Unit {
    Vec16 nibbles[kCoding.bits == 8 ? 2 : 1];
    std::uint32_t twos[2];
    std::uint32_t ones;
  };

  static __device__ __forceinline__ Unit load(const char* unit, int lane) {
    Unit u;
    if constexpr (kCoding.bits >= 4) {
      u.nibbles[0] = load_vec16(unit + lane * 16);
      if constexpr (kCoding.bits == 8) u.nibbles[1] = load_vec16(unit + 512 + lane * 16);
    }
    if constexpr (kCoding.bits < 4 || kCoding.bits == 6) {
      const auto* twos = reinterpret_cast<const uint2*>(unit + (kCoding.bits < 4 ? 0 : 512));
      const uint2 both = twos[lane];
      u.twos[0] = both.x;
      u.twos[1] = both.y;
    }
    if constexpr (kCoding.bits == 3 || kCoding.bits == 5) {
      u.ones = reinterpret_cast<const std::uint32_t*>(unit + low_plane_bytes(kCoding))[lane];
    }
    return u;
  }

  /// Step kStep of a unit as the registers of a product: pairs of elements, the lower column in the lower half.
  template <int kStep, int kPart = 0>
  static __device__ __forceinline__ void decode(const Unit& u, std::uint32_t (&a)[4]) {
    if constexpr (kEightFloat) {
      constexpr int kShift = kTable == Table::kE4m3 ? 4 : 3;
      constexpr std::uint32_t kMagnitude = kTable == Table::kE4m3 ? 0x07f007f0u : 0x0fe00fe0u;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t w = u.nibbles[kStep / 2].word[kStep % 2 * 2 + i];
        const std::uint32_t v = w << 8;
        a[i] = put(w, 0x80008000u, (w >> kShift) & kMagnitude);
        a[2 + i] = put(v, 0x80008000u, (v >> kShift) & kMagnitude);
      }
    } else if constexpr (kTable == Table::kE2m1) {
      decode_e2m1<kStep>(u, a);
    } else if constexpr (kTable == Table::kIq4) {
      decode_iq4(u.nibbles[0].word[kStep], a);
    } else if constexpr (kHalf) {
      decode_half<kStep>(u, a);
    } else if constexpr (kCoding.bits < 4) {
      const std::uint32_t w = u.twos[kStep / 2] >> (8 * (kStep % 2));
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = put(w >> (2 * i), 0x00030003u, 0x43004300u);
      if constexpr (kCoding.bits == 3) add_ones<kStep, 2>(u.ones, a);
    } else {
      const std::uint32_t w = u.nibbles[kPart].word[kStep];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = put(w >> (4 * i), 0x000f000fu, kPart == 0 ? 0x43004300u : 0x45004500u);
      if constexpr (kCoding.bits == 5) add_ones<kStep, 4>(u.ones, a);
      if constexpr (kCoding.bits == 6) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int shift = 8 * (kStep % 2) - 4 + 2 * i;
          const std::uint32_t twos = u.twos[kStep / 2];
          a[i] = put(shift >= 0 ? twos >> shift : twos << -shift, 0x00300030u, a[i]);
        }
      }
    }
  }

  /// Whole numbers in the lowest bits of elements, of four bits 16 times as large for registers 1 and 3 (row r + 8).
  template <int kStep>
  static __device__ __forceinline__ void numbers(const Unit& u, std::uint32_t (&a)[4]) {
    static_assert(kWhole);
    if constexpr (kCoding.bits == 4) {
      apart(u.nibbles[0].word[kStep], 0, 0, a);
    } else if constexpr (kCoding.bits < 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = down(u.twos[kStep / 2], 8 * (kStep % 2) + 2 * i) & 0x00030003u;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = (u.nibbles[0].word[kStep] >> (4 * i)) & 0x000f000fu;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kCoding.bits == 6) {
        a[i] = put(down(u.twos[kStep / 2], 8 * (kStep % 2) - 4 + 2 * i), 0x00300030u, a[i]);
      } else if constexpr (kCoding.bits == 8) {
        a[i] = put(down(u.nibbles[1].word[kStep], 4 * i - 4), 0x00f000f0u, a[i]);
      }
    }
    if constexpr (kCoding.bits == 3) add_ones<kStep, 2>(u.ones, a);
    if constexpr (kCoding.bits == 5) add_ones<kStep, 4>(u.ones, a);
  }

  /// Four bits as f16: 1024 + q in registers 0 and 2 (row r), 64 + q in 1 and 3.
  template <int kStep>
  static __device__ __forceinline__ void decode_apart(const Unit& u, std::uint32_t (&a)[4]) {
    static_assert(kWhole && kCoding.bits == 4);
    apart(u.nibbles[0].word[kStep], 0x64006400u, 0x54005400u, a);
  }

  /// Whether bytes() has them.
  static constexpr bool kBytes = kWhole && (kCoding.bits == 4 || kCoding.bits == 6 || kCoding.bits == 8);

  /// Step kStep of a unit as whole numbers of eight bits: of row r and of row r + 8, columns 2·quad, 2·quad + 8,
  /// 2·quad + 1 and 2·quad + 9 of the step, the first in the lowest byte.
  template <int kStep>
  static __device__ __forceinline__ void bytes(const Unit& u, std::uint32_t& row, std::uint32_t& row8) {
    static_assert(kBytes);
    const std::uint32_t w = u.nibbles[0].word[kStep];
    row = w & 0x0f0f0f0fu;
    row8 = (w >> 4) & 0x0f0f0f0fu;
    if constexpr (kCoding.bits == 8) {
      const std::uint32_t high = u.nibbles[1].word[kStep];
      row = put(high << 4, 0xf0f0f0f0u, row);
      row8 = put(high, 0xf0f0f0f0u, row8);
    } else if constexpr (kCoding.bits == 6) {
      // Register i's two bits are at 2i of a byte, and go to bits 4 and 5 of byte i / 2 of its pair of bytes.
      const std::uint32_t twos = kStep % 2 == 0 ? u.twos[kStep / 2] : u.twos[kStep / 2] >> 8;
      row = put(twos << 8, 0x30003000u, put(twos << 4, 0x00300030u, row));
      row8 = put(twos << 6, 0x30003000u, put(twos << 2, 0x00300030u, row8));
    }
  }

 private:
  /// Registers 0 to 2 are in the step's word, register 3 in the third one. Where no bits go round, a shift does.
  template <int kStep>
  static __device__ __forceinline__ void decode_e2m1(const Unit& u, std::uint32_t (&a)[4]) {
    const std::uint32_t (&words)[4] = u.nibbles[0].word;
    const std::uint32_t odd = __funnelshift_l(words[kStep | 1], words[kStep | 1], 2);
    const std::uint32_t third = pick(words[kStep & ~1], odd, kE2m1Left);
    const std::uint32_t w = words[kStep];
    a[0] = w;
    a[1] = __funnelshift_r(w, w, e2m1_turn(kStep, 1));
    a[2] = w << (32 - e2m1_turn(kStep, 2));
    a[3] = kStep % 2 == 0 ? __funnelshift_r(third, third, e2m1_turn(kStep, 3)) : third << (32 - e2m1_turn(kStep, 3));
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] &= kE2m1Bits;
  }

  /// Eight 4-bit codes under the bits of `even` and `odd`: one shift for all of them.
  static __device__ __forceinline__ void apart(std::uint32_t w, std::uint32_t even, std::uint32_t odd,
                                               std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const std::uint32_t four = i == 0 ? w : w >> 8;
      a[i] = put(four, 0x000f000fu, even);
      a[i + 1] = put(four, 0x00f000f0u, odd);
    }
  }
  /// Bits `shift` and up of w, or as many places further up, if it is negative.
  static __device__ __forceinline__ std::uint32_t down(std::uint32_t w, int shift) {
    return shift >= 0 ? w >> shift : w << -shift;
  }

  /// Whole numbers: their lowest bit is where 64 (of eight bits: 256) has 1.
  template <int kStep>
  static __device__ __forceinline__ void decode_half(const Unit& u, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kCoding.bits < 4) {
        a[i] = put(down(u.twos[kStep / 2], 8 * (kStep % 2) + 2 * i - 4), 0x00300030u, 0x54005400u);
      } else if constexpr (kCoding.bits < 8) {
        a[i] = put(down(u.nibbles[0].word[kStep], 4 * i - 4), 0x00f000f0u, 0x54005400u);
      } else {
        a[i] = put(down(u.nibbles[0].word[kStep], 4 * i - 2), 0x003c003cu, 0x5c005c00u);
        a[i] = put(down(u.nibbles[1].word[kStep], 4 * i - 6), 0x03c003c0u, a[i]);
      }
      if constexpr (kCoding.bits == 6) {
        a[i] = put(down(u.twos[kStep / 2], 8 * (kStep % 2) + 2 * i - 8), 0x03000300u, a[i]);
      }
    }
    if constexpr (kCoding.bits == 3) add_ones<kStep, 6>(u.ones, a);
    if constexpr (kCoding.bits == 5) add_ones<kStep, 8>(u.ones, a);
  }

  template <int kStep, int kBit>
  static __device__ __forceinline__ void add_ones(std::uint32_t ones, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = put(down(ones, 4 * kStep + i - kBit), 0x00010001u << kBit, a[i]);
    }
  }

  /// Sixteen values by selecting bytes, four codes at a time: from the first eight or the last.
  static __device__ __forceinline__ void decode_iq4(std::uint32_t w, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t four = i == 0 ? w : w >> 16;
      const std::uint32_t index = four & 0x7777u;
      const std::uint32_t which = ((four >> 1) & 0x4444u) | 0x3210u;
      const std::uint32_t high = __byte_perm(__byte_perm(Iq4::high(0), Iq4::high(1), index),
                                             __byte_perm(Iq4::high(2), Iq4::high(3), index), which);
      const std::uint32_t low = __byte_perm(__byte_perm(Iq4::low(0), Iq4::low(1), index),
                                            __byte_perm(Iq4::low(2), Iq4::low(3), index), which);
      a[2 * i] = __byte_perm(low, high, 0x5140u);
      a[2 * i + 1] = __byte_perm(low, high, 0x7362u);
    }
  }
  struct Iq4 {
    static __device__ constexpr std::uint32_t byte_of(int code, int shift) {
      constexpr int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
      if (kHalf) return f16_of_whole(values[code]) >> (shift - 16) & 255u;
      return __builtin_bit_cast(std::uint32_t, static_cast<float>(values[code])) >> shift & 255u;
    }
    static __device__ constexpr std::uint32_t four(int first, int shift) {
      return byte_of(first, shift) | byte_of(first + 1, shift) << 8 | byte_of(first + 2, shift) << 16 |
             byte_of(first + 3, shift) << 24;
    }
    static __device__ __forceinline__ std::uint32_t high(int i) {
      constexpr std::uint32_t all[4] = {four(0, 24), four(4, 24), four(8, 24), four(12, 24)};
      return all[i];
    }
    static __device__ __forceinline__ std::uint32_t low(int i) {
      constexpr std::uint32_t all[4] = {four(0, 16), four(4, 16), four(8, 16), four(12, 16)};
      return all[i];
    }
  };
};

/// Scales and offsets of one lane's two rows, of kGroups groups of a unit: of all, or of some.
template <Coding kCoding, int kGroups = sub_span_groups(kCoding)>
struct Scales {
  using Type = quant::ScaleType;
  using Offset = quant::OffsetType;
  static constexpr int kEntry = entry_bytes(kCoding);
  static constexpr int kScale = scale_bytes(kCoding);
  static constexpr int kBytes = kGroups * 2 * kEntry;  // of the lane's vector
  static constexpr int kSteps = (kBytes + 3) / 4;
  static constexpr bool kOffset = kCoding.offset != Offset::kNone;
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16);

  std::uint32_t raw[kSteps];
  float factor[2], second[2];  // of the 256 columns

  /// `span` is where the span's scales begin, `sub` the number of the unit in it (0 where a span is no wider), `group`
  /// the first of the groups.
  static __device__ __forceinline__ Scales load(const char* span, int sub, int r, int group = 0) {
    Scales s;
    const char* at = span + kTileRows16 * super_bytes(kCoding) + sub * sub_span_bytes(kCoding) +
                     (r * sub_span_groups(kCoding) + group) * 2 * kEntry;
    if constexpr (kBytes == 2) {
      s.raw[0] = *reinterpret_cast<const std::uint16_t*>(at);
    } else if constexpr (kBytes == 4) {
      s.raw[0] = *reinterpret_cast<const std::uint32_t*>(at);
    } else if constexpr (kBytes == 8) {
      const uint2 v = *reinterpret_cast<const uint2*>(at);
      s.raw[0] = v.x;
      s.raw[1] = v.y;
    } else {
      const Vec16 v = load_vec16(at);
#pragma unroll
      for (int i = 0; i < 4; ++i) s.raw[i] = v.word[i];
    }
    if constexpr (kCoding.scale == Type::kS8) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) s.raw[i] ^= 0x80808080u;  // from 0 on, as small_whole wants it
    }
    if constexpr (kCoding.super == quant::SuperScale::kF16) {
      const std::uint32_t v = *reinterpret_cast<const std::uint32_t*>(span + r * 4);
      s.factor[0] = from_f16(static_cast<std::uint16_t>(v));
      s.factor[1] = from_f16(static_cast<std::uint16_t>(v >> 16));
    } else if constexpr (kCoding.super == quant::SuperScale::kF16Pair) {
      const uint2 v = *reinterpret_cast<const uint2*>(span + r * 8);
      s.factor[0] = from_f16(static_cast<std::uint16_t>(v.x));
      s.second[0] = from_f16(static_cast<std::uint16_t>(v.x >> 16));
      s.factor[1] = from_f16(static_cast<std::uint16_t>(v.y));
      s.second[1] = from_f16(static_cast<std::uint16_t>(v.y >> 16));
    } else if constexpr (kCoding.super == quant::SuperScale::kF32) {
      const float2 v = *reinterpret_cast<const float2*>(span + r * 8);
      s.factor[0] = v.x;
      s.factor[1] = v.y;
    }
    return s;
  }

  /// The scale of a group for row r + 8·half.
  __device__ __forceinline__ float scale(int group, int half) const {
    const int at = (group * 2 + half) * kEntry;
    if constexpr (kCoding.scale == Type::kF32) {
      const std::uint32_t bits = raw[at / 4];
      const float value = __uint_as_float(kCoding.offset == Offset::kZero ? bits & 0xffffff00u : bits);
      return value;
    } else if constexpr (kCoding.scale == Type::kF16) {
      return from_f16(half_word(at));
    } else if constexpr (kCoding.scale == Type::kBf16) {
      return at % 4 == 0 ? bf16_low(raw[at / 4]) : bf16_high(raw[at / 4]);
    } else if constexpr (kCoding.scale == Type::kE8m0) {
      return __uint_as_float(__byte_perm(raw[at / 4], 0, 0x0444u | (at % 4) << 12) >> 1);
    } else if constexpr (kCoding.scale == Type::kE4m3) {
      return group_scale(group, half) * factor[half];
    } else if constexpr (kCoding.scale == Type::kS8) {
      return (lifted(at) - 8388736.0f) * factor[half];  // 2^23 + 128
    } else {
      return small_whole(at, factor[half]);
    }
  }

  /// Of e5m3: the group's scale without what the span shares.
  __device__ __forceinline__ float group_scale(int group, int half) const {
    static_assert(has_e5m3_scales(kCoding));
    const int at = group * 2 + half;
    return e5m3_to_float(__byte_perm(raw[at / 4], 0, 0x4440u | (at % 4)));
  }
  /// Those of rows r and r + 8 as bf16, times 2^up.
  __device__ __forceinline__ std::uint32_t bf16_group_scales(int group, int up) const {
    static_assert(has_e5m3_scales(kCoding));
    const std::uint32_t pair = __byte_perm(raw[group / 2], 0, group % 2 == 0 ? 0x4140u : 0x4342u);
    return pair * 16 + static_cast<std::uint32_t>(127 - kE5m3Bias + up) * 0x00800080u;
  }

  /// What Σx of the group is multiplied with, if `magic` was added to every code; `scale` as above.
  __device__ __forceinline__ float offset(int group, int half, float scale, float magic) const {
    if constexpr (kCoding.offset == Offset::kNone) {
      return -magic * scale;
    } else if constexpr (kCoding.offset == Offset::kZero) {
      const int scale_at = (group * 2 + half) * kEntry;
      // 2^23 + z as a float's bits: 2^23 goes away exactly.
      const float zero = __uint_as_float(__byte_perm(raw[scale_at / 4], 0x4b000000u, 0x7440u)) - 8388608.0f;
      return -scale * (zero + magic);
    } else {
      return fmaf(-magic, scale, value(group, half));
    }
  }

  /// The offset of a group, of kValue and kMinimum.
  __device__ __forceinline__ float value(int group, int half) const {
    const int at = (group * 2 + half) * kEntry + kScale;
    if constexpr (kCoding.offset == Offset::kMinimum) {
      return small_whole(at, -second[half]);
    } else if constexpr (kCoding.scale == Type::kF16) {
      return from_f16(half_word(at));
    } else if constexpr (kCoding.scale == Type::kBf16) {
      return at % 4 == 0 ? bf16_low(raw[at / 4]) : bf16_high(raw[at / 4]);
    } else {
      return __uint_as_float(raw[at / 4]);
    }
  }

  /// Where bf16 has them: the scales of rows r and r + 8, and their offsets.
  __device__ __forceinline__ std::uint32_t bf16_scales(int group) const {
    const int at = group * 2 * kEntry;
    if constexpr (kCoding.scale == Type::kE8m0) {
      return __byte_perm(raw[at / 4], 0, 0x1404u + at % 4 * 0x1010u) >> 1;
    } else {
      static_assert(kCoding.scale == Type::kBf16);
      return kEntry == 2 ? raw[at / 4] : __byte_perm(raw[at / 4], raw[at / 4 + 1], 0x5410u);
    }
  }
  __device__ __forceinline__ std::uint32_t bf16_values(int group) const {
    static_assert(kCoding.scale == Type::kBf16 && kEntry == 4);
    return __byte_perm(raw[group * 2], raw[group * 2 + 1], 0x7632u);
  }

  /// Of kZero: z.
  __device__ __forceinline__ std::uint32_t zero(int group, int half) const {
    return raw[(group * 2 + half) * kEntry / 4] & 0xffu;
  }

  /// Of a coding whose scales are f16 and share nothing: the scale, twice in a word.
  __device__ __forceinline__ std::uint32_t scale_pair(int group, int half) const {
    return pair((group * 2 + half) * kEntry);
  }
  /// The offset rounded to f16, twice in a word.
  __device__ __forceinline__ std::uint32_t value_pair(int group, int half) const {
    if constexpr (kCoding.scale == Type::kF16 && kCoding.offset == Offset::kValue) {
      return pair((group * 2 + half) * kEntry + kScale);
    } else {
      const float o = value(group, half);
      return pack_f16(o, o);
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t pair(int at) const { return spread(raw[at / 4], at % 4 / 2); }
  __device__ __forceinline__ std::uint16_t half_word(int at) const {
    return static_cast<std::uint16_t>(at % 4 == 0 ? raw[at / 4] : raw[at / 4] >> 16);
  }
  /// byte · by: the byte under the exponent of 2^23, which goes away exactly (by has 11 bits).
  __device__ __forceinline__ float small_whole(int at, float by) const {
    return fmaf(lifted(at), by, -by * 8388608.0f);
  }
  __device__ __forceinline__ float lifted(int at) const {
    return __uint_as_float(__byte_perm(raw[at / 4], 0x4b000000u, 0x7440u | at % 4));
  }
};

}  // namespace pagoda::kernels
