// A of wgmma_tiles from weights in the layout mma_codes: WeightFragments (cuda_wgmma_fragments.cuh) of WEIGHTS 2. A
// lane's 16 bytes are the four fragments of a turn of 64 columns; `make` turns one step's codes into weights.
//
// Products and instructions of a multiprocessor do not overlap (decision 0105): at few rows of x what counts is how
// many instructions a weight takes. A word of eight 4-bit codes is taken apart by one shift and four masks. In bf16 a
// masked code is its own number: denormals and the first binade are linear, so that q in the lowest bits is q ·
// 2^-133, and 16q, where rows 8 … 15 have it, q · 2^-129. Scales make up for that. They stop 2^64 short, lest they
// overflow, and sums are multiplied by the rest. f16 has no room for such scales: there codes go under the exponents
// of 1024 and of 64, which a subtraction takes away, together with the zero point.
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
  static constexpr bool kWhole = kCoding.table == Table::kInteger;
  static constexpr bool kEightFloat = is_float_code(kCoding);
  static constexpr bool kValues = kCoding.offset == Offset::kValue || kCoding.offset == Offset::kMinimum;
  /// Whether something is subtracted from a code: of whole numbers only.
  static constexpr bool kShifted = kCoding.bias != 0 || kCoding.offset == Offset::kZero;
  using TheCodes = Codes<kCoding, kF16 && !kEightFloat && kCoding.table != Table::kE2m1>;

  /// 2^kSmall is what a bf16 code is too small by (rows 8 … 15 of four bits: 2^4 less), 2^-kLeft what sums still are.
  static constexpr int kSmall = kWhole ? 133 : TheCodes::kExponent;
  static constexpr int kLeft = kF16 || kSmall == 0 ? 0 : 64;

 public:
  static constexpr int kSteps = kUnitColumns / 16;
  static constexpr float kSumFactor = power_of_two(kLeft);
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

  /// `number` is the turn's within the row of tiles.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int number) const {
    const Raw raw = load_raw(stage_offset, turn, number);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) make(a[step], raw, step);
  }
  __device__ __forceinline__ Raw load_raw(int stage_offset, int turn, int number) const {
    constexpr int kSpanTurns = span_columns(kCoding) / kUnitColumns;
    constexpr int kSubTurns = sub_span_columns(kCoding) / kUnitColumns;
    const int span = kShape.stage.spans > 1 ? turn / kSpanTurns : 0;
    const int sub = number % kSpanTurns / kSubTurns;
    const char* codes = codes_ + stage_offset + turn * unit_bytes(kCoding);
    const char* scales = scales_ + stage_offset + span * span_bytes(kCoding);
    return {TheCodes::load(codes, lane_), TheScales::load(scales, sub, lane_ / 4)};
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
    if constexpr (kF16 && !kEightFloat) {
      make_f16<kStep, kGroup>(a, raw);
    } else {
      if constexpr (kWhole) {
        TheCodes::template numbers<kStep>(raw.codes, a);
      } else {
        TheCodes::template decode<kStep>(raw.codes, a);
      }
      if constexpr (kF16 || (kValues && !kExactScale)) {
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

  /// What a code of these rows is multiplied by.
  static __device__ __forceinline__ float factor(const TheScales& scales, int group, int half) {
    constexpr int kApart = kWhole && kCoding.bits == 4 ? 4 : 0;
    return scales.scale(group, half) * power_of_two(kSmall - kLeft - (half == 0 ? 0 : kApart));
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
    [[maybe_unused]] std::uint32_t high[2], low[2], zero[2], offset[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float scale = factor(scales, kGroup, h);
      high[h] = pack_bf16(scale, scale);
      if constexpr (!kExactScale) {
        const float rest = scale - bf16_low(high[h]);
        low[h] = pack_bf16(rest, rest);
      }
      if constexpr (kShifted) {
        zero[h] = 0x80008000u | zero_pair(scales, kGroup, h);
        if constexpr (kCoding.bits == 4) {
          if (h == 1) zero[h] = multiply_bf16x2(zero[h], 0x41804180u);  // 16
        }
      }
      if constexpr (kValues) {
        const float value = scales.value(kGroup, h) * power_of_two(-kLeft);
        offset[h] = pack_bf16(value, value);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      if constexpr (kShifted) a[i] = add_bf16x2(a[i], zero[h]);
      if constexpr (kValues) {
        a[i] = fma_bf16x2(a[i], high[h], offset[h]);
      } else if constexpr (kExactScale) {
        a[i] = multiply_bf16x2(a[i], high[h]);
      } else {
        a[i] = fma_bf16x2(a[i], high[h], multiply_bf16x2(a[i], low[h]));
      }
    }
  }

  /// Offsets that bf16 lacks, or f16 of 8-bit floats: rounded once.
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
      a[i] = kF16 ? pack_f16(low, high) : pack_bf16(low, high);
    }
  }

  /// Codes are exact; what they are multiplied by and what is added are rounded to f16, and the weight is. Scales that
  /// f16 lacks come 2^6 larger, codes so much smaller: of f16's normal numbers are then scales from 2^-20 to 2^10.
  template <int kStep, int kGroup>
  static __device__ __forceinline__ void make_f16(std::uint32_t (&a)[4], const Raw& raw) {
    constexpr bool kHalves = kCoding.scale == quant::ScaleType::kF16 && kCoding.super == quant::SuperScale::kNone;
    constexpr bool kRaised = !kHalves && kCoding.scale != quant::ScaleType::kE8m0;
    constexpr std::uint32_t kDown = 0x24002400u;  // 2^-6
    [[maybe_unused]] std::uint32_t scale[2], offset[2], zero[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kHalves) {
        scale[h] = raw.scales.scale_pair(kGroup, h);
      } else {
        const float value = raw.scales.scale(kGroup, h) * (kRaised ? 64.0f : 1.0f);
        scale[h] = pack_f16(value, value);
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
    } else if constexpr (kCoding.table == Table::kE2m1) {
      TheCodes::template decode_e2m1_f16<kStep>(raw.codes, a);
    } else {
      TheCodes::template decode<kStep>(raw.codes, a);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2;
      if constexpr (kWhole) {
        a[i] = kRaised ? fma_f16x2(a[i], kDown, zero[h]) : add_f16x2(a[i], zero[h]);
      } else if constexpr (kCoding.table == Table::kE2m1) {
        a[i] = multiply_f16x2(a[i], kRaised ? 0x5c005c00u : 0x74007400u);  // 2^14
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
