// Attention of any head dims: o = Σ_j e^(s_j - m) v_j / Σ_j e^(s_j - m), s_j = cap(scale · q·k_j), over the keys that a
// token sees. A block takes one head of one token; warp w takes keys w, w + 16, … by their absolute numbers, and keeps
// their maximum, sum and weighted values; a lane holds elements 2 · lane, 2 · lane + 1, + 64, … of query and output.
// The warps' results are added in order, so a token's bits depend on its own sequence alone. Bytes: K and V once a
// query head. Chosen where no kernel with the dims as constants is to be had: nothing here is tuned. Constant: ELEMENT
// (0 bf16, 1 e4m3).
#include "kernels/attention/cuda_any_dims.h"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace pagoda::kernels {

constexpr int kThreads = kAnyDimsWarps * 32;
constexpr int kTurns = kAnyDimsMost / 64;
constexpr int kElementBytes = ELEMENT == 1 ? 1 : 2;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kNone = __builtin_bit_cast(float, 0xff800000u);  // -∞

/// Elements 2 · lane and the next of each 64 of a vector of `dim`; zeros past its end.
using Vector = float2[kTurns];

__device__ __forceinline__ void load_bf16(Vector& v, const std::uint16_t* from, int dim) {
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const int at = i * 64 + threadIdx.x % 32 * 2;
    v[i] = {};
    if (at >= dim) continue;
    const std::uint32_t pair = *reinterpret_cast<const std::uint32_t*>(from + at);
    v[i] = {bf16_low(pair), bf16_high(pair)};
  }
}

/// A key or value in its page.
__device__ __forceinline__ void load_cached(Vector& v, const char* from, int dim) {
#if ELEMENT == 1
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const int at = i * 64 + threadIdx.x % 32 * 2;
    v[i] = {};
    if (at >= dim) continue;
    const std::uint32_t pair = f16_of_e4m3(*reinterpret_cast<const std::uint16_t*>(from + at));
    v[i] = {from_f16(static_cast<std::uint16_t>(pair)), from_f16(static_cast<std::uint16_t>(pair >> 16))};
  }
#else
  load_bf16(v, reinterpret_cast<const std::uint16_t*>(from), dim);
#endif
}

/// What some keys add up to.
struct Partial {
  float maximum = kNone, sum = 0;  // scores in units of log 2
  Vector out = {};
};

__device__ __forceinline__ float score_of(const AnyDimsParams& p, const Vector& query, const char* key) {
  Vector k;
  load_cached(k, key, p.key_dim);
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kTurns; ++i) dot = fmaf(query[i].x, k[i].x, fmaf(query[i].y, k[i].y, dot));
  const float score = warp_sum(dot) * p.scale;
  return (p.softcap > 0 ? soft_cap(score, p.softcap) : score) * kLog2e;
}

__device__ __forceinline__ void add_key(Partial& to, float score, const char* value, int dim) {
  const float maximum = fmaxf(to.maximum, score);
  const float shrink = exp2_fast(to.maximum - maximum), weight = exp2_fast(score - maximum);
  to.maximum = maximum;
  to.sum = fmaf(to.sum, shrink, weight);
  Vector v;
  load_cached(v, value, dim);
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    to.out[i].x = fmaf(to.out[i].x, shrink, weight * v[i].x);
    to.out[i].y = fmaf(to.out[i].y, shrink, weight * v[i].y);
  }
}

/// The last row that begins at or before a token.
__device__ __forceinline__ std::int64_t row_of(const AnyDimsParams& p, std::int64_t token) {
  std::int64_t low = 0, high = p.num_rows - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (p.row_offsets[middle] <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

struct Shared {
  float maximum[kAnyDimsWarps], sum[kAnyDimsWarps];
  float out[kAnyDimsWarps][kAnyDimsMost];
};

/// Adds the warps' partial results, the sink among them, and writes the head's output.
__device__ __forceinline__ void merge(const AnyDimsParams& p, const Shared& shared, const float* sink,
                                      std::uint16_t* to) {
  float maximum = sink != nullptr ? *sink * kLog2e : kNone;
#pragma unroll
  for (int w = 0; w < kAnyDimsWarps; ++w) maximum = fmaxf(maximum, shared.maximum[w]);
  float sum = sink != nullptr ? exp2_fast(*sink * kLog2e - maximum) : 0.0f;
#pragma unroll
  for (int w = 0; w < kAnyDimsWarps; ++w) sum = fmaf(shared.sum[w], exp2_fast(shared.maximum[w] - maximum), sum);
  const float factor = p.value_scale / sum;
  for (int dim = threadIdx.x; dim < p.value_dim; dim += kThreads) {
    float out = 0;
#pragma unroll
    for (int w = 0; w < kAnyDimsWarps; ++w) out = fmaf(shared.out[w][dim], exp2_fast(shared.maximum[w] - maximum), out);
    to[dim] = to_bf16(out * factor);
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads) attend_any_dims(const __grid_constant__ AnyDimsParams p) {
  __shared__ Shared shared;
  wait_for_producers();
  release_consumers();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x, kv_head = head / (p.heads / p.kv_heads);
  const std::int64_t key_bytes = std::int64_t{p.key_dim} * kElementBytes;
  const std::int64_t value_bytes = std::int64_t{p.value_dim} * kElementBytes;
  const char* const keys = static_cast<const char*>(p.pages) + (kv_head * (key_bytes + value_bytes) << p.block_shift);
  const char* const values = keys + (key_bytes << p.block_shift);
  const int in_block = (1 << p.block_shift) - 1;
  for (std::int64_t token = blockIdx.y; token < p.num_tokens; token += gridDim.y) {
    auto* const to = static_cast<std::uint16_t*>(p.output) + token * p.output_stride + head * p.value_dim;
    if (token >= p.row_offsets[p.num_rows]) {
      for (int dim = threadIdx.x; dim < p.value_dim; dim += kThreads) to[dim] = 0;
      continue;
    }
    const std::int64_t row = row_of(p, token);
    const int last = static_cast<int>(p.row_starts[row] + token - p.row_offsets[row]);
    const int first = p.window > 0 ? max(last - p.window + 1, 0) : 0;
    const std::int32_t* const table = p.block_tables + row * p.max_blocks;
    Vector query;
    load_bf16(query, static_cast<const std::uint16_t*>(p.query) + token * p.query_stride + head * p.key_dim, p.key_dim);
    Partial mine;
    for (int key = first + ((warp - first) & (kAnyDimsWarps - 1)); key <= last; key += kAnyDimsWarps) {
      const std::int64_t page = table[key >> p.block_shift] * p.block_stride;
      const std::int64_t slot = key & in_block;
      add_key(mine, score_of(p, query, keys + page + slot * key_bytes), values + page + slot * value_bytes,
              p.value_dim);
    }
    if (lane == 0) shared.maximum[warp] = mine.maximum, shared.sum[warp] = mine.sum;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      *reinterpret_cast<float2*>(&shared.out[warp][i * 64 + lane * 2]) = mine.out[i];
    }
    __syncthreads();
    merge(p, shared, p.sinks != nullptr ? p.sinks + head : nullptr, to);
    __syncthreads();
  }
}
