// A of wgmma_tiles from a stage of its ring, by kind of weights: what a warp's lane loads of a turn of its tile of 16
// rows, or, of a gated unit, of 8 rows of gate (rows 0 … 7 of the fragment) and 8 of up. Fragments have their columns
// in the order of x. A kind that is kScaled has sums of its own for each stage, which are multiplied by scales and
// added in float. Constants: WEIGHTS (0 mma16, 1 e4m3, 2 codes of FORMAT as bf16).
#pragma once

#include "kernels/cuda/register_products_e4m3.cuh"
#include "kernels/linear/cuda_wgmma_tiles.h"
#if WEIGHTS == 2
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/linear/cuda_codes.cuh"
#endif

namespace pagoda::kernels {

/// Of a block: tiles in a box, turns in a stage; where a stage's parts lie.
struct FragmentShape {
  bool gated;
  int box_tiles, turns;
  WgmmaTilesStage stage;
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

#elif WEIGHTS == 1

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 2;
  static constexpr bool kScaled = true;
  using Turn = std::uint32_t[kSteps][4];

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) {
    const int tile = kShape.gated ? warp / 2 : warp;
    mine_ = shared_address(ring) + kShape.stage.weights + tile * kTileBytes + lane * 16;
    scales_ = ring + kShape.stage.scales + tile * kShape.stage.spans * kWgmmaE4m3.span_bytes + lane / 4 * 8;
  }

  /// Of the stage's 128 columns of the lane's two rows.
  __device__ __forceinline__ void load_scales(float (&scale)[2], int stage_offset) const {
    const float2 first = *reinterpret_cast<const float2*>(scales_ + stage_offset);
    scale[0] = first.x, scale[1] = first.y;
    if constexpr (kShape.gated) {
      const float2 up = *reinterpret_cast<const float2*>(scales_ + stage_offset + kShape.stage.scale_bytes);
      const bool half = threadIdx.x / 32 % 2 != 0;
      scale[0] = half ? first.y : first.x, scale[1] = half ? up.y : up.x;
    }
  }

  /// The lane's words are the registers, of row lane / 4 and of the row 8 further in turn.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int) const {
    const bool half = threadIdx.x / 32 % 2 != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t place = mine_ + stage_offset + turn * 1024 + i * 512;
      std::uint32_t first[4], up[4];
      load_shared_vec16(first, place);
      if constexpr (kShape.gated) {
        load_shared_vec16(up, place + kShape.box_tiles * kTileBytes);
        a[i][0] = half ? first[1] : first[0];
        a[i][1] = half ? up[1] : up[0];
        a[i][2] = half ? first[3] : first[2];
        a[i][3] = half ? up[3] : up[2];
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i][j] = first[j];
      }
    }
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add_e4m3<kColumns>(d, a, b, add);
  }

 private:
  static constexpr int kTileBytes = kShape.turns * 1024;
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

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) : lane_(lane), half_(warp % 2 != 0) {
    const int tile = kShape.gated ? warp / 2 : warp;
    codes_ = ring + kShape.stage.weights + tile * kShape.turns * unit_bytes(kCoding);
    scales_ = ring + kShape.stage.scales + tile * kShape.stage.spans * span_bytes(kCoding);
  }

  /// `number` is the turn's within the row of tiles.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int number) const {
    constexpr int kSpanTurns = span_columns(kCoding) / kUnitColumns;
    constexpr int kSubTurns = sub_span_columns(kCoding) / kUnitColumns;
    const int span = kShape.stage.spans > 1 ? turn / kSpanTurns : 0;
    const int sub = number % kSpanTurns / kSubTurns;
    const char* codes = codes_ + stage_offset + turn * unit_bytes(kCoding);
    const char* scales = scales_ + stage_offset + span * span_bytes(kCoding);
    const auto first = TheCodes::load(codes, lane_);
    const auto first_scales = TheScales::load(scales, sub, lane_ / 4);
    if constexpr (kShape.gated) {
      const auto up = TheCodes::load(codes + kShape.box_tiles * kShape.turns * unit_bytes(kCoding), lane_);
      const auto up_scales = TheScales::load(scales + kShape.stage.scale_bytes, sub, lane_ / 4);
      if (half_) {
        mix<1>(a, first, first_scales, up, up_scales);
      } else {
        mix<0>(a, first, first_scales, up, up_scales);
      }
    } else {
      weights(a, first, first_scales);
    }
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add<kColumns>(d, a, b, add);
  }

 private:
  using TheCodes = Codes<kCoding>;
  using TheScales = Scales<kCoding>;

  /// Rows kHalf · 8 and up of gate and of up.
  template <int kHalf>
  static __device__ __forceinline__ void mix(Turn& a, const typename TheCodes::Unit& gate, const TheScales& gate_scales,
                                             const typename TheCodes::Unit& up, const TheScales& up_scales) {
    std::uint32_t of_gate[kSteps][4], of_up[kSteps][4];
    weights(of_gate, gate, gate_scales);
    weights(of_up, up, up_scales);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      a[i][0] = of_gate[i][kHalf];
      a[i][1] = of_up[i][kHalf];
      a[i][2] = of_gate[i][2 + kHalf];
      a[i][3] = of_up[i][2 + kHalf];
    }
  }

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
  static constexpr float kUp = TheCodes::kExponent == 126   ? 0x1p126f
                               : TheCodes::kExponent == 120 ? 0x1p120f
                               : TheCodes::kExponent == 112 ? 0x1p112f
                                                            : 1.0f;
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

  template <int kStep>
  static __device__ __forceinline__ void step(std::uint32_t (&a)[4], const typename TheCodes::Unit& unit,
                                              const TheScales& scales) {
    constexpr int kGroup = kStep * 16 / (kCoding.group < kUnitColumns ? kCoding.group : kUnitColumns);
    std::uint32_t high[4];
    TheCodes::template decode<kStep>(unit, a);
    if constexpr (TheCodes::kParts == 2) TheCodes::template decode<kStep, 1>(unit, high);
    if constexpr (TheCodes::kNeedsSums && kCoding.offset != quant::OffsetType::kNone) {
      // With offsets: in float, rounded once.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scale = scales.scale(kGroup, i % 2);
        const float offset = scales.offset(kGroup, i % 2, scale, TheCodes::kMagic + kBias);
        float first = bf16_low(a[i]), second = bf16_high(a[i]);
        if constexpr (TheCodes::kParts == 2) first += bf16_low(high[i]), second += bf16_high(high[i]);
        a[i] = pack_bf16(fmaf(first, scale, offset), fmaf(second, scale, offset));
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
  bool half_;  // whether a gated unit's warp takes the tiles' last 8 rows
};

#endif

}  // namespace pagoda::kernels
