// Between the products q, k, v and attention, in one pass: bias, RMS norm of each head (query and key with weights;
// value without, NORM 2), RoPE of query and key; queries go to bf16 rows, keys and values into their slots of the
// cache, rounded once. A warp takes one head of one token, which lies in shared memory between the steps. Grid: x over
// heads (queries, keys, values), WARPS a block; y over tokens, in turn. Bytes: each element in and out once. Constants:
// KEY_DIM, VALUE_DIM, INPUT_FLOAT (0: bf16), NORM (0 none, 1 query and key, 2 all), INTERLEAVED (0: pairs are half of
// pairing_dim apart), KV_FP8 (0: bf16; 1: e4m3, sm_89 and later), WARPS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"

namespace pagoda::kernels {

constexpr int kRow = KEY_DIM > VALUE_DIM ? KEY_DIM : VALUE_DIM;

__device__ __forceinline__ void load_head(float* x, const void* from, std::int64_t at, const float* bias, int dim) {
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    float value = 0;
    if constexpr (INPUT_FLOAT) {
      value = static_cast<const float*>(from)[at + i];
    } else {
      value = bf16_to_float(static_cast<const std::uint16_t*>(from)[at + i]);
    }
    x[i] = bias != nullptr ? value + bias[i] : value;
  }
  __syncwarp();
}

__device__ __forceinline__ void norm_head(const CudaQkvStoreParams& p, float* x, const float* weight, int dim) {
  float sum = 0;
  for (int i = threadIdx.x % 32; i < dim; i += 32) sum = fmaf(x[i], x[i], sum);
  const float factor = rsqrtf(warp_sum(sum) / static_cast<float>(dim) + p.epsilon);
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    x[i] *= weight != nullptr ? factor * (weight[i] + p.weight_shift) : factor;
  }
  __syncwarp();
}

__device__ __forceinline__ void rotate_head(const CudaQkvStoreParams& p, float* x, std::int64_t position) {
  const float2* table = reinterpret_cast<const float2*>(p.rope) + position * p.num_pairs;
  for (int pair = threadIdx.x % 32; pair < p.num_pairs; pair += 32) {
    const float2 turn = table[pair];
    float& a = INTERLEAVED ? x[2 * pair] : x[pair];
    float& b = INTERLEAVED ? x[2 * pair + 1] : x[pair + p.pairing_dim / 2];
    const float turned = fmaf(a, turn.x, -b * turn.y);
    b = fmaf(b, turn.x, a * turn.y);
    a = turned;
  }
  __syncwarp();
}

__device__ __forceinline__ void store_bf16(std::uint16_t* to, const float* x, int dim, float factor) {
  for (int i = threadIdx.x % 32; i < dim; i += 32) to[i] = to_bf16(x[i] * factor);
}

#if KV_FP8
__device__ __forceinline__ void store_fp8(std::uint8_t* to, const float* x, int dim, float factor) {
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    std::uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x[i] * factor));
    to[i] = static_cast<std::uint8_t>(pair & 0xffu);
  }
}
#endif

/// One head of keys or values; `inside` is its first element in the page, without the slot.
__device__ __forceinline__ void store_slot(const CudaQkvStoreParams& p, std::int64_t slot, std::int64_t inside,
                                           const float* x, int dim, float scale) {
  char* page = static_cast<char*>(p.pages) + slot / p.block_size * p.block_stride;
  const std::int64_t at = inside + slot % p.block_size * dim;
#if KV_FP8
  store_fp8(reinterpret_cast<std::uint8_t*>(page) + at, x, dim, 1.0f / scale);
#else
  store_bf16(reinterpret_cast<std::uint16_t*>(page) + at, x, dim, 1.0f / scale);
#endif
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(WARPS * 32) qkv_store(const __grid_constant__ CudaQkvStoreParams p) {
  __shared__ float rows[WARPS][kRow];
  float* x = rows[threadIdx.x / 32];
  release_consumers();
  wait_for_producers();
  int head = blockIdx.x * WARPS + threadIdx.x / 32;
  if (head >= p.num_heads + 2 * p.num_kv_heads) return;
  const bool is_query = head < p.num_heads;
  const bool is_value = head >= p.num_heads + p.num_kv_heads;
  if (is_value) head -= p.num_kv_heads;
  if (!is_query) head -= p.num_heads;
  const int dim = is_value ? VALUE_DIM : KEY_DIM;
  const void* from = is_query ? p.query : is_value ? p.value : p.key;
  const std::int64_t stride = is_query ? p.query_stride : is_value ? p.value_stride : p.key_stride;
  const float* bias = is_query ? p.query_bias : is_value ? p.value_bias : p.key_bias;
  if (bias != nullptr) bias += head * dim;
  for (std::int64_t token = blockIdx.y; token < p.tokens; token += gridDim.y) {
    const std::int64_t slot = p.write_slots[token];
    if (!is_query && slot < 0) continue;
    load_head(x, from, token * stride + std::int64_t{head} * dim, bias, dim);
    if (is_value ? NORM == 2 : NORM >= 1) {
      norm_head(p, x, is_query ? p.query_norm : is_value ? nullptr : p.key_norm, dim);
    }
    if (!is_value && p.rope != nullptr) rotate_head(p, x, p.positions[token]);
    if (is_query) {
      std::uint16_t* to = static_cast<std::uint16_t*>(p.query_out) + token * p.query_out_stride + head * KEY_DIM;
      store_bf16(to, x, dim, 1.0f);
    } else {
      const std::int64_t in_page = std::int64_t{head} * p.block_size * (KEY_DIM + VALUE_DIM);
      const std::int64_t inside = in_page + (is_value ? std::int64_t{p.block_size} * KEY_DIM : 0);
      store_slot(p, slot, inside, x, dim, is_value ? p.value_scale : p.key_scale);
    }
    __syncwarp();
  }
}
