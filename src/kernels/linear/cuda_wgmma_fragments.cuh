// A of wgmma_tiles from a stage of its ring, by kind of weights: what a warp's lane loads of a turn of its tile of 16
// rows. Of a gated unit that is 8 rows of gate (rows 0 … 7 of the fragment) and 8 of up where ldmatrix brings halves of
// tiles at no cost (mma16); elsewhere warps of even number have a tile of gate, and the next ones the same of up.
// Fragments have their columns in the order of x. A kind that is kScaled has sums of its own for each stage, which are
// multiplied by scales and added in float. Constants: WEIGHTS (0 mma16, 1 e4m3, 2 codes of FORMAT, 3 e4m3 with one
// scale a row), ELEMENT (what codes become: 0 bf16, 1 f16).
#pragma once

#include "kernels/cuda/register_products_e4m3.cuh"
#include "kernels/linear/cuda_wgmma_tiles.h"
#if WEIGHTS == 2
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/pairs_f16.cuh"
#include "kernels/linear/cuda_codes.cuh"
#endif

namespace pagoda::kernels {

/// Of a block: tiles in a box, turns in a stage; where a stage's parts lie.
struct FragmentShape {
  bool gated;
  int box_tiles, turns;
  WgmmaTilesStage stage;

  /// Where a warp's tile of codes lies in a stage, and its scales.
  __device__ __forceinline__ constexpr int codes(int warp, int tile_bytes) const {
    return stage.weights + (gated ? warp % 2 * box_tiles + warp / 2 : warp) * tile_bytes;
  }
  __device__ __forceinline__ constexpr int scales(int warp, int span_bytes) const {
    return stage.scales + (gated ? warp % 2 * stage.scale_bytes : 0) +
           (gated ? warp / 2 : warp) * stage.spans * span_bytes;
  }
};

#if WEIGHTS == 0

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 2;
  static constexpr bool kScaled = false;
  using Turn = std::uint32_t[kSteps][4];

  /// ldmatrix: lane 8j + r asks for chunk j of row r, which the tensor map's swizzle put elsewhere in two rows' 128
  /// bytes, so that eight rows' chunks lie in different banks.
  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) {
    const std::uint32_t tile =
        shared_address(ring) + kShape.stage.weights + (kShape.gated ? warp / 2 : warp) * kTileBytes;
    const int row = lane % 8, chunk = lane / 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int half = kShape.gated ? warp % 2 : i;
      mine_[i] = tile + half * 512 + row / 2 * 128 + ((row % 2 * 4 + chunk) ^ (row / 2 + 4 * half)) * 16;
    }
    if constexpr (kShape.gated) mine_[1] += kShape.box_tiles * kTileBytes;
  }

  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int) const {
    std::uint32_t upper[4], lower[4];
    load_matrix_x4(upper, mine_[0] + stage_offset + turn * 1024);
    load_matrix_x4(lower, mine_[1] + stage_offset + turn * 1024);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i][0] = upper[2 * i];
      a[i][1] = lower[2 * i];
      a[i][2] = upper[2 * i + 1];
      a[i][3] = lower[2 * i + 1];
    }
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add<kColumns>(d, a, b, add);
  }

 private:
  static constexpr int kTileBytes = kShape.turns * 1024;

  std::uint32_t mine_[2];  // the lane's places in the ring's first stage, of rows 0 … 7 of the fragment and of 8 … 15
};

#elif WEIGHTS == 1 || WEIGHTS == 3

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 2;
  static constexpr bool kScaled = WEIGHTS == 1;
  using Turn = std::uint32_t[kSteps][4];

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) {
    mine_ = shared_address(ring) + kShape.codes(warp, kShape.turns * 1024) + lane * 16;
    scales_ = ring + kShape.scales(warp, kWgmmaE4m3.span_bytes) + lane / 4 * 8;
  }

  /// Of the stage's 128 columns of the lane's two rows.
  __device__ __forceinline__ void load_scales(float (&scale)[2], int stage_offset) const {
    const float2 both = *reinterpret_cast<const float2*>(scales_ + stage_offset);
    scale[0] = both.x, scale[1] = both.y;
  }

  /// The lane's words are the registers, of row lane / 4 and of the row 8 further in turn.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) load_shared_vec16(a[i], mine_ + stage_offset + turn * 1024 + i * 512);
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add_e4m3<kColumns>(d, a, b, add);
  }

 private:
  std::uint32_t mine_;
  const char* scales_;
};

#else

constexpr Coding kCoding = Format::kCoding;

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 4;
  static constexpr bool kScaled = false;
  using Turn = std::uint32_t[kSteps][4];

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane)
      : codes_(ring + kShape.codes(warp, kShape.turns * unit_bytes(kCoding))),
        scales_(ring + kShape.scales(warp, span_bytes(kCoding))),
        lane_(lane) {}

  /// `number` is the turn's within the row of tiles.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int number) const {
    constexpr int kSpanTurns = span_columns(kCoding) / kUnitColumns;
    constexpr int kSubTurns = sub_span_columns(kCoding) / kUnitColumns;
    const int span = kShape.stage.spans > 1 ? turn / kSpanTurns : 0;
    const int sub = number % kSpanTurns / kSubTurns;
    const char* codes = codes_ + stage_offset + turn * unit_bytes(kCoding);
    const char* scales = scales_ + stage_offset + span * span_bytes(kCoding);
    weights(a, TheCodes::load(codes, lane_), TheScales::load(scales, sub, lane_ / 4));
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add<kColumns>(d, a, b, add);
  }

 private:
  using Offset = quant::OffsetType;
  static constexpr bool kF16 = ELEMENT == 1;
  /// Whether f16 has what codes are multiplied with and what is added: then a weight is one operation on pairs, rounded
  /// once.
  static constexpr bool kF16Scales = kF16 && kCoding.super == quant::SuperScale::kNone &&
                                     kCoding.scale == quant::ScaleType::kF16 &&
                                     (kCoding.offset == Offset::kNone || kCoding.offset == Offset::kValue);
  using TheCodes = Codes<kCoding, kF16Scales>;
  using TheScales = Scales<kCoding>;

  static __device__ __forceinline__ void weights(std::uint32_t (&a)[kSteps][4], const typename TheCodes::Unit& unit,
                                                 const TheScales& scales) {
    step<0>(a[0], unit, scales);
    step<1>(a[1], unit, scales);
    step<2>(a[2], unit, scales);
    step<3>(a[3], unit, scales);
  }

  /// What codes of a group of a row are multiplied by, twice in a word: a scale as the sum of two bf16, so that a
  /// weight is rounded little more than once.
  struct Factors {
    std::uint32_t high, low;
  };
  static constexpr bool kExactScale =
      kCoding.scale == quant::ScaleType::kE8m0 ||
      (kCoding.scale == quant::ScaleType::kBf16 && kCoding.super == quant::SuperScale::kNone);
  static constexpr float kUp = power_of_two(TheCodes::kExponent);
  static constexpr float kBias = static_cast<float>(kCoding.bias);

  static __device__ __forceinline__ Factors factors(const TheScales& scales, int group, int half) {
    const float scale = scales.scale(group, half);
    Factors f{};
    f.high = pack_bf16(scale, scale);
    if constexpr (!kExactScale) {
      const float rest = scale - bf16_low(f.high);
      f.low = pack_bf16(rest, rest);
    }
    return f;
  }

  /// Codes as f16 to weights.
  template <int kGroup>
  static __device__ __forceinline__ void f16_weights(std::uint32_t (&a)[4], const TheScales& scales) {
    std::uint32_t scale[2], offset[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale[h] = scales.scale_pair(kGroup, h);
      if constexpr (kCoding.offset == Offset::kValue) offset[h] = scales.offset_pair(kGroup, h);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      constexpr int kAdded = static_cast<int>(TheCodes::kMagic) + kCoding.bias;
      if constexpr (kAdded != 0) a[i] = add_f16x2(a[i], f16_of_whole(-kAdded) * 0x10001u);
      if constexpr (kCoding.offset == Offset::kValue) {
        a[i] = fma_f16x2(a[i], scale[i % 2], offset[i % 2]);
      } else {
        a[i] = multiply_f16x2(a[i], scale[i % 2]);
      }
    }
  }

  template <int kStep>
  static __device__ __forceinline__ void step(std::uint32_t (&a)[4], const typename TheCodes::Unit& unit,
                                              const TheScales& scales) {
    constexpr int kGroup = kStep * 16 / (kCoding.group < kUnitColumns ? kCoding.group : kUnitColumns);
    std::uint32_t high[4];
    TheCodes::template decode<kStep>(unit, a);
    if constexpr (kF16Scales) return f16_weights<kGroup>(a, scales);
    if constexpr (TheCodes::kParts == 2) TheCodes::template decode<kStep, 1>(unit, high);
    if constexpr (kF16 || (TheCodes::kNeedsSums && kCoding.offset != Offset::kNone)) {
      // With offsets, or to f16 by scales that it has not: in float, rounded once.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scale = scales.scale(kGroup, i % 2);
        float offset = 0;
        if constexpr (TheCodes::kNeedsSums) offset = scales.offset(kGroup, i % 2, scale, TheCodes::kMagic + kBias);
        float first = bf16_low(a[i]) * kUp, second = bf16_high(a[i]) * kUp;
        if constexpr (TheCodes::kParts == 2) first += bf16_low(high[i]), second += bf16_high(high[i]);
        first = fmaf(first, scale, offset), second = fmaf(second, scale, offset);
        a[i] = kF16 ? pack_f16(first, second) : pack_bf16(first, second);
      }
      return;
    }
    const Factors of_half[2] = {factors(scales, kGroup, 0), factors(scales, kGroup, 1)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Factors& f = of_half[i % 2];
      if constexpr (TheCodes::kParts == 2) {
        a[i] = add_bf16x2(add_bf16x2(a[i], pair_of(-128.0f)), add_bf16x2(high[i], pair_of(-2048.0f - kBias)));
      } else if constexpr (TheCodes::kMagic != 0) {
        a[i] = add_bf16x2(a[i], pair_of(-TheCodes::kMagic - kBias));
      } else if constexpr (kUp != 1.0f) {
        a[i] = multiply_bf16x2(a[i], pair_of(kUp));
      }
      a[i] = kExactScale ? multiply_bf16x2(a[i], f.high) : fma_bf16x2(a[i], f.high, multiply_bf16x2(a[i], f.low));
    }
  }

  /// A number that bf16 has, twice.
  static __device__ constexpr std::uint32_t pair_of(float value) {
    return __builtin_bit_cast(std::uint32_t, value) >> 16 | (__builtin_bit_cast(std::uint32_t, value) & 0xffff0000u);
  }

  const char *codes_, *scales_;  // of the warp's tile, in the ring's first stage
  int lane_;
};

#endif

}  // namespace pagoda::kernels
