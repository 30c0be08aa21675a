// Weights of the layout mma_codes as bf16 or f16 in the layout mma16: what products of many rows read that know no
// codes. A warp takes a unit, in which a lane has the 16 bytes of four pieces of mma16 (or, in groups of 16, of eight
// halves of them). A weight is scale · code + offset in float, rounded once. Grid: x over units, y over tiles of rows,
// in turn. Bytes: codes once, weights once. Constants: FORMAT, ELEMENT (of the weights: 0 bf16, 1 f16), THREADS.
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/linear/cuda_codes.cuh"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_pack_codes.h"

using namespace pagoda;
using namespace pagoda::kernels;

constexpr Coding kCoding = Format::kCoding;
using TheCodes = Codes<kCoding>;
using TheScales = Scales<kCoding>;

/// A pair of codes in bf16 as weights.
__device__ __forceinline__ std::uint32_t weights(std::uint32_t pair, std::uint32_t high, float scale, float up,
                                                 float offset) {
  float first = bf16_low(pair) * up, second = bf16_high(pair) * up;
  if constexpr (TheCodes::kParts == 2) {
    first += bf16_low(high);
    second += bf16_high(high);
  }
  first = fmaf(first, scale, offset), second = fmaf(second, scale, offset);
  return ELEMENT == 1 ? pack_f16(first, second) : pack_bf16(first, second);
}

template <int kStep>
__device__ __forceinline__ void unpack_step(const TheCodes::Unit& unit, const TheScales& scales, char* target,
                                            std::int64_t row, std::int64_t column, std::int64_t k, int quad) {
  constexpr float kUp = TheCodes::kExponent == 126   ? 0x1p126f
                        : TheCodes::kExponent == 120 ? 0x1p120f
                        : TheCodes::kExponent == 112 ? 0x1p112f
                                                     : 1.0f;
  constexpr float kMagic = TheCodes::kMagic + static_cast<float>(kCoding.bias);
  constexpr int kGroup = kStep * 16 / (kCoding.group < kUnitColumns ? kCoding.group : kUnitColumns);
  std::uint32_t a[4], high[4];
  TheCodes::template decode<kStep>(unit, a);
  if constexpr (TheCodes::kParts == 2) TheCodes::template decode<kStep, 1>(unit, high);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float scale = scales.scale(kGroup, i % 2);
    float offset = 0;
    if constexpr (TheCodes::kNeedsSums) offset = scales.offset(kGroup, i % 2, scale, kMagic);
    const std::int64_t at = column + column_of_register(kStep, quad, i, 0);
    // A unit may end in a turn that mma16 has not.
    if (at / 32 >= (k + 31) / 32) continue;
    *reinterpret_cast<std::uint32_t*>(target + mma16_offset(row + i % 2 * 8, at, k) * 2) =
        weights(a[i], high[i], scale, kUp, offset);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) unpack_codes(const __grid_constant__ UnpackCodesParams p) {
  wait_for_producers();
  release_consumers();
  const std::int64_t unit = (std::int64_t{blockIdx.x} * THREADS + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (unit >= num_units(p.k)) return;
  const auto* codes = static_cast<const char*>(p.packed);
  const char* scales = codes + mma_codes_scales_offset(kCoding, p.n, p.k);
  constexpr int kSpanUnits = span_columns(kCoding) / kUnitColumns;
  constexpr int kSubUnits = sub_span_columns(kCoding) / kUnitColumns;
  const auto sub = static_cast<int>(unit % kSpanUnits / kSubUnits);
  for (std::int64_t tile = blockIdx.y; tile < num_tiles16(p.n); tile += gridDim.y) {
    const auto loaded = TheCodes::load(codes + (tile * num_units(p.k) + unit) * unit_bytes(kCoding), lane);
    const std::int64_t span = tile * num_spans(kCoding, p.k) + unit / kSpanUnits;
    const auto scale = TheScales::load(scales + span * span_bytes(kCoding), sub, lane / 4);
    auto* target = static_cast<char*>(p.target);
    const std::int64_t row = tile * 16 + lane / 4, column = unit * kUnitColumns;
    unpack_step<0>(loaded, scale, target, row, column, p.k, lane % 4);
    unpack_step<1>(loaded, scale, target, row, column, p.k, lane % 4);
    unpack_step<2>(loaded, scale, target, row, column, p.k, lane % 4);
    unpack_step<3>(loaded, scale, target, row, column, p.k, lane % 4);
  }
}
