// y[m, n] = Σ_k x[m, k] · w[n, k] for few rows of x, w bf16 in the layout mma16 (see cuda_mma_rows.cu), on sm_90.
// A tile of 16 rows is contiguous there, so one warp feeds a block: it streams tile after tile through a ring in shared
// memory with bulk copies, while WARPS warps share each stage's columns. One block a multiprocessor, with all its shared
// memory: it fills the ring while other blocks still end the kernel before. At most `window` stages are under way: 48
// KiB reach 4.4 TB/s, and more only queue before x, which the next product waits for. A norm costs one pass over x: its
// factor is a scalar of the row, and multiplies the sums at the end. With `splits` > 1 each slice of k leaves sums of
// its own, which cuda_rms_norm.cu adds: x is shorter then and tiles spread evenly.
// Bytes: the weights once; x once a block. Chosen for decode of few rows on sm_90. Best on an H200, 2026-11-30, all
// products of a step: Llama-1B 0.69, Qwen3-4B 2.12, Llama-8B 3.48 ms (8 warps, 16 turns, window 3, norm within).
// Constants: TOKEN_TILES, WARPS, STAGE_TURNS (32 columns each; a multiple of WARPS), NORM (0, 1), RELEASE (0 before the
// wait, 1 after it, 2 when the last weight is under way), EPILOGUE (0 bf16, 1 float, 2 residual +=, 3 SiLU, 4 GELU).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_mma_bulk_rows.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr int kSets = kGated ? 2 : 1;
constexpr int kThreads = WARPS * 32;  // and one warp that feeds them
constexpr int kTokens = TOKEN_TILES * 8;
constexpr int kSumStride = kTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;
constexpr int kMaxStages = 32;
constexpr int kAhead = 4;  // loads of x under way in a thread
constexpr int kSetBytes = STAGE_TURNS * 1024;
constexpr int kStageBytes = kSets * kSetBytes;
constexpr int kSquares = kTokens > WARPS ? kTokens : WARPS;
static_assert(STAGE_TURNS % WARPS == 0);

struct Shared {
  Barrier full[kMaxStages], empty[kMaxStages], input;
  float squares[kSquares];  // of a token, by the warps that share it
};

/// The columns of one block: 32-column turns [begin, begin + count) of each tile.
struct Slice {
  int index, begin, count, tile_turns;
};

__device__ __forceinline__ Slice slice_of_block(const MmaBulkRowsParams& p) {
  const int all = static_cast<int>((p.k + 31) / 32);
  const int each = (all + p.splits - 1) / p.splits;
  const int index = static_cast<int>(blockIdx.x) % p.splits;
  return {index, index * each, max(0, min(each, all - index * each)), all};
}

/// A tile of 16 rows of one weight, by its number over all weights.
struct Place {
  int weight;
  std::int64_t tile;
};

__device__ __forceinline__ Place locate(const MmaBulkRowsParams& p, std::int64_t tile) {
  int which = 0;
  if constexpr (!kGated) {
    while (which + 1 < p.num_weights && tile >= (p.weights[which].n + 15) / 16) {
      tile -= (p.weights[which].n + 15) / 16;
      ++which;
    }
  }
  return {which, tile};
}

/// Warps that share a token's norm.
__device__ __forceinline__ int warps_a_token(int m) {
  int share = WARPS;
  while (share > 1 && (WARPS / share) < m) share /= 2;
  return share;
}

/// The feeding warp's whole work.
__device__ __forceinline__ void feed(const MmaBulkRowsParams& p, const Slice& slice, std::int64_t tiles, Shared& s,
                                     char* ring) {
  const int lane = threadIdx.x % 32;
  Cursor at{0, 1};  // an empty ring: its first waits pass at once
  Cursor landed{0, 0};
  int under_way = 0;
  const int block = static_cast<int>(blockIdx.x) / p.splits;
  const int window = block < p.long_blocks ? p.long_window : p.window;
  for (std::int64_t tile = block; tile < tiles; tile += gridDim.x / p.splits) {
    const Place place = locate(p, tile);
    for (int turn = 0; turn < slice.count; turn += STAGE_TURNS, at.advance(p.stages)) {
      wait_barrier(&s.empty[at.slot], at.parity);
      if (under_way == window) {
        wait_barrier(&s.full[landed.slot], landed.parity);
        landed.advance(p.stages);
      } else {
        ++under_way;
      }
      const auto bytes = static_cast<std::uint32_t>(min(STAGE_TURNS, slice.count - turn) * 1024);
      if (lane == 0) {
        arrive_expecting(&s.full[at.slot], bytes * kSets);
        const std::int64_t from = (place.tile * slice.tile_turns + slice.begin + turn) * 1024;
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          copy_bulk(ring + at.slot * kStageBytes + set * kSetBytes,
                    static_cast<const char*>(p.weights[place.weight + set].data) + from, bytes, &s.full[at.slot]);
        }
      }
      __syncwarp();
    }
  }
  if constexpr (RELEASE == 2) release_consumers();
}

/// x·w of the norm as bf16, and the squares' sums; zeros up to the slice's last turn.
__device__ __forceinline__ void prepare_input(const MmaBulkRowsParams& p, const Slice& slice, Shared& s, char* x) {
  const std::int64_t stride = mma_bulk_rows_stride(p.k, p.splits);
  const std::int64_t columns = min(p.k - std::int64_t{slice.begin} * 32, std::int64_t{slice.count} * 32);
#if !NORM
  if (threadIdx.x == 0) {
    const auto bytes = static_cast<std::uint32_t>(max(std::int64_t{0}, columns) * 2);
    arrive_expecting(&s.input, bytes * p.m);
    for (int token = 0; bytes > 0 && token < p.m; ++token) {
      const std::int64_t first = token * p.input_stride + std::int64_t{slice.begin} * 32;
      copy_bulk(x + token * stride, static_cast<const char*>(p.input) + first * 2, bytes, &s.input);
    }
  }
#endif
  const int empty = static_cast<int>(slice.count * 32 - columns) / 8;  // 16-byte chunks past the matrix
  for (int i = threadIdx.x; i < empty * p.m; i += kThreads) {
    store_vec16(x + i / empty * stride + columns * 2 + i % empty * 16, Vec16{});
  }
#if NORM
  const int warp = threadIdx.x / 32;
  const int share = warps_a_token(p.m);
  const int chunks = static_cast<int>(p.k / 4);
  for (int token = warp / share; token < p.m; token += WARPS / share) {
    const float4* source = reinterpret_cast<const float4*>(static_cast<const float*>(p.input) + token * p.input_stride);
    float sum = 0;
    const int step = share * 32;
    for (int first = warp % share * 32 + threadIdx.x % 32; first < chunks; first += kAhead * step) {
      // All loads of a turn before the first use: the loop waits once for them.
      float4 v[kAhead], w[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const bool inside = first + i * step < chunks;
        v[i] = inside ? source[first + i * step] : float4{};
        w[i] = inside ? reinterpret_cast<const float4*>(p.norm)[first + i * step] : float4{};
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * step >= chunks) break;
        sum = fmaf(v[i].x, v[i].x, fmaf(v[i].y, v[i].y, fmaf(v[i].z, v[i].z, fmaf(v[i].w, v[i].w, sum))));
        uint2 packed;
        const float shift = p.norm_shift;
        packed.x = pack_bf16(v[i].x * (w[i].x + shift), v[i].y * (w[i].y + shift));
        packed.y = pack_bf16(v[i].z * (w[i].z + shift), v[i].w * (w[i].w + shift));
        reinterpret_cast<uint2*>(x + token * stride)[first + i * step] = packed;
      }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) s.squares[token * share + warp % share] = sum;
  }
#endif
  sync_threads<1>(kThreads);
#if !NORM
  wait_barrier(&s.input, 0);
#endif
}

__device__ __forceinline__ float norm_factor(const MmaBulkRowsParams& p, const Shared& s, int token) {
#if NORM
  const int share = warps_a_token(p.m);
  float sum = 0;
  for (int i = 0; i < share; ++i) sum += s.squares[token * share + i];
  return rsqrtf(sum / static_cast<float>(p.k) + p.epsilon);
#else
  return 1.0f;
#endif
}

__device__ __forceinline__ float gate_activation(float gate) {
  return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate);
}

/// Writes what one output of the block came to. A bias belongs to the first slice.
__device__ __forceinline__ void finish(const MmaBulkRowsParams& p, const MmaRowsWeight& weight, int slice,
                                       std::int64_t row, int token, float value, float up, float before) {
  if (weight.bias != nullptr && slice == 0) value += weight.bias[row];
  if constexpr (kGated) {
    if (p.weights[1].bias != nullptr) up += p.weights[1].bias[row];
    value = gate_activation(value) * up;
  }
  const std::int64_t at = token * weight.output_stride + row;
  if constexpr (EPILOGUE == 1) {
    static_cast<float*>(weight.output)[slice * p.split_stride + at] = value;
  } else if constexpr (EPILOGUE == 2) {
    static_cast<float*>(weight.output)[at] = fmaf(p.scale, value, before);
  } else {
    static_cast<std::uint16_t*>(weight.output)[at] = to_bf16(value);
  }
}

using Sums = float[kSets][TOKEN_TILES][4];

/// One turn: 32 columns of 16 rows (of gate and up). `weight` and `input` are the lane's own places.
__device__ __forceinline__ void multiply(Sums& sums, const char* weight, const char* input, std::int64_t stride,
                                         int present) {
  // Two products of 16 columns: words 0 and 1 of the lane's pieces are the first's, 2 and 3 the second's; x is read in
  // the same order.
  Vec16 top[kSets], bottom[kSets];
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    top[set] = load_vec16(weight + set * kSetBytes);
    bottom[set] = load_vec16(weight + set * kSetBytes + 512);
  }
#pragma unroll
  for (int t = 0; t < TOKEN_TILES; ++t) {
    // Columns of the product from m on are zeros, and are never stored.
    const Vec16 b = t * 8 < present ? load_vec16(input + t * 8 * stride) : Vec16{};
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const Vec16 &a0 = top[set], &a1 = bottom[set];
      mma_bf16(sums[set][t], {a0.word[0], a1.word[0], a0.word[1], a1.word[1]}, {b.word[0], b.word[1]});
      mma_bf16(sums[set][t], {a0.word[2], a1.word[2], a0.word[3], a1.word[3]}, {b.word[2], b.word[3]});
    }
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads + 32) mma_bulk_rows(const __grid_constant__ MmaBulkRowsParams p) {
  extern __shared__ __align__(128) char shared[];  // the ring, two sets of the warps' sums, x
  __shared__ Shared s;
  char* const ring = shared;
  float* const all_sums = reinterpret_cast<float*>(ring + p.stages * kStageBytes);
  char* const x = reinterpret_cast<char*>(all_sums + 2 * kSums);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < p.stages) {
    init_barrier(&s.full[threadIdx.x], 1);
    init_barrier(&s.empty[threadIdx.x], WARPS);
    if (threadIdx.x == 0) init_barrier(&s.input, 1);
    publish_barriers();
  }
  if constexpr (RELEASE == 0) release_consumers();
  __syncthreads();

  std::int64_t tiles = 0;
  for (int i = 0; i < (kGated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
  const Slice slice = slice_of_block(p);
  if (warp == WARPS) {
    feed(p, slice, tiles, s, ring);
    wait_for_producers();
    return;
  }
  wait_for_producers();
  if constexpr (RELEASE == 1) release_consumers();
  prepare_input(p, slice, s, x);

  const std::int64_t stride = mma_bulk_rows_stride(p.k, p.splits);
  const int group = lane / 4;
  const int quad = lane % 4;
  const int present = p.m - group;  // token tile t has a row for this lane if t · 8 < present
  const char* my_input = x + group * stride + quad * 16 + warp * 64;
  Cursor at{0, 0};
  int buffer = 0;
  for (std::int64_t tile = blockIdx.x / p.splits; tile < tiles; tile += gridDim.x / p.splits, buffer ^= 1) {
    const Place place = locate(p, tile);
    const MmaRowsWeight& weight = p.weights[place.weight];
    const std::int64_t my_row = place.tile * 16 + threadIdx.x % 16;
    float before = 0;  // what the thread's first output adds to, fetched while the products run
    if (EPILOGUE == 2 && threadIdx.x < 16 * p.m && my_row < weight.n) {
      before = static_cast<const float*>(weight.output)[threadIdx.x / 16 * weight.output_stride + my_row];
    }
    Sums sums = {};
    for (int turn = 0; turn < slice.count; turn += STAGE_TURNS, at.advance(p.stages)) {
      const char* from = ring + at.slot * kStageBytes + warp * 1024 + lane * 16;
      const char* input = my_input + turn * 64;
      wait_barrier(&s.full[at.slot], at.parity);
      if (turn + STAGE_TURNS <= slice.count) {
#pragma unroll
        for (int i = 0; i < STAGE_TURNS; i += WARPS) multiply(sums, from + i * 1024, input + i * 64, stride, present);
      } else {
        for (int i = 0; turn + warp + i < slice.count && i < STAGE_TURNS; i += WARPS) {
          multiply(sums, from + i * 1024, input + i * 64, stride, present);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(&s.empty[at.slot]);
    }

    // The warps' sums, added in their order. Two buffers, so that one barrier a tile is enough.
    float* all = all_sums + buffer * kSums;
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
    for (int index = threadIdx.x; index < 16 * p.m; index += kThreads) {
      const int row = index % 16;  // the same for all of a thread's outputs
      const int token = index / 16;
      float total[2] = {};
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) total[set] += all[((w * kSets + set) * 16 + row) * kSumStride + token];
      }
      const float factor = norm_factor(p, s, token);
      if (EPILOGUE == 2 && index >= kThreads && my_row < weight.n) {
        before = static_cast<const float*>(weight.output)[token * weight.output_stride + my_row];
      }
      if (my_row < weight.n) {
        finish(p, weight, slice.index, my_row, token, total[0] * factor, total[1] * factor, before);
      }
    }
  }
}
