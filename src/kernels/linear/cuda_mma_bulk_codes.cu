// y[m, n] = Σ_k x[m, k] · w[n, k] for few rows of x, w in the layout mma_codes (cuda_mma_codes.h), on sm_90: what
// cuda_mma_bulk_rows.cu is for bf16. A warp takes every WARPS-th unit of 64 columns of a tile: it makes fragments of
// the codes in registers, multiplies, and adds the group's sums, scaled, to its own in float; so no weight is
// rounded. Σx of the groups, which offsets and the codes' own bias are multiplied with, is made once a block by
// products with ones. Bytes: codes and scales once; x once a block. Chosen for decode of few rows on sm_90. Constants:
// FORMAT, TOKEN_TILES, WARPS, STAGE_UNITS (a multiple of WARPS and of 4), NORM (0, 1), EPILOGUE (0 bf16, 1 float, 2
// residual +=, 3 SiLU, 4 GELU), ELEMENT (of x: 0 bf16, 1 f16).
#include "kernels/cuda/fragments.cuh"
#include "kernels/linear/cuda_bulk_codes.cuh"

namespace pagoda::kernels {

constexpr int kTokens = TOKEN_TILES * 8;
constexpr int kSumStride = kTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;
constexpr int kAhead = 4;  // loads of x under way in a thread
constexpr bool kHalf = ELEMENT == 1;
using TheCodes = Codes<kCoding, kHalf>;
constexpr int kUnitSums = mma_bulk_codes_sums(kCoding);
constexpr int kSquares = kTokens > WARPS ? kTokens : WARPS;
constexpr float kOutputFactor = power_of_two(TheCodes::kExponent - TheCodes::kInputExponent);
constexpr float kInputFactor = power_of_two(TheCodes::kInputExponent);

struct Shared {
  Ring ring;
  Barrier input;
  float squares[kSquares];  // of a token, by the warps that share it
};

/// Warps that share a token's norm.
__device__ __forceinline__ int warps_a_token(int m) {
  int share = WARPS;
  while (share > 1 && (WARPS / share) < m) share /= 2;
  return share;
}

/// bf16 rows of x times kInputFactor; zeros up to the slice's last unit.
__device__ __forceinline__ void enlarge_input(const MmaBulkCodesParams& p, const Slice& slice, char* x) {
  constexpr int kChunks = kUnitColumns / 8;  // of 16 bytes, a lane each
  constexpr int kTurn = 32 / kChunks * WARPS;
  const std::int64_t stride = mma_bulk_codes_stride(p.k, p.splits);
  const int chunk = threadIdx.x % kChunks;
  const int begin = threadIdx.x / 32 + threadIdx.x % 32 / kChunks * WARPS;
  for (int token = 0; token < p.m; ++token) {
    const std::int64_t first_column = std::int64_t{slice.begin} * kUnitColumns + chunk * 8;
    const auto* from = static_cast<const std::uint16_t*>(p.input) + token * p.input_stride + first_column;
    for (int first = begin; first < slice.count; first += kAhead * kTurn) {
      Vec16 v[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int unit = first + i * kTurn;
        const bool inside = unit < slice.count && first_column + unit * kUnitColumns < p.k;
        v[i] = inside ? load_vec16(from + unit * kUnitColumns) : Vec16{};
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int unit = first + i * kTurn;
        if (unit >= slice.count) break;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          v[i].word[w] = pack_bf16(bf16_low(v[i].word[w]) * kInputFactor, bf16_high(v[i].word[w]) * kInputFactor);
        }
        store_vec16(x + token * stride + unit * 128 + chunk * 16, v[i]);
      }
    }
  }
}

#if NORM
/// A thread's part of a turn over a token's residual: elements and the norm's weights.
struct Turn {
  float4 v[kAhead], w[kAhead];

  /// All loads of a turn before the first use: the loop waits once for them.
  __device__ __forceinline__ void load(const float4* source, const float4* norm, int first, int step, int chunks) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool inside = first + i * step < chunks;
      v[i] = inside ? source[first + i * step] : float4{};
      w[i] = inside ? norm[first + i * step] : float4{};
    }
  }
  __device__ __forceinline__ float squares(float sum) const {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      sum = fmaf(v[i].x, v[i].x, fmaf(v[i].y, v[i].y, fmaf(v[i].z, v[i].z, fmaf(v[i].w, v[i].w, sum))));
    return sum;
  }
  __device__ __forceinline__ void store(uint2* x, float factor, float shift, int first, int step, int chunks) const {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i * step >= chunks) break;
      uint2 packed;
      packed.x = pack(v[i].x * (w[i].x + shift) * factor, v[i].y * (w[i].y + shift) * factor);
      packed.y = pack(v[i].z * (w[i].z + shift) * factor, v[i].w * (w[i].w + shift) * factor);
      x[first + i * step] = packed;
    }
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    return kHalf ? pack_f16(low, high) : pack_bf16(low, high);
  }
};

/// 1 / the root of a token's mean square.
__device__ __forceinline__ float norm_factor(const MmaBulkCodesParams& p, const Shared& s, int token) {
  const int share = warps_a_token(p.m);
  float sum = 0;
  for (int i = 0; i < share; ++i) sum += s.squares[token * share + i];
  return rsqrtf(sum / static_cast<float>(p.k) + p.epsilon);
}
#endif

/// x·w of the norm, and the squares' sums; zeros up to the slice's last unit. f16 has no room for what a residual may
/// be: it is normed before it is rounded, bf16 with the sums.
__device__ __forceinline__ void prepare_input(const MmaBulkCodesParams& p, const Slice& slice, Shared& s, char* x) {
  if constexpr (!NORM && TheCodes::kInputExponent != 0) {
    enlarge_input(p, slice, x);
    return sync_threads<1>(kThreads);  // rows past the last token read what other warps have made
  }
  const std::int64_t stride = mma_bulk_codes_stride(p.k, p.splits);
  const std::int64_t columns =
      min(p.k - std::int64_t{slice.begin} * kUnitColumns, std::int64_t{slice.count} * kUnitColumns);
#if !NORM
  if (threadIdx.x == 0) {
    const auto bytes = static_cast<std::uint32_t>(max(std::int64_t{0}, columns) * 2);
    arrive_expecting(&s.input, bytes * p.m);
    for (int token = 0; bytes > 0 && token < p.m; ++token) {
      const std::int64_t first = token * p.input_stride + std::int64_t{slice.begin} * kUnitColumns;
      copy_bulk(x + token * stride, static_cast<const char*>(p.input) + first * 2, bytes, &s.input);
    }
  }
#endif
  const int empty = static_cast<int>(slice.count * kUnitColumns - columns) / 8;  // 16-byte chunks past the matrix
  for (int i = threadIdx.x; i < empty * p.m; i += kThreads) {
    store_vec16(x + i / empty * stride + columns * 2 + i % empty * 16, Vec16{});
  }
#if NORM
  const int warp = threadIdx.x / 32;
  const int share = warps_a_token(p.m);
  const int chunks = static_cast<int>(p.k / 4);
  const int token = warp / share;  // no more tokens than warps are normed
  const bool mine = token < p.m;
  const float4* source = reinterpret_cast<const float4*>(static_cast<const float*>(p.input) + token * p.input_stride);
  const float4* weights = reinterpret_cast<const float4*>(p.norm);
  uint2* to = reinterpret_cast<uint2*>(x + token * stride);
  const int begin = warp % share * 32 + threadIdx.x % 32;
  const int step = share * 32;
  Turn turn;
  if (mine) {
    float sum = 0;
    if constexpr (kHalf) {
      // The last turn first: the first one's elements stay in registers.
      const int last = max(chunks - 1 - begin, 0) / (kAhead * step);
      for (int first = begin + last * kAhead * step; first >= begin; first -= kAhead * step) {
        turn.load(source, weights, first, step, chunks);
        sum = turn.squares(sum);
      }
    } else {
      for (int first = begin; first < chunks; first += kAhead * step) {
        turn.load(source, weights, first, step, chunks);
        sum = turn.squares(sum);
        turn.store(to, kInputFactor, p.norm_shift, first, step, chunks);
      }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) s.squares[token * share + warp % share] = sum;
  }
  if constexpr (kHalf) {
    sync_threads<1>(kThreads);
    if (mine) {
      const float factor = norm_factor(p, s, token) * p.input_factor;
      turn.store(to, factor, p.norm_shift, begin, step, chunks);
      for (int first = begin + kAhead * step; first < chunks; first += kAhead * step) {
        turn.load(source, weights, first, step, chunks);
        turn.store(to, factor, p.norm_shift, first, step, chunks);
      }
    }
  }
#endif
  sync_threads<1>(kThreads);
#if !NORM
  wait_barrier(&s.input, 0);
#endif
}

/// What a token's sums are multiplied with.
__device__ __forceinline__ float output_factor(const MmaBulkCodesParams& p, const Shared& s, int token) {
  if constexpr (kHalf) return kOutputFactor * p.output_factor;
#if NORM
  return norm_factor(p, s, token) * kOutputFactor;
#else
  return kOutputFactor;
#endif
}

using Sums = float[kSets][TOKEN_TILES][4];

/// Adds a group's sums, scaled, to the lane's own. `x_sums` are Σx of the group for the lane's tokens.
__device__ __forceinline__ void add_group(float (&sums)[TOKEN_TILES][4], const float (&group)[TOKEN_TILES][4],
                                          const TheScales& scales, int index, const float* x_sums) {
  float scale[2], offset[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    scale[h] = scales.scale(index, h);
    if constexpr (TheCodes::kNeedsSums) {
      offset[h] = scales.offset(index, h, scale[h], TheCodes::kMagic + static_cast<float>(kCoding.bias));
    }
  }
#pragma unroll
  for (int t = 0; t < TOKEN_TILES; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[t][e] = fmaf(scale[e / 2], group[t][e], sums[t][e]);
    if constexpr (TheCodes::kNeedsSums) {
      const float2 x = *reinterpret_cast<const float2*>(x_sums + t * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[t][e] = fmaf(offset[e / 2], e % 2 == 0 ? x.x : x.y, sums[t][e]);
    }
  }
}

using Groups = float[kSets][TOKEN_TILES][4];

/// A unit's codes and scales, of gate and up.
struct Weights {
  TheCodes::Unit codes[kSets];
  TheScales scales[kSets];
};

/// mma_bf16 or mma_f16, but free to move: products of several units under way fill each other's time.
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
#if ELEMENT == 1
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Where a lane's row of eight tokens' x is loaded from, of each token tile.
struct Input {
  const char* row[TOKEN_TILES];
};

/// Columns 16·kStep … of a unit. `b` is x there, `x_sums` the lane's place in the unit's sums.
template <int kStep>
__device__ __forceinline__ void multiply_step(Sums& sums, Groups& group, const Weights& w,
                                              const std::uint32_t (&b)[TOKEN_TILES][4], const float* x_sums) {
  constexpr int kColumn = kStep * 16;
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    std::uint32_t a[TheCodes::kParts][4];
    TheCodes::template decode<kStep>(w.codes[set], a[0]);
    if constexpr (TheCodes::kParts == 2) TheCodes::template decode<kStep, 1>(w.codes[set], a[1]);
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; ++t) {
      if constexpr (kColumn % kGroupColumns == 0) {
#pragma unroll
        for (int e = 0; e < 4; ++e) group[set][t][e] = 0;
      }
#pragma unroll
      for (int part = 0; part < TheCodes::kParts; ++part) {
        multiply_add(group[set][t], a[part], b[t][kStep % 2 * 2], b[t][kStep % 2 * 2 + 1]);
      }
    }
    if constexpr ((kColumn + 16) % kGroupColumns == 0) {
      constexpr int kIndex = kColumn / kGroupColumns;
      add_group(sums[set], group[set], w.scales[set], kIndex, x_sums + kIndex * kTokens);
    }
  }
}

/// Loads a unit: 64 columns of 16 rows. `stage` is the first set's place in the ring, `unit` the unit's number in it,
/// `x_offset` the unit's place in a row of x.
__device__ __forceinline__ void load_unit(Weights& w, std::uint32_t (&b)[2][TOKEN_TILES][4], const char* stage,
                                          int unit, const Input& input, int x_offset, int lane) {
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    const char* from = stage + set * kSetBytes;
    w.codes[set] = TheCodes::load(from + unit * kUnitBytes, lane);
    // A unit of a wide group finds that group's scales, whichever of its units it is.
    constexpr int kSubUnits = sub_span_columns(kCoding) / kUnitColumns;
    w.scales[set] = TheScales::load(from + kStageCodes + unit / kSpanUnits * span_bytes(kCoding),
                                    unit % kSpanUnits / kSubUnits, lane / 4);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; ++t) load_matrix_x4(b[half][t], input.row[t] + x_offset + half * 64);
  }
}

/// kUnits units of a warp, WARPS apart: all loads before the first product, so that they are under way together.
template <int kUnits>
__device__ __forceinline__ void multiply(Sums& sums, const char* stage, int unit, const Input& input, int x_offset,
                                         const float* x_sums, int lane) {
  Weights w[kUnits];
  std::uint32_t b[kUnits][2][TOKEN_TILES][4];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    load_unit(w[u], b[u], stage, unit + u * WARPS, input, x_offset + u * WARPS * 128, lane);
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const float* own = x_sums + u * WARPS * kUnitSums * kTokens;
    Groups group;
    multiply_step<0>(sums, group, w[u], b[u][0], own);
    multiply_step<1>(sums, group, w[u], b[u][0], own);
    multiply_step<2>(sums, group, w[u], b[u][1], own);
    multiply_step<3>(sums, group, w[u], b[u][1], own);
  }
}

/// Σx of the groups of `kUnits` units of a warp, WARPS apart, for all tokens: products with ones, whose rows are all
/// the same. `x_offset` and `x_sums` are the first unit's. Several units fill the time that one product takes.
template <int kUnits>
__device__ __forceinline__ void sum_input(const Input& input, int x_offset, float* x_sums, int lane) {
  constexpr std::uint32_t kOne = kHalf ? 0x3c003c00u : 0x3f803f80u;
  constexpr std::uint32_t kOnes[4] = {kOne, kOne, kOne, kOne};
#pragma unroll
  for (int t = 0; t < TOKEN_TILES; ++t) {
    std::uint32_t b[kUnits][2][4];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_matrix_x4(b[u][half], input.row[t] + x_offset + u * WARPS * 128 + half * 64);
      }
    }
    float group[kUnits][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (step * 16 % kGroupColumns == 0) {
#pragma unroll
          for (int e = 0; e < 4; ++e) group[u][e] = 0;
        }
        multiply_add(group[u], kOnes, b[u][step / 2][step % 2 * 2], b[u][step / 2][step % 2 * 2 + 1]);
        if ((step + 1) * 16 % kGroupColumns == 0 && lane < 4) {
          float* to = x_sums + (u * WARPS * kUnitSums + step * 16 / kGroupColumns) * kTokens + t * 8;
          *reinterpret_cast<float2*>(to) = float2{group[u][0], group[u][1]};
        }
      }
    }
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads + 32, 1)
    mma_bulk_codes(const __grid_constant__ MmaBulkCodesParams p) {
  extern __shared__ __align__(128) char shared[];  // the ring, two sets of the warps' sums, x, its sums
  __shared__ Shared s;
  char* const ring = shared;
  float* const all_sums = reinterpret_cast<float*>(ring + p.stages * kStageBytes);
  char* const x = reinterpret_cast<char*>(all_sums + 2 * kSums);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < p.stages) {
    init_barrier(&s.ring.full[threadIdx.x], 1);
    init_barrier(&s.ring.empty[threadIdx.x], WARPS);
    if (threadIdx.x == 0) init_barrier(&s.input, 1);
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
  prepare_input(p, slice, s, x);

  const std::int64_t stride = mma_bulk_codes_stride(p.k, p.splits);
  const int group = lane / 4;
  const int quad = lane % 4;
  Input input;
#pragma unroll
  for (int t = 0; t < TOKEN_TILES; ++t) {
    // Rows past the last read something beside the first's x, from banks of their own: these sums are never stored.
    const int token = t * 8 + lane % 8;
    input.row[t] = x + (token < p.m ? token * stride : lane % 8 * 16) + lane / 8 * 16 + warp * 128;
  }
  float* my_x_sums = reinterpret_cast<float*>(x + p.m * stride) + warp * kUnitSums * kTokens + quad * 2;
  if constexpr (TheCodes::kNeedsSums) {
    int unit = 0;  // from the warp's first on
    for (; warp + unit + 3 * WARPS < slice.count; unit += 4 * WARPS) {
      sum_input<4>(input, unit * 128, my_x_sums + unit * kUnitSums * kTokens, lane);
    }
    for (; warp + unit < slice.count; unit += WARPS) {
      sum_input<1>(input, unit * 128, my_x_sums + unit * kUnitSums * kTokens, lane);
    }
    __syncwarp();
  }
  Cursor at{0, 0};
  int turn = 0;
  for (std::int64_t tile = blockIdx.x / p.splits; tile < tiles; tile += gridDim.x / p.splits, ++turn) {
    const Place place = locate(p, tile);
    const float before = fetch_before(p, place, turn);
    Sums sums = {};
    for (int first = 0; first < slice.count; first += STAGE_UNITS, at.advance(p.stages)) {
      const char* stage = ring + at.slot * kStageBytes;
      const float* x_sums = my_x_sums + first * kUnitSums * kTokens;
      wait_barrier(&s.ring.full[at.slot], at.parity);
      if (first + STAGE_UNITS <= slice.count) {
#pragma unroll
        for (int i = 0; i < STAGE_UNITS; i += WARPS * kAtOnce) {
          multiply<kAtOnce>(sums, stage, warp + i, input, (first + i) * 128, x_sums + i * kUnitSums * kTokens, lane);
        }
      } else {
        for (int i = 0; first + warp + i < slice.count && i < STAGE_UNITS; i += WARPS) {
          multiply<1>(sums, stage, warp + i, input, (first + i) * 128, x_sums + i * kUnitSums * kTokens, lane);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(&s.ring.empty[at.slot]);
    }

    // The warps' sums, added in their order. Two buffers, so that one barrier a tile is enough.
    float* all = all_sums + turn % 2 * kSums;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int t = 0; t < TOKEN_TILES; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = group + (i / 2) * 8;
          const int token = t * 8 + quad * 2 + i % 2;
          if (token < p.m) all[((warp * kSets + set) * 16 + row) * kSumStride + token] = sums[set][t][i];
        }
      }
    }
    sync_threads<1>(kThreads);
    finish_tile<kSumStride>(p, slice, place, turn, all, before, [&](int token) { return output_factor(p, s, token); });
  }
}
