// y[m, n] = Σ_k x[m, k] · w[n, k] for one to four rows of x, w whole numbers of 4, 6 or 8 bits in the layout mma_codes
// (cuda_mma_codes.h), on sm_90: cuda_mma_bulk_codes.cu with fewer instructions a weight. x becomes whole numbers of 15
// bits under one power of two for 64 columns, at most 2^-14 of their largest away from x: less, over the 64, than
// bf16's 2^-9 of each element. Their high and low bytes are two columns of an integer product, to which codes go as
// they lie, one or two instructions for four of them, and whose sums are exact: only a group's sum becomes a float.
// Bytes: codes and scales once; x once a block. Operations: 4,096 a product of 16 rows and 32 columns. Chosen for
// decode of one to four rows on sm_90. Constants: as cuda_bulk_codes.cuh's, AT_ONCE (units of a warp), NORM (0, 1),
// ELEMENT (of x that comes normed: 0 bf16, 1 f16).
#include "kernels/linear/cuda_bulk_codes.cuh"

namespace pagoda::kernels {

using TheCodes = Codes<kCoding>;
constexpr bool kHalf = ELEMENT == 1;
constexpr int kMostTokens = 4;
constexpr int kSumStride = kMostTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;
constexpr int kUnitGroups = mma_bulk_codes_sums(kCoding);
constexpr int kStepColumns = 16;                      // of a thread that prepares x
constexpr int kUnitSteps = 4;                         // threads of a unit
constexpr int kShare = kGroupColumns / kStepColumns;  // of a group
constexpr int kTurnUnits = 32 / kUnitSteps;           // of a warp that prepares x
constexpr int kAhead = NORM ? 1 : 2;                  // turns whose loads are under way together
constexpr bool kOffsets = kCoding.offset != quant::OffsetType::kNone;
constexpr bool kBias = !kOffsets && kCoding.bias != 0;
constexpr int kUnitWords = whole_bulk_codes_unit_words(kCoding);
static_assert(TheCodes::kBytes);

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

/// 16 columns of x.
struct Step {
#if NORM
  float4 x[4], norm[4];
#else
  Vec16 x[2];
#endif
};

__device__ __forceinline__ Step load_step(const MmaBulkCodesParams& p, int token, std::int64_t column) {
  Step s;
#if NORM
  const float* x = static_cast<const float*>(p.input) + token * p.input_stride + column;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool inside = column + i * 4 < p.k;
    s.x[i] = inside ? reinterpret_cast<const float4*>(x)[i] : float4{};
    s.norm[i] = inside ? reinterpret_cast<const float4*>(p.norm + column)[i] : float4{};
  }
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
    const float w[4] = {s.norm[i].x, s.norm[i].y, s.norm[i].z, s.norm[i].w};
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

/// Each warp makes the columns that it needs itself.
__device__ __forceinline__ void prepare_input(const MmaBulkCodesParams& p, const Slice& slice, Shared& s,
                                              const Input& to) {
  const int warp = threadIdx.x / 32;
  const int step = threadIdx.x % kUnitSteps;
  for (int token = 0; token < p.m; ++token) {
    float squares = 0;
    for (int first = 0; own_unit(warp, first) < slice.count; first += kAhead * kTurnUnits) {
      Step loaded[kAhead];
      int unit[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        unit[i] = own_unit(warp, first + i * kTurnUnits + threadIdx.x % 32 / kUnitSteps);
        const std::int64_t column = std::int64_t{slice.begin + unit[i]} * kUnitColumns + step * kStepColumns;
        loaded[i] = unit[i] < slice.count ? load_step(p, token, column) : Step{};
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (own_unit(warp, first + i * kTurnUnits) >= slice.count) break;  // the same for the whole warp
        float v[16];
        widen(p, loaded[i], v, squares);
        store_step(to, p.m, token, unit[i], step, unit[i] < slice.count, v);
      }
    }
    if constexpr (NORM) {
      squares = warp_sum(squares);
      if (threadIdx.x % 32 == 0) s.squares[token * WARPS + warp] = squares;  // read behind a tile's barrier
    }
  }
  __syncwarp();
}

__device__ __forceinline__ float norm_factor(const MmaBulkCodesParams& p, const Shared& s, int token) {
  if constexpr (!NORM) return kHalf ? p.output_factor : 1.0f;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS; ++i) sum += s.squares[token * WARPS + i];
  return rsqrtf(sum / static_cast<float>(p.k) + p.epsilon);
}

/// c += a · b of 16 rows and 32 columns; `kFirst` begins a sum.
template <bool kFirst>
__device__ __forceinline__ void multiply_bytes(std::int32_t (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                               std::uint32_t a2, std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  const std::int32_t z[4] = {kFirst ? 0 : c[0], kFirst ? 0 : c[1], kFirst ? 0 : c[2], kFirst ? 0 : c[3]};
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
}
/// And of 16 columns.
__device__ __forceinline__ void multiply_bytes(std::int32_t (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                               std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(0));
}

using Sums = float[kSets][2];

/// A unit's codes and scales, of gate and up.
struct Weights {
  TheCodes::Unit codes[kSets];
  TheScales scales[kSets];
};

/// What a unit's x comes with.
struct alignas(kUnitWords == 2 ? 8 : 16) Words {
  std::uint32_t word[kUnitWords];
  __device__ __forceinline__ float step() const { return __uint_as_float(word[kUnitGroups]); }
};

/// A group's exact sums, by high and low bytes, to those of the unit.
__device__ __forceinline__ void add_group(float (&sums)[2], const std::int32_t (&c)[4], const TheScales& scales,
                                          int index, const Words& x) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float scale = scales.scale(index, h);
    // Of x that is not finite these are any numbers: unsigned ones may overflow.
    auto value = static_cast<std::uint32_t>(c[2 * h]) * 256 + static_cast<std::uint32_t>(c[2 * h + 1]);
    if constexpr (kBias) value += x.word[index];
    sums[h] = fmaf(scale, static_cast<float>(static_cast<std::int32_t>(value)), sums[h]);
    if constexpr (kOffsets) {
      const float offset = scales.offset(index, h, scale, static_cast<float>(kCoding.bias));
      sums[h] = fmaf(offset, __uint_as_float(x.word[index]), sums[h]);
    }
  }
}

/// Columns 32·kHalf … of a unit. `x` are their bytes.
template <int kHalf>
__device__ __forceinline__ void multiply_half(Sums& sums, std::int32_t (&c)[kSets][4], const Weights& w, const Vec16& x,
                                              const Words& words) {
  constexpr int kStep = kHalf * 2;
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    std::uint32_t a[4];
    TheCodes::template bytes<kStep>(w.codes[set], a[0], a[1]);
    TheCodes::template bytes<kStep + 1>(w.codes[set], a[2], a[3]);
    if constexpr (kGroupColumns == 16) {
      multiply_bytes(c[set], a[0], a[1], x.word[kStep]);
      add_group(sums[set], c[set], w.scales[set], kStep, words);
      multiply_bytes(c[set], a[2], a[3], x.word[kStep + 1]);
      add_group(sums[set], c[set], w.scales[set], kStep + 1, words);
    } else {
      constexpr bool kFirst = kGroupColumns == 32 || kHalf == 0;
      multiply_bytes<kFirst>(c[set], a[0], a[1], a[2], a[3], x.word[kStep], x.word[kStep + 1]);
      if constexpr (kGroupColumns == 32) {
        add_group(sums[set], c[set], w.scales[set], kHalf, words);
      } else if constexpr (kHalf == 1) {
        add_group(sums[set], c[set], w.scales[set], 0, words);
      }
    }
  }
}

/// Where a lane finds its part of x.
struct Lane {
  const char* bytes;
  const std::uint32_t* words;
  int unit_bytes, unit_words;
};

/// kUnits units in a row: all loads before the first product, so that they are under way together. `unit` counts from
/// the stage's first unit, `of_slice` that one from the slice's first.
template <int kUnits>
__device__ __forceinline__ void multiply(Sums& sums, const char* stage, int unit, int of_slice, const Lane& x,
                                         int lane) {
  Weights w[kUnits];
  Vec16 b[kUnits];
  Words words[kUnits];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int at = unit + u;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const char* from = stage + set * kSetBytes;
      w[u].codes[set] = TheCodes::load(from + at * kUnitBytes, lane);
      // A unit of a wide group finds that group's scales, whichever of its units it is.
      constexpr int kSubUnits = sub_span_columns(kCoding) / kUnitColumns;
      w[u].scales[set] = TheScales::load(from + kStageCodes + at / kSpanUnits * span_bytes(kCoding),
                                         at % kSpanUnits / kSubUnits, lane / 4);
    }
    b[u] = load_vec16(x.bytes + (of_slice + at) * x.unit_bytes);
    words[u] = *reinterpret_cast<const Words*>(x.words + (of_slice + at) * x.unit_words);
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    std::int32_t c[kSets][4];
    Sums unit_sums = {};
    multiply_half<0>(unit_sums, c, w[u], b[u], words[u]);
    multiply_half<1>(unit_sums, c, w[u], b[u], words[u]);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int h = 0; h < 2; ++h) sums[set][h] = fmaf(words[u].step(), unit_sums[set][h], sums[set][h]);
    }
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads + 32, 1)
    whole_bulk_codes(const __grid_constant__ MmaBulkCodesParams p) {
  extern __shared__ __align__(128) char shared[];  // the ring, two sets of the warps' sums, x in bytes, its groups
  __shared__ Shared s;
  char* const ring = shared;
  float* const all_sums = reinterpret_cast<float*>(ring + p.stages * kStageBytes);
  char* const bytes = reinterpret_cast<char*>(all_sums + 2 * kSums);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < p.stages) {
    init_barrier(&s.ring.full[threadIdx.x], 1);
    init_barrier(&s.ring.empty[threadIdx.x], WARPS);
    publish_barriers();
  }
  __syncthreads();

  std::int64_t tiles = 0;
  for (int i = 0; i < (kGated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
  const Slice slice = slice_of_block(p);
  if (warp == WARPS) {
    feed(p, slice, tiles, s.ring, ring);
    wait_for_producers();
    return;
  }
  wait_for_producers();
  release_consumers();
  const auto unit_bytes = static_cast<int>(whole_bulk_codes_unit_bytes(p.m));
  const Input input{bytes, reinterpret_cast<std::uint32_t*>(bytes + mma_bulk_codes_slice(p.k, p.splits) * unit_bytes)};
  prepare_input(p, slice, s, input);

  const int row = lane / 4;
  const int token = lane % 4;
  // Columns past the last token's are never looked at: any bytes will do.
  const Lane x{input.bytes + (min(row, 2 * p.m - 1) * 4 + token) * 16, input.words + min(token, p.m - 1) * kUnitWords,
               unit_bytes, p.m * kUnitWords};
  Cursor at{0, 0};
  int buffer = 0;
  for (std::int64_t tile = blockIdx.x / p.splits; tile < tiles; tile += gridDim.x / p.splits, buffer ^= 1) {
    const Place place = locate(p, tile);
    const float before = fetch_before(p, place);
    Sums sums = {};
    for (int first = 0; first < slice.count; first += STAGE_UNITS, at.advance(p.stages)) {
      const char* stage = ring + at.slot * kStageBytes;
      wait_barrier(&s.ring.full[at.slot], at.parity);
      if (first + STAGE_UNITS <= slice.count) {
#pragma unroll
        for (int i = 0; i < STAGE_UNITS; i += WARPS * kAtOnce) {
          multiply<kAtOnce>(sums, stage, i + warp * kAtOnce, first, x, lane);
        }
      } else {
        for (int i = 0; i < STAGE_UNITS / WARPS && own_unit(warp, i) < slice.count - first; ++i) {
          multiply<1>(sums, stage, own_unit(warp, i), first, x, lane);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(&s.ring.empty[at.slot]);
    }

    // Two buffers, so that one barrier a tile is enough.
    float* all = all_sums + buffer * kSums;
    if (token < p.m) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          all[((warp * kSets + set) * 16 + row + h * 8) * kSumStride + token] = sums[set][h];
        }
      }
    }
    sync_threads<1>(kThreads);
    finish_tile<kSumStride>(p, slice, place, all, before, [&](int t) { return norm_factor(p, s, t); });
  }
}
