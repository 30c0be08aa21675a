// y[m, n] = Σ_k x[m, k] · w[n, k] for many rows of x, w bf16 in the layout mma16 (see cuda_mma_rows.cu): prefill from
// the weights that decode reads. 255 TFLOP/s on an H200 (2026-11-30), where unpacking to rows first and cuBLASLt reach 640:
// for architectures and machines without cuBLASLt.
// A block makes 128 columns of y (of a gated unit: 64 of gate and of up) for BLOCK_TOKENS rows; its 8 warps each take 4
// tiles of weights and a quarter of the rows. Stages of 64 k go through shared memory with cp.async; a stage's x lies
// in halves of 32 k, 64 bytes a row, which a warp reads without bank conflicts. k is added in one order, whatever m is,
// so a row's bits do not depend on the others.
// Grid: x over rows of x (blocks side by side share weights in L2), y over weights' tiles, z over slices of k.
// Constants: BLOCK_TOKENS (64, 128, 256), STAGES, EPILOGUE (0 bf16, 1 float, 2 residual +=, 3 SiLU-, 4 GELU-gated).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_mma_tiles.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr int kThreads = 256;
constexpr int kTiles = kMmaTilesBlockTiles;
constexpr int kColumns = kGated ? 64 : 128;     // of y that a block makes
constexpr int kTokenTiles = BLOCK_TOKENS / 32;  // of 8 rows of x, a warp
constexpr int kWeightBytes = kTiles * 1024;     // of half a stage
constexpr int kHalfBytes = kWeightBytes + BLOCK_TOKENS * 64;
constexpr int kSumStride = kColumns + 4;

/// A tile of 16 rows of one weight; none if `data` is null.
struct Place {
  const char* data;
  int weight;
  std::int64_t tile;
};

/// The block's tile number `slot`: of a gated unit gate and up in turn.
__device__ __forceinline__ Place locate(const MmaTilesParams& p, int slot) {
  const std::int64_t turns = (p.k + 31) / 32;
  int which = 0;
  std::int64_t tile = std::int64_t{blockIdx.y} * kTiles + slot;
  if constexpr (kGated) {
    which = slot % 2;
    tile = std::int64_t{blockIdx.y} * (kTiles / 2) + slot / 2;
  } else {
    while (which + 1 < p.num_weights && tile >= (p.weights[which].n + 15) / 16) {
      tile -= (p.weights[which].n + 15) / 16;
      ++which;
    }
  }
  const bool inside = tile < (p.weights[which].n + 15) / 16;
  return {inside ? static_cast<const char*>(p.weights[which].data) + tile * turns * 1024 : nullptr, which, tile};
}

__device__ __forceinline__ float gate_activation(float gate) {
  return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate);
}

/// Starts the copies of 32 k: of turn `turn`, or zeros if it is not before `end`.
__device__ __forceinline__ void fetch_half(const MmaTilesParams& p, char* half, const Place (&mine)[2], int turn,
                                           int end) {
  const int thread = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // tiles: 64 pieces of 16 bytes each
    const bool inside = turn < end && mine[i].data != nullptr;
    const char* from = inside ? mine[i].data + std::int64_t{turn} * 1024 + thread % 64 * 16 : nullptr;
    copy_async16(half + (thread / 64 + i * 4) * 1024 + thread % 64 * 16, inside ? from : p.input, inside ? 16 : 0);
  }
  char* const x = half + kWeightBytes;
#pragma unroll
  for (int i = 0; i < BLOCK_TOKENS / 64; ++i) {
    const int row = thread / 4 + i * 64;
    const std::int64_t token = std::int64_t{blockIdx.x} * BLOCK_TOKENS + row;
    const std::int64_t column = std::int64_t{turn} * 32 + thread % 4 * 8;
    const bool inside = turn < end && token < p.m && column < p.k;
    const auto* from = static_cast<const std::uint16_t*>(p.input) + (inside ? token * p.input_stride + column : 0);
    copy_async16(x + row * 64 + thread % 4 * 16, from, inside ? 16 : 0);
  }
}

using Sums = float[4][kTokenTiles][4];

/// 32 k of the warp's 4 tiles of weights and its rows of x.
__device__ __forceinline__ void multiply_half(Sums& sums, const char* half, int row_group, int token_group) {
  const int lane = threadIdx.x % 32;
  const char* weights = half + row_group * 4096 + lane * 16;
  const char* x = half + kWeightBytes + (token_group * kTokenTiles * 8 + lane / 4) * 64 + lane % 4 * 16;
  Vec16 a[4][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i][0] = load_vec16(weights + i * 1024);
    a[i][1] = load_vec16(weights + i * 1024 + 512);
  }
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t) {
    const Vec16 b = load_vec16(x + t * 512);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Vec16 &top = a[i][0], &bottom = a[i][1];
      mma_bf16(sums[i][t], {top.word[0], bottom.word[0], top.word[1], bottom.word[1]}, {b.word[0], b.word[1]});
      mma_bf16(sums[i][t], {top.word[2], bottom.word[2], top.word[3], bottom.word[3]}, {b.word[2], b.word[3]});
    }
  }
}

/// The warp's sums into shared memory, a row of x after the other; gated, with biases, if the unit is.
__device__ __forceinline__ void gather_sums(const MmaTilesParams& p, const Sums& sums, float* out, int row_group,
                                            int token_group) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i += kGated ? 2 : 1) {
    const Place place = locate(p, row_group * 4 + i);
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8;
        const int token = (token_group * kTokenTiles + t) * 8 + lane % 4 * 2 + e % 2;
        float value = sums[i][t][e];
        int column = (row_group * 4 + i) * 16 + row;
        if constexpr (kGated) {
          const std::int64_t n = place.tile * 16 + row;
          float up = sums[i + 1][t][e];
          if (n < p.weights[0].n) {
            if (p.weights[0].bias != nullptr) value += p.weights[0].bias[n];
            if (p.weights[1].bias != nullptr) up += p.weights[1].bias[n];
          }
          value = gate_activation(value) * up;
          column = (row_group * 4 + i) / 2 * 16 + row;
        }
        out[token * kSumStride + column] = value;
      }
    }
  }
}

/// From shared memory to y, neighbouring threads neighbouring columns.
__device__ __forceinline__ void write_output(const MmaTilesParams& p, const float* sums) {
  constexpr int kRows = kThreads / kColumns;  // at a time
  const int column = threadIdx.x % kColumns;
  const Place place = locate(p, kGated ? column / 16 * 2 : column / 16);
  const MmaRowsWeight& weight = p.weights[place.weight];
  const std::int64_t n = place.tile * 16 + column % 16;
  if (n >= weight.n) return;
  const bool biased = !kGated && weight.bias != nullptr && blockIdx.z == 0;
  const float bias = biased ? weight.bias[n] : 0.0f;
  for (int row = threadIdx.x / kColumns; row < BLOCK_TOKENS; row += kRows) {
    const std::int64_t token = std::int64_t{blockIdx.x} * BLOCK_TOKENS + row;
    if (token >= p.m) return;
    const float value = sums[row * kSumStride + column] + bias;
    const std::int64_t at = token * weight.output_stride + n;
    if constexpr (EPILOGUE == 1) {
      static_cast<float*>(weight.output)[blockIdx.z * p.split_stride + at] = value;
    } else if constexpr (EPILOGUE == 2) {
      float* residual = static_cast<float*>(weight.output) + at;
      *residual = fmaf(p.scale, value, *residual);
    } else {
      static_cast<std::uint16_t*>(weight.output)[at] = to_bf16(value);
    }
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, 1) mma_tiles(const __grid_constant__ MmaTilesParams p) {
  extern __shared__ __align__(128) char shared[];
  release_consumers();
  wait_for_producers();
  const int row_group = threadIdx.x / 32 % 2;
  const int token_group = threadIdx.x / 64;
  const int all_turns = static_cast<int>((p.k + 31) / 32);
  const int each = (all_turns + p.splits - 1) / p.splits;
  const int begin = min(static_cast<int>(blockIdx.z) * each, all_turns);
  const int end = min(begin + each, all_turns);
  const int stages = (end - begin + 1) / 2;
  const Place mine[2] = {locate(p, threadIdx.x / 64), locate(p, threadIdx.x / 64 + 4)};
  const auto fetch = [&](int stage) {
    if (stage < stages) {
      char* at = shared + stage % STAGES * 2 * kHalfBytes;
      fetch_half(p, at, mine, begin + stage * 2, end);
      fetch_half(p, at + kHalfBytes, mine, begin + stage * 2 + 1, end);
    }
    commit_copies();
  };
  for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stage);
  Sums sums = {};
  for (int stage = 0; stage < stages; ++stage) {
    wait_copies<STAGES - 2>();
    __syncthreads();  // the stage is there for all, and all have left the one that is filled next
    fetch(stage + STAGES - 1);
    const char* at = shared + stage % STAGES * 2 * kHalfBytes;
    multiply_half(sums, at, row_group, token_group);
    multiply_half(sums, at + kHalfBytes, row_group, token_group);
  }
  wait_copies<0>();
  __syncthreads();
  float* out = reinterpret_cast<float*>(shared);
  gather_sums(p, sums, out, row_group, token_group);
  __syncthreads();
  write_output(p, out);
}
