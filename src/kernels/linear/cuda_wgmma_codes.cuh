// A of wgmma_tiles from weights in the layout mma_codes: WeightFragments (cuda_wgmma_fragments.cuh) of WEIGHTS 2. A
// lane's 16 bytes are the four fragments of a turn of 64 columns; `make` turns one step's codes into weights.
//
// Products and instructions of a multiprocessor do not overlap (decision 0105): at few rows of x what counts is how
// many instructions a weight takes. A word of eight 4-bit codes is taken apart by one shift and four masks. In bf16 a
// masked code is its own number: denormals and the first binade are linear, so that q in the lowest bits is q ·
// 2^-133, and 16q, where rows 8 … 15 have it, q · 2^-129. Scales make up for that. They stop 2^64 short, lest they
// overflow, and sums are multiplied by the rest. f16 has no room for such scales: there codes go under the exponents
// of 1024 and of 64, which a subtraction takes away, together with the zero point.
//
// A scale of 128 columns and more can wait for their sums (kLate), where a thread has registers for these: it costs an
// instruction a sum and not one a weight, and what is multiplied before, a code less its zero point or times a scale
// of few bits, is exact in bf16.
#pragma once

#include "kernels/cuda/format.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/pairs_f16.cuh"
#include "kernels/linear/cuda_codes.cuh"
#include "kernels/linear/cuda_wgmma_fragments.cuh"

namespace pagoda::kernels {

constexpr Coding kCoding = Format::kCoding;

template <const FragmentShape& kShape>
class WeightFragments {
  using TheScales = Scales<kCoding>;
  using Offset = quant::OffsetType;
  using Table = quant::CodeTable;
  static constexpr bool kF16 = ELEMENT == 1;
  static_assert(!kF16 || has_f16_scales(kCoding));
  static constexpr bool kWhole = kCoding.table == Table::kInteger;
  static constexpr bool kValues = kCoding.offset == Offset::kValue || kCoding.offset == Offset::kMinimum;
  /// Whether something is subtracted from a code: of whole numbers only.
  static constexpr bool kShifted = kCoding.bias != 0 || kCoding.offset == Offset::kZero;
  using TheCodes = Codes<kCoding, kF16>;

  /// What waits for the sums: a group's scale, or what 256 columns share beside the scales of e2m1.
  static constexpr bool kLateScale = kCoding.group >= 128 && kCoding.super == quant::SuperScale::kNone && !kValues;
  static constexpr bool kLateSuper = kCoding.table == Table::kE2m1 && kCoding.super == quant::SuperScale::kF32;
  static constexpr bool kLate = kShape.two_sums && !kF16 && (kLateScale || kLateSuper);

  /// 2^kSmall is what a bf16 code is too small by (rows 8 … 15 of four bits: 2^4 less), 2^-kLeft what sums still are.
  static constexpr int kMostUp = 127;  // 2^127 is bf16's largest power
  static constexpr int kSmall = kWhole ? 133 : TheCodes::kExponent;
  static constexpr int kLeft = kF16 || kSmall == 0    ? 0
                               : !kLate || kLateSuper ? 64
                               : kSmall > kMostUp     ? kSmall - kMostUp
                                                      : 0;

 public:
  static constexpr int kSteps = kUnitColumns / 16;
  static constexpr float kSumFactor = power_of_two(kLeft);
  /// Turns whose sums are to be multiplied by `late` of one of them; 0: sums are whole as they are.
  static constexpr int kSpanTurns = span_columns(kCoding) / kUnitColumns;
  static constexpr int kLateTurns = !kLate ? 0 : kSpanTurns < kShape.turns ? kSpanTurns : kShape.turns;
  using Turn = std::uint32_t[kSteps][4];

  /// A lane's part of a turn, as it lies.
  struct Raw {
    typename TheCodes::Unit codes;
    TheScales scales;
  };

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane)
      : codes_(ring + kShape.codes(warp, kShape.turns * unit_bytes(kCoding))),
        scales_(ring + kShape.scales(warp, span_bytes(kCoding))),
        lane_(lane) {}

  /// `number` is the turn's within the row of tiles, of which a stage begins at a multiple of its turns.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int number) const {
    Raw raw;
    load_raw(raw, stage_offset, turn, number, false);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) make(a[step], raw, step);
  }
  /// `follows`: `raw` has the turn before, whose scales serve again where a group is wider than a turn.
  __device__ __forceinline__ void load_raw(Raw& raw, int stage_offset, int turn, int number, bool follows) const {
    constexpr int kSubTurns = sub_span_columns(kCoding) / kUnitColumns;
    const int span = kShape.stage.spans > 1 ? turn / kSpanTurns : 0;
    const int sub = (kShape.turns % kSpanTurns == 0 ? turn : number) % kSpanTurns / kSubTurns;
    const char* codes = codes_ + stage_offset + turn * unit_bytes(kCoding);
    const char* scales = scales_ + stage_offset + span * span_bytes(kCoding);
    raw.codes = TheCodes::load(codes, lane_);
    if (!follows || turn % kSubTurns == 0) raw.scales = TheScales::load(scales, sub, lane_ / 4);
  }

  /// What sums of the lane's two rows are to be multiplied by.
  static __device__ __forceinline__ void late(float (&factor)[2], const Raw& raw) {
#pragma unroll
    for (int h = 0; h < 2; ++h) factor[h] = kLateSuper ? raw.scales.factor[h] : raw.scales.scale(0, h);
  }

  /// Columns 16 · step … of the turn; `step` is a constant wherever this is inlined.
  static __device__ __forceinline__ void make(std::uint32_t (&a)[4], const Raw& raw, int step) {
    if (step == 0) make_step<0>(a, raw);
    if (step == 1) make_step<1>(a, raw);
    if (step == 2) make_step<2>(a, raw);
    if (step == 3) make_step<3>(a, raw);
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add<kColumns>(d, a, b, add);
  }

 private:
  template <int kStep>
  static __device__ __forceinline__ void make_step(std::uint32_t (&a)[4], const Raw& raw) {
    constexpr int kGroup = kStep * 16 / (kCoding.group < kUnitColumns ? kCoding.group : kUnitColumns);
    if constexpr (kF16) {
      make_f16<kStep, kGroup>(a, raw);
    } else {
      if constexpr (kWhole) {
        TheCodes::template numbers<kStep>(raw.codes, a);
      } else {
        TheCodes::template decode<kStep>(raw.codes, a);
      }
      if constexpr (kLate) {
        make_late<kGroup>(a, raw.scales);
      } else if constexpr (kValues && !kExactScale) {
        in_float<kGroup>(a, raw.scales);
      } else {
        in_bf16<kGroup>(a, raw.scales);
      }
    }
  }

  /// Whether bf16 has the scales, and offsets if there are any.
  static constexpr bool kExactScale =
      kCoding.scale == quant::ScaleType::kE8m0 ||
      (kCoding.scale == quant::ScaleType::kBf16 && kCoding.super == quant::SuperScale::kNone &&
       kCoding.offset != Offset::kMinimum);

  /// What makes up for kSmall: of row r, and of row r + 8, whose whole numbers of four bits come 2^4 larger.
  static constexpr float kUp = power_of_two(kSmall - kLeft);
  static constexpr float kUp8 = kWhole && kCoding.bits == 4 ? kUp / 16 : kUp;

  /// What a code of these rows is multiplied by.
  static __device__ __forceinline__ float factor(const TheScales& scales, int group, int half) {
    return scales.scale(group, half) * (half == 0 ? kUp : kUp8);
  }

  /// The number that is subtracted from codes, 0 … 255, in the lowest bits of both elements.
  static __device__ __forceinline__ std::uint32_t zero_pair(const TheScales& scales, int group, int half) {
    std::uint32_t zero = static_cast<std::uint32_t>(kCoding.bias);
    if constexpr (kCoding.offset == Offset::kZero) zero = scales.zero(group, half);
    return zero * 0x10001u;
  }

  /// Codes are exact. A scale that bf16 lacks is the sum of two, so that a weight is rounded little more than once.
  template <int kGroup>
  static __device__ __forceinline__ void in_bf16(std::uint32_t (&a)[4], const TheScales& scales) {
    // Of row r and of row r + 8.
    [[maybe_unused]] std::uint32_t high, low, offset, zero[2];
    if constexpr (kExactScale) {
      high = multiply_bf16x2(scales.bf16_scales(kGroup), pack_bf16(kUp, kUp8));
      if constexpr (kValues) {
        constexpr float kDown = power_of_two(-kLeft);
        offset = multiply_bf16x2(scales.bf16_values(kGroup), pack_bf16(kDown, kDown));
      }
    } else {
      const float scale = factor(scales, kGroup, 0), scale8 = factor(scales, kGroup, 1);
      high = pack_bf16(scale, scale8);
      low = pack_bf16(scale - bf16_low(high), scale8 - bf16_high(high));
    }
    if constexpr (kShifted) {
      zero[0] = 0x80008000u | zero_pair(scales, kGroup, 0);
      zero[1] = 0x80008000u | zero_pair(scales, kGroup, 1);
      if constexpr (kCoding.bits == 4) zero[1] = multiply_bf16x2(zero[1], 0x41804180u);  // 16
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      if constexpr (kShifted) a[i] = add_bf16x2(a[i], zero[h]);
      if constexpr (kValues) {
        a[i] = fma_bf16x2(a[i], spread(high, h), spread(offset, h));
      } else if constexpr (kExactScale) {
        a[i] = multiply_bf16x2(a[i], spread(high, h));
      } else {
        a[i] = fma_bf16x2(a[i], spread(high, h), multiply_bf16x2(a[i], spread(low, h)));
      }
    }
  }

  /// A code less its zero point, or times its group's scale: exact.
  template <int kGroup>
  static __device__ __forceinline__ void make_late(std::uint32_t (&a)[4], const TheScales& scales) {
    std::uint32_t up = 0;  // of row r and of row r + 8
    if constexpr (kLateSuper) {
      up = scales.bf16_group_scales(kGroup, kSmall - kLeft);
    } else {
      up = pack_bf16(kUp, kUp8);
    }
    [[maybe_unused]] std::uint32_t zero[2];
    if constexpr (kShifted) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        zero[h] = multiply_bf16x2(0x80008000u | zero_pair(scales, kGroup, h), pack_bf16(kUp, kUp));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      a[i] = kShifted ? fma_bf16x2(a[i], spread(up, h), zero[h]) : multiply_bf16x2(a[i], spread(up, h));
    }
  }

  /// Offsets that bf16 lacks: rounded once.
  template <int kGroup>
  static __device__ __forceinline__ void in_float(std::uint32_t (&a)[4], const TheScales& scales) {
    float scale[2], offset[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale[h] = factor(scales, kGroup, h);
      if constexpr (kValues) offset[h] = scales.value(kGroup, h) * power_of_two(-kLeft);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = fmaf(bf16_low(a[i]), scale[i % 2], offset[i % 2]);
      const float high = fmaf(bf16_high(a[i]), scale[i % 2], offset[i % 2]);
      a[i] = pack_bf16(low, high);
    }
  }

  /// Codes are exact; what they are multiplied by and what is added are rounded to f16, and the weight is. Scales that
  /// f16 lacks come 2^6 larger, codes so much smaller: of f16's normal numbers are then scales from 2^-20 to 2^10.
  template <int kStep, int kGroup>
  static __device__ __forceinline__ void make_f16(std::uint32_t (&a)[4], const Raw& raw) {
    constexpr bool kRaised = kCoding.super != quant::SuperScale::kNone;
    constexpr std::uint32_t kDown = 0x24002400u;  // 2^-6
    [[maybe_unused]] std::uint32_t scale[2], offset[2], zero[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kRaised) {
        const float value = raw.scales.scale(kGroup, h) * 64.0f;
        scale[h] = pack_f16(value, value);
      } else {
        scale[h] = raw.scales.scale_pair(kGroup, h);
      }
      if constexpr (kValues) offset[h] = raw.scales.value_pair(kGroup, h);
      if constexpr (kWhole) {
        // -(1024 + z), of which what codes are under is left: 1024, 256 or 64.
        zero[h] = 0xe400e400u | zero_pair(raw.scales, kGroup, h);
        constexpr int kUnder = static_cast<int>(TheCodes::kMagic);
        if (kCoding.bits != 4 || h == 1) zero[h] = add_f16x2(zero[h], f16_of_whole(1024 - kUnder) * 0x10001u);
        if constexpr (kRaised) zero[h] = multiply_f16x2(zero[h], kDown);
      }
    }
    if constexpr (kWhole && kCoding.bits == 4) {
      TheCodes::template decode_apart<kStep>(raw.codes, a);
    } else {
      TheCodes::template decode<kStep>(raw.codes, a);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      if constexpr (kWhole) {
        a[i] = kRaised ? fma_f16x2(a[i], kDown, zero[h]) : add_f16x2(a[i], zero[h]);
      } else if constexpr (kRaised) {
        a[i] = multiply_f16x2(a[i], kDown);
      }
      a[i] = kValues ? fma_f16x2(a[i], scale[h], offset[h]) : multiply_f16x2(a[i], scale[h]);
    }
  }

  const char *codes_, *scales_;  // of the warp's tile, in the ring's first stage
  int lane_;
};

}  // namespace pagoda::kernels
