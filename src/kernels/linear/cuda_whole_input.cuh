// x of cuda_whole_bulk_codes.cu in shared memory. Beside whole numbers it is whole numbers of 15 bits, as bytes, under
// one power of two for 64 columns: at most 2^-14 of their largest away from x, less, over the 64, than bf16's 2^-9 of
// each element. Beside e2m1 it is bf16, as far above one as these codes are below (cuda_codes.cuh). Constants: as
// cuda_whole_bulk_codes.cu's.
#pragma once

#include "kernels/linear/cuda_bulk_codes.cuh"

namespace pagoda::kernels {

using TheCodes = Codes<kCoding>;
constexpr bool kHalf = ELEMENT == 1;
constexpr bool kFloat = kCoding.table != quant::CodeTable::kInteger;
constexpr int kMostTokens = 4;
constexpr int kUnitGroups = mma_bulk_codes_sums(kCoding);
constexpr int kStepColumns = 16;                      // of a thread that prepares x
constexpr int kUnitSteps = 4;                         // threads of a unit
constexpr int kShare = kGroupColumns / kStepColumns;  // of a group
constexpr int kTurnUnits = 32 / kUnitSteps;           // of a warp that prepares x
constexpr int kAhead = NORM ? 1 : 2;                  // turns whose loads are under way together
constexpr bool kOffsets = kCoding.offset != quant::OffsetType::kNone;
constexpr bool kBias = !kOffsets && kCoding.bias != 0;
constexpr int kUnitWords = whole_bulk_codes_unit_words(kCoding);
static_assert(kFloat ? kCoding.table == quant::CodeTable::kE2m1 && !kHalf : TheCodes::kBytes);

struct Shared {
  Ring ring;
  float squares[kMostTokens * WARPS];
};

/// x of a block: bytes by unit, token, part (high, low), quad and step, so that a lane loads a unit's four steps at
/// once; and words by unit and token: of each group the sum of its whole numbers (a float where weights have offsets;
/// times -bias where codes have a bias), and what one of the unit's whole numbers stands for.
struct Input {
  char* bytes;
  std::uint32_t* words;
};

/// The warp's `index`th unit: it takes kAtOnce in a row, which share what 256 columns share.
__device__ __forceinline__ int own_unit(int warp, int index) {
  return index / kAtOnce * (WARPS * kAtOnce) + warp * kAtOnce + index % kAtOnce;
}

/// 16 columns of x, and the norm's weights there.
struct Norm {
  float4 w[NORM ? 4 : 1];
};
struct Step {
#if NORM
  float4 x[4];
  Norm norm;
#else
  Vec16 x[2];
#endif
};

__device__ __forceinline__ Norm load_norm(const MmaBulkCodesParams& p, std::int64_t column) {
  Norm norm{};
  if constexpr (NORM) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i * 4 < p.k) norm.w[i] = reinterpret_cast<const float4*>(p.norm + column)[i];
    }
  }
  return norm;
}

__device__ __forceinline__ Step load_step(const MmaBulkCodesParams& p, int token, std::int64_t column) {
  Step s;
#if NORM
  const float* x = static_cast<const float*>(p.input) + token * p.input_stride + column;
#pragma unroll
  for (int i = 0; i < 4; ++i) s.x[i] = column + i * 4 < p.k ? reinterpret_cast<const float4*>(x)[i] : float4{};
#else
  const auto* x = static_cast<const std::uint16_t*>(p.input) + token * p.input_stride + column;
#pragma unroll
  for (int i = 0; i < 2; ++i) s.x[i] = column + i * 8 < p.k ? load_vec16(x + i * 8) : Vec16{};
#endif
  return s;
}

/// Its values, times the norm's weights where the unit norms; adds their squares before that.
__device__ __forceinline__ void widen(const MmaBulkCodesParams& p, const Step& s, float (&v)[16], float& squares) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if NORM
    const float x[4] = {s.x[i].x, s.x[i].y, s.x[i].z, s.x[i].w};
    const float w[4] = {s.norm.w[i].x, s.norm.w[i].y, s.norm.w[i].z, s.norm.w[i].w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      squares = fmaf(x[e], x[e], squares);
      v[i * 4 + e] = x[e] * (w[e] + p.norm_shift);
    }
#else
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const std::uint32_t pair = s.x[i / 2].word[i % 2 * 2 + e / 2];
      v[i * 4 + e] = kHalf ? from_f16(static_cast<std::uint16_t>(pair)) : bf16_low(pair);
      v[i * 4 + e + 1] = kHalf ? from_f16(static_cast<std::uint16_t>(pair >> 16)) : bf16_high(pair);
    }
#endif
  }
}

/// x as bf16: words by unit, token, quad, step and half of the step.
__device__ __forceinline__ void store_floats(const Input& to, int m, int token, int unit, int step, bool inside,
                                             const float (&v)[16]) {
  constexpr float kFactor = power_of_two(TheCodes::kInputExponent);
  if (!inside) return;
  char* const at = to.bytes + unit * whole_bulk_codes_unit_bytes(m) + token * 128 + step * 8;
#pragma unroll
  for (int c = 0; c < 8; c += 2) {
    *reinterpret_cast<uint2*>(at + c * 16) =
        uint2{pack_bf16(v[c] * kFactor, v[c + 1] * kFactor), pack_bf16(v[c + 8] * kFactor, v[c + 9] * kFactor)};
  }
}

/// Makes a step of a unit whole numbers. All lanes of a warp take part; four in a row have a unit.
__device__ __forceinline__ void store_step(const Input& to, int m, int token, int unit, int step, bool inside,
                                           const float (&v)[16]) {
  // As bits, what is not finite is larger than all numbers.
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) most = max(most, __float_as_uint(v[i]) & 0x7fffffffu);
#pragma unroll
  for (int other = 1; other < kUnitSteps; other *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, other));
  // 2^(e + 1) > |x| becomes 2^14; below 2^-100 it is less.
  const std::uint32_t exponent = max(most >> 23, 27u);
  const float by = __uint_as_float((267 - min(exponent, 254u)) << 23);
  const std::uint32_t back = exponent == 255 ? 0x7fc00000u : (exponent - 13) << 23;
  constexpr float kLift = 12582912.0f;  // 1.5 · 2^23, whose lowest bits become the whole number
  std::uint32_t low[16], high[16];
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    low[i] = __float_as_uint(fmaf(v[i], by, kLift));
    high[i] = low[i] + 128;  // the low byte is signed
    sum += low[i];
  }
  sum -= 16u * 0x4b400000u;
#pragma unroll
  for (int other = 1; other < kShare; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
  if (!inside) return;
  char* const at = to.bytes + unit * whole_bulk_codes_unit_bytes(m) + token * 128 + step * 4;
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    const int c = quad * 2;
    const std::uint32_t highs =
        __byte_perm(__byte_perm(high[c], high[c + 8], 0x0051), __byte_perm(high[c + 1], high[c + 9], 0x0051), 0x5410);
    const std::uint32_t lows =
        __byte_perm(__byte_perm(low[c], low[c + 8], 0x0040), __byte_perm(low[c + 1], low[c + 9], 0x0040), 0x5410);
    *reinterpret_cast<std::uint32_t*>(at + quad * 16) = highs;
    *reinterpret_cast<std::uint32_t*>(at + 64 + quad * 16) = lows;
  }
  std::uint32_t* const words = to.words + (unit * m + token) * kUnitWords;
  if (step % kShare == 0) {
    const auto whole = static_cast<std::int32_t>(sum);
    words[step / kShare] =
        kBias ? static_cast<std::uint32_t>(-kCoding.bias * whole) : __float_as_uint(static_cast<float>(whole));
  }
  if (step == 0) words[kUnitGroups] = back;
}

/// Steps that a lane loads together.
struct Batch {
  Step steps[kAhead];
};

/// The thread's unit of a turn over the warp's units that begins with its `first`th; and its columns there.
__device__ __forceinline__ int turn_unit(int warp, int first) {
  return own_unit(warp, first + static_cast<int>(threadIdx.x % 32) / kUnitSteps);
}
__device__ __forceinline__ std::int64_t turn_column(const Slice& slice, int unit) {
  return std::int64_t{slice.begin + unit} * kUnitColumns + threadIdx.x % kUnitSteps * kStepColumns;
}

/// Norm weights of the warp's first turn.
__device__ __forceinline__ Norm first_norm(const MmaBulkCodesParams& p, const Slice& slice) {
  const int unit = turn_unit(threadIdx.x / 32, 0);
  return unit < slice.count ? load_norm(p, turn_column(slice, unit)) : Norm{};
}

/// Turns of a warp over its units, from its `first`th on. Past the slice there are zeros.
__device__ __forceinline__ Batch load_batch(const MmaBulkCodesParams& p, const Slice& slice, int warp, int token,
                                            int first, const Norm& norm) {
  Batch batch;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int unit = turn_unit(warp, first + i * kTurnUnits);
    batch.steps[i] = unit < slice.count ? load_step(p, token, turn_column(slice, unit)) : Step{};
#if NORM
    batch.steps[i].norm = first + i == 0 ? norm : unit < slice.count ? load_norm(p, turn_column(slice, unit)) : Norm{};
#endif
  }
  return batch;
}

/// Each warp makes the columns that it needs itself. The next batch is under way while one is made: behind the weights
/// that the block has under way too, x takes more than a microsecond to come.
__device__ __forceinline__ void prepare_input(const MmaBulkCodesParams& p, const Slice& slice, Shared& s,
                                              const Input& to, const Norm& norm) {
  const int warp = threadIdx.x / 32;
  const int step = threadIdx.x % kUnitSteps;
  float squares = 0;
  int token = 0, first = 0;
  Batch batch = load_batch(p, slice, warp, 0, 0, norm);
  while (token < p.m) {
    int next_token = token, next_first = first + kAhead * kTurnUnits;
    if (own_unit(warp, next_first) >= slice.count) {
      ++next_token;
      next_first = 0;
    }
    Batch next;
    if (next_token < p.m) next = load_batch(p, slice, warp, next_token, next_first, norm);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (own_unit(warp, first + i * kTurnUnits) >= slice.count) break;  // the same for the whole warp
      const int unit = turn_unit(warp, first + i * kTurnUnits);
      float v[16];
      widen(p, batch.steps[i], v, squares);
      if constexpr (kFloat) {
        store_floats(to, p.m, token, unit, step, unit < slice.count, v);
      } else {
        store_step(to, p.m, token, unit, step, unit < slice.count, v);
      }
    }
    if (NORM && next_token != token) {
      squares = warp_sum(squares);
      if (threadIdx.x % 32 == 0) s.squares[token * WARPS + warp] = squares;  // read behind a tile's barrier
      squares = 0;
    }
    token = next_token;
    first = next_first;
    batch = next;
  }
  __syncwarp();
}

__device__ __forceinline__ float norm_factor(const MmaBulkCodesParams& p, const Shared& s, int token) {
  constexpr float kFactor = kFloat ? power_of_two(TheCodes::kExponent - TheCodes::kInputExponent) : 1.0f;
  if constexpr (!NORM) return kHalf ? p.output_factor : kFactor;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS; ++i) sum += s.squares[token * WARPS + i];
  return rsqrtf(sum / static_cast<float>(p.k) + p.epsilon) * kFactor;
}

}  // namespace pagoda::kernels
