// y[m, n] = Σ_k x[m, k] · w[n, k] for few rows of x (m ≤ 8 · TOKEN_TILES), w bf16 in the layout mma16: tiles of 16 rows
// × 32 columns, 1 KiB each, in which lane (g, t) finds 16 bytes of rows g and g + 8 at columns 8t … 8t+7. These are the A
// fragments of two m16n8k16 products over a permuted k, the same permutation with which B is read from x in shared
// memory: weights go from memory to tensor cores without a detour, and cost the same for 1 and for 8 tokens.
// A block takes tiles of 16 rows (of gate and up at once, if gated) in turn; its warps share k, 32 columns a turn.
// Bytes: the weights once; x once a block. Chosen for decode steps of few rows.
// Constants: TOKEN_TILES, WARPS, DEPTH (turns in flight), NORM (0, 1), EPILOGUE (0 bf16, 1 float, 2 residual +=,
// 3 SiLU-gated, 4 GELU-gated).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr int kSets = kGated ? 2 : 1;
constexpr int kThreads = WARPS * 32;
constexpr int kTokens = TOKEN_TILES * 8;
constexpr int kSumStride = kTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;

__device__ __forceinline__ float gate_activation(float gate) {
  return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate);
}

/// The m rows of x into shared memory as bf16, normed if the unit norms. Row stride `stride` bytes; zeros up to the
/// next 32 columns.
__device__ __forceinline__ void fill_input(const MmaRowsParams& p, char* x, int stride, float* partial) {
  const int chunks = static_cast<int>(p.k / 8);
  const int padded = (chunks + 3) / 4 * 4;
  for (int token = 0; token < p.m; ++token) {
    char* row = x + token * stride;
    if (threadIdx.x < padded - chunks) store_vec16(row + (chunks + threadIdx.x) * 16, Vec16{});
#if NORM
    const float* source = static_cast<const float*>(p.input) + token * p.input_stride;
    float sum = 0;
    for (int c = threadIdx.x; c < 2 * chunks; c += kThreads) {
      const float4 v = reinterpret_cast<const float4*>(source)[c];
      sum = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, sum))));
    }
    const float factor = rsqrtf(block_sum(sum, partial) / static_cast<float>(p.k) + p.epsilon);
    for (int c = threadIdx.x; c < 2 * chunks; c += kThreads) {
      const float4 v = reinterpret_cast<const float4*>(source)[c];
      const float4 w = reinterpret_cast<const float4*>(p.norm)[c];
      uint2 packed;
      packed.x = pack_bf16(v.x * factor * w.x, v.y * factor * w.y);
      packed.y = pack_bf16(v.z * factor * w.z, v.w * factor * w.w);
      reinterpret_cast<uint2*>(row)[c] = packed;
    }
#else
    const char* source = static_cast<const char*>(p.input) + token * p.input_stride * 2;
    for (int c = threadIdx.x; c < chunks; c += kThreads) store_vec16(row + c * 16, load_vec16(source + c * 16));
#endif
  }
  __syncthreads();
}

/// Adds what one output of the block came to.
__device__ __forceinline__ void finish(const MmaRowsParams& p, const MmaRowsWeight& weight, std::int64_t row, int token,
                                       float value, float up) {
  if constexpr (kGated) {
    if (weight.bias != nullptr) value += weight.bias[row];
    if (p.weights[1].bias != nullptr) up += p.weights[1].bias[row];
    value = gate_activation(value) * up;
  } else if (weight.bias != nullptr) {
    value += weight.bias[row];
  }
  const std::int64_t at = token * weight.output_stride + row;
  if constexpr (EPILOGUE == 1) {
    static_cast<float*>(weight.output)[at] = value;
  } else if constexpr (EPILOGUE == 2) {
    float* residual = static_cast<float*>(weight.output) + at;
    *residual = fmaf(p.scale, value, *residual);
  } else {
    static_cast<std::uint16_t*>(weight.output)[at] = to_bf16(value);
  }
}

/// A tile of 16 rows of one weight, by its number over all weights.
struct Place {
  int weight;
  std::int64_t tile;
};

__device__ __forceinline__ Place locate(const MmaRowsParams& p, std::int64_t tile) {
  int which = 0;
  if constexpr (!kGated) {
    while (which + 1 < p.num_weights && tile >= (p.weights[which].n + 15) / 16) {
      tile -= (p.weights[which].n + 15) / 16;
      ++which;
    }
  }
  return {which, tile};
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads) mma_rows(const __grid_constant__ MmaRowsParams p) {
  extern __shared__ __align__(16) char shared[];  // two sets of the warps' sums, then x
  __shared__ float partial[WARPS];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int group = lane / 4;
  const int quad = lane % 4;

  std::int64_t tiles = 0;
  for (int i = 0; i < (kGated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
  const int turns = static_cast<int>((p.k + 31) / 32);
  const int my_turns = (turns - warp + WARPS - 1) / WARPS;  // of each tile; not positive: none
  // A tile takes whole rounds of the ring, so that registers are indexed by constants; the rest of a round is empty.
  const int padded_turns = max((my_turns + DEPTH - 1) / DEPTH * DEPTH, DEPTH);

  // The stream of this warp's loads: turn after turn of tile after tile, DEPTH ahead of the products.
  std::int64_t load_tile = blockIdx.x;
  int load_turn = 0;
  const char* from[kSets];
  const auto aim = [&] {
    const Place place = locate(p, load_tile);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      from[set] = static_cast<const char*>(p.weights[place.weight + set].data) +
                  (place.tile * turns + warp) * 1024 + lane * 16;
    }
  };
  if (load_tile < tiles) aim();
  Vec16 ring[DEPTH][kSets][2];
  const auto fetch = [&](Vec16 (&into)[kSets][2]) {
    if (load_tile >= tiles) return;
    if (load_turn < my_turns) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        into[set][0] = load_streaming(from[set]);
        into[set][1] = load_streaming(from[set] + 512);
        from[set] += WARPS * 1024;
      }
    }
    if (++load_turn == padded_turns) {
      load_turn = 0;
      load_tile += gridDim.x;
      if (load_tile < tiles) aim();
    }
  };
#pragma unroll
  for (int i = 0; i < DEPTH; ++i) fetch(ring[i]);

  // Weights are under way; only now wait for the kernels that make x.
  wait_for_producers();
  const int stride = static_cast<int>((p.k * 2 + 127) / 128 * 128 + 64);
  char* const x = shared + 2 * kSums * sizeof(float);
  fill_input(p, x, stride, partial);
  release_consumers();

  int buffer = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, buffer ^= 1) {
    float sums[kSets][TOKEN_TILES][4] = {};
    const char* at = x + group * stride + quad * 16 + warp * 64;
    for (int turn = 0; turn < padded_turns; turn += DEPTH) {
#pragma unroll
      for (int i = 0; i < DEPTH; ++i) {
        Vec16 w[kSets][2];
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          w[set][0] = ring[i][set][0];
          w[set][1] = ring[i][set][1];
        }
        fetch(ring[i]);
        if (turn + i >= my_turns) continue;
#pragma unroll
        for (int t = 0; t < TOKEN_TILES; ++t) {
          // Columns of the product from m on are zeros, and are never stored.
          const Vec16 b = t * 8 + group < p.m ? load_vec16(at + t * 8 * stride) : Vec16{};
          const std::uint32_t low[2] = {b.word[0], b.word[1]};
          const std::uint32_t high[2] = {b.word[2], b.word[3]};
#pragma unroll
          for (int set = 0; set < kSets; ++set) {
            const Vec16 &top = w[set][0], &bottom = w[set][1];
            mma_bf16(sums[set][t], {top.word[0], bottom.word[0], top.word[1], bottom.word[1]}, low);
            mma_bf16(sums[set][t], {top.word[2], bottom.word[2], top.word[3], bottom.word[3]}, high);
          }
        }
        at += WARPS * 64;
      }
    }

    // The warps' sums, added in their order. Two buffers, so that one barrier a tile is enough.
    float* all = reinterpret_cast<float*>(shared) + buffer * kSums;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int t = 0; t < TOKEN_TILES; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = group + (i / 2) * 8;
          const int token = t * 8 + quad * 2 + i % 2;
          all[((warp * kSets + set) * 16 + row) * kSumStride + token] = sums[set][t][i];
        }
      }
    }
    __syncthreads();
    const Place place = locate(p, tile);
    const MmaRowsWeight& weight = p.weights[place.weight];
    for (int index = threadIdx.x; index < 16 * p.m; index += kThreads) {
      const int row = index % 16;
      const int token = index / 16;
      float total[2] = {};
      for (int w = 0; w < WARPS; ++w) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) total[set] += all[((w * kSets + set) * 16 + row) * kSumStride + token];
      }
      const std::int64_t n = place.tile * 16 + row;
      if (n < weight.n) finish(p, weight, n, token, total[0], total[1]);
    }
  }
}
