// Between the products q, k, v and attention, in one pass: bias, RMS norm of each head (query and key with weights;
// value without, NORM 2), RoPE of query and key; queries go to bf16 rows, keys and values into their slots of the
// cache, rounded once. A warp takes one head of one token, which lies in shared memory between the steps. Grid: x over
// heads (queries, keys, values), WARPS a block; y over tokens, in turn. What does not come from the products (slots,
// rotations, norm weights) is fetched before they have ended. Where `wide` is set, a lane has eight elements and
// nothing lies in shared memory (store_wide). Bytes: each element in and out once. Constants: KEY_DIM, VALUE_DIM (both
// 0: any up to 512), INPUT_FLOAT (0: bf16), NORM (0 none, 1 query and key, 2 all), INTERLEAVED (0: pairs are half of
// pairing_dim apart), KV_FP8 (0: bf16; 1: e4m3, sm_89 and later), WARPS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"

namespace pagoda::kernels {

constexpr int kMostKey = KEY_DIM == 0 ? 512 : KEY_DIM;
constexpr int kMostValue = VALUE_DIM == 0 ? 512 : VALUE_DIM;
constexpr int kRow = kMostKey > kMostValue ? kMostKey : kMostValue;
constexpr int kWordTurns = (kRow / 2 + 31) / 32;  // a lane has words lane, lane + 32 … of two elements each
constexpr int kPairTurns = (kMostKey / 2 + 31) / 32;
static_assert(KEY_DIM % 2 == 0 && VALUE_DIM % 2 == 0);

__device__ __forceinline__ int key_dim(const CudaQkvStoreParams& p) { return KEY_DIM == 0 ? p.key_dim : KEY_DIM; }
__device__ __forceinline__ int value_dim(const CudaQkvStoreParams& p) {
  return VALUE_DIM == 0 ? p.value_dim : VALUE_DIM;
}

/// What a warp knows of its head.
struct Head {
  bool is_query, is_value;
  int index;  // among its kind
  int dim;
  const void* from;
  std::int64_t stride;
  const float* bias;
};

__device__ __forceinline__ Head locate(const CudaQkvStoreParams& p, int head) {
  Head h;
  h.is_query = head < p.num_heads;
  h.is_value = head >= p.num_heads + p.num_kv_heads;
  h.index = head - (h.is_query ? 0 : p.num_heads) - (h.is_value ? p.num_kv_heads : 0);
  h.dim = h.is_value ? value_dim(p) : key_dim(p);
  h.from = h.is_query ? p.query : h.is_value ? p.value : p.key;
  h.stride = h.is_query ? p.query_stride : h.is_value ? p.value_stride : p.key_stride;
  h.bias = h.is_query ? p.query_bias : h.is_value ? p.value_bias : p.key_bias;
  if (h.bias != nullptr) h.bias += h.index * h.dim;
  return h;
}

/// What a token's head needs beside its own elements.
struct Token {
  std::int64_t slot;
  float2 turns[kPairTurns];  // cosine and sine of this lane's pairs
};

__device__ __forceinline__ Token fetch_token(const CudaQkvStoreParams& p, const Head& head, std::int64_t token) {
  Token t;
  t.slot = p.write_slots[token];
  if (head.is_value || p.rope == nullptr) return t;
  const float2* table = reinterpret_cast<const float2*>(p.rope) + p.positions[token] * p.num_pairs;
#pragma unroll
  for (int i = 0; i < kPairTurns; ++i) {
    const int pair = i * 32 + threadIdx.x % 32;
    t.turns[i] = pair < p.num_pairs ? table[pair] : float2{1, 0};
  }
  return t;
}

/// Weights of the head's norm, one for each of the lane's elements.
struct Weights {
  float2 of[kWordTurns];
};

__device__ __forceinline__ Weights fetch_weights(const CudaQkvStoreParams& p, const Head& head) {
  Weights w;
  const float* from = head.is_query ? p.query_norm : head.is_value ? nullptr : p.key_norm;
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int at = (i * 32 + threadIdx.x % 32) * 2;
    w.of[i] = {1, 1};
    if (NORM >= 1 && from != nullptr && at < head.dim) {
      w.of[i] = {from[at] + p.weight_shift, from[at + 1] + p.weight_shift};
    }
  }
  return w;
}

__device__ __forceinline__ void load_head(float* x, const Head& head, std::int64_t at) {
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int word = i * 32 + threadIdx.x % 32;
    if (word * 2 >= head.dim) continue;
    float2 value;
    if constexpr (INPUT_FLOAT) {
      const float* from = static_cast<const float*>(head.from) + at + word * 2;
      value = {from[0], from[1]};
    } else {
      const auto* from = static_cast<const std::uint16_t*>(head.from) + at + word * 2;
      const std::uint32_t pair = *reinterpret_cast<const std::uint32_t*>(from);
      value = {bf16_low(pair), bf16_high(pair)};
    }
    if (head.bias != nullptr) value.x += head.bias[word * 2], value.y += head.bias[word * 2 + 1];
    reinterpret_cast<float2*>(x)[word] = value;
  }
  __syncwarp();
}

__device__ __forceinline__ void norm_head(const CudaQkvStoreParams& p, float* x, const Weights& weights, int dim) {
  float2* words = reinterpret_cast<float2*>(x);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int word = i * 32 + threadIdx.x % 32;
    if (word * 2 < dim) sum = fmaf(words[word].x, words[word].x, fmaf(words[word].y, words[word].y, sum));
  }
  const float factor = rsqrtf(warp_sum(sum) / static_cast<float>(dim) + p.epsilon);
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int word = i * 32 + threadIdx.x % 32;
    if (word * 2 < dim) words[word].x *= factor * weights.of[i].x, words[word].y *= factor * weights.of[i].y;
  }
  __syncwarp();
}

__device__ __forceinline__ void rotate_head(const CudaQkvStoreParams& p, float* x, const Token& token) {
#pragma unroll
  for (int i = 0; i < kPairTurns; ++i) {
    const int pair = i * 32 + threadIdx.x % 32;
    if (pair >= p.num_pairs) continue;
    float& a = INTERLEAVED ? x[2 * pair] : x[pair];
    float& b = INTERLEAVED ? x[2 * pair + 1] : x[pair + p.pairing_dim / 2];
    const float2 turn = token.turns[i];
    const float turned = fmaf(a, turn.x, -b * turn.y);
    b = fmaf(b, turn.x, a * turn.y);
    a = turned;
  }
  __syncwarp();
}

__device__ __forceinline__ void store_bf16(std::uint16_t* to, const float* x, int dim, float factor) {
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int word = i * 32 + threadIdx.x % 32;
    if (word * 2 >= dim) continue;
    const float2 value = reinterpret_cast<const float2*>(x)[word];
    reinterpret_cast<std::uint32_t*>(to)[word] = pack_bf16(value.x * factor, value.y * factor);
  }
}

#if KV_FP8
__device__ __forceinline__ void store_fp8(std::uint8_t* to, const float* x, int dim, float factor) {
#pragma unroll
  for (int i = 0; i < kWordTurns; ++i) {
    const int word = i * 32 + threadIdx.x % 32;
    if (word * 2 >= dim) continue;
    const float2 value = reinterpret_cast<const float2*>(x)[word];
    std::uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(value.y * factor), "f"(value.x * factor));
    reinterpret_cast<std::uint16_t*>(to)[word] = pair;
  }
}
#endif

/// Into the head's rows of the slot's page.
__device__ __forceinline__ void store_slot(const CudaQkvStoreParams& p, const Head& head, std::int64_t slot,
                                           const float* x) {
  const std::int64_t in_page = std::int64_t{head.index} * p.block_size * (key_dim(p) + value_dim(p));
  const std::int64_t inside = in_page + (head.is_value ? std::int64_t{p.block_size} * key_dim(p) : 0);
  char* page = static_cast<char*>(p.pages) + slot / p.block_size * p.block_stride;
  const std::int64_t at = inside + slot % p.block_size * head.dim;
  const float factor = 1.0f / (head.is_value ? p.value_scale : p.key_scale);
#if KV_FP8
  store_fp8(reinterpret_cast<std::uint8_t*>(page) + at, x, head.dim, factor);
#else
  store_bf16(reinterpret_cast<std::uint16_t*>(page) + at, x, head.dim, factor);
#endif
}

constexpr int kHeads = qkv_store_heads(KEY_DIM, VALUE_DIM, INTERLEAVED != 0);
constexpr int kWideDim = kHeads > 0 ? KEY_DIM : 256;  // a unit without sizes compiles the code and never runs it

/// Four neighbouring elements.
__device__ __forceinline__ void add_bias(float (&x)[4], const float* bias, int at) {
  if (bias == nullptr) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] += bias[at + i];
}
__device__ __forceinline__ void load_four(float (&x)[4], const void* from, std::int64_t at) {
  if constexpr (INPUT_FLOAT) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + at);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(from) + at);
    x[0] = bf16_low(words.x), x[1] = bf16_high(words.x), x[2] = bf16_low(words.y), x[3] = bf16_high(words.y);
  }
}
__device__ __forceinline__ uint2 narrow(const float (&x)[4], float factor) {
  return {pack_bf16(x[0] * factor, x[1] * factor), pack_bf16(x[2] * factor, x[3] * factor)};
}
#if KV_FP8
__device__ __forceinline__ std::uint32_t narrow_fp8(const float (&x)[4], float factor) {
  std::uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x[1] * factor), "f"(x[0] * factor));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x[3] * factor), "f"(x[2] * factor));
  return low | std::uint32_t{high} << 16;
}
#endif

/// The whole work of a block if p.wide: a lane has four elements of a head's first half and the four that they are
/// rotated with, so nothing is exchanged but the norm's sums. A fifth of the instructions of a lane for two elements.
__device__ __forceinline__ void store_wide(const CudaQkvStoreParams& p) {
  constexpr int kLanes = kWideDim / 8;
  const int lane = threadIdx.x % 32;
  const int first = lane % kLanes * 4, second = kWideDim / 2 + first;
  const int number =
      (static_cast<int>(blockIdx.x) * WARPS + static_cast<int>(threadIdx.x) / 32) * kHeads + lane / kLanes;
  const bool idle = number >= p.num_heads + 2 * p.num_kv_heads;
  const Head head = locate(p, idle ? 0 : number);
  const bool rotates = !head.is_value && p.rope != nullptr;
  const float* norm = head.is_query ? p.query_norm : head.is_value ? nullptr : p.key_norm;
  float weight[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    weight[0][i] = NORM >= 1 && norm != nullptr ? norm[first + i] + p.weight_shift : 1.0f;
    weight[1][i] = NORM >= 1 && norm != nullptr ? norm[second + i] + p.weight_shift : 1.0f;
  }
  bool waited = false;
  for (std::int64_t token = blockIdx.y; token < p.tokens; token += gridDim.y) {
    const std::int64_t slot = p.write_slots[token];
    float4 turns[2] = {};  // cosine and sine of two pairs each
    if (rotates) {
      const float* table = p.rope + (p.positions[token] * p.num_pairs + first) * 2;
      turns[0] = *reinterpret_cast<const float4*>(table);
      turns[1] = *reinterpret_cast<const float4*>(table + 4);
    }
    if (!waited) wait_for_producers();
    waited = true;
    const std::int64_t from = token * head.stride + head.index * kWideDim;
    float x[4], y[4];
    load_four(x, head.from, from + first);
    load_four(y, head.from, from + second);
    add_bias(x, head.bias, first);
    add_bias(y, head.bias, second);
    if constexpr (NORM >= 1) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum = fmaf(x[i], x[i], fmaf(y[i], y[i], sum));
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (!head.is_value || NORM == 2) {
        const float factor = rsqrtf(sum / static_cast<float>(kWideDim) + p.epsilon);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] *= factor * weight[0][i], y[i] *= factor * weight[1][i];
      }
    }
    if (rotates) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 both = turns[i / 2];
        const float cosine = i % 2 == 0 ? both.x : both.z, sine = i % 2 == 0 ? both.y : both.w;
        const float turned = fmaf(x[i], cosine, -y[i] * sine);
        y[i] = fmaf(y[i], cosine, x[i] * sine);
        x[i] = turned;
      }
    }
    if (idle) continue;
    if (head.is_query) {
      auto* to = static_cast<std::uint16_t*>(p.query_out) + token * p.query_out_stride + head.index * kWideDim;
      *reinterpret_cast<uint2*>(to + first) = narrow(x, 1.0f);
      *reinterpret_cast<uint2*>(to + second) = narrow(y, 1.0f);
    } else if (slot >= 0) {
      const std::int64_t in_page = std::int64_t{head.index} * p.block_size * 2 * kWideDim;
      const std::int64_t inside = in_page + (head.is_value ? std::int64_t{p.block_size} * kWideDim : 0);
      char* page = static_cast<char*>(p.pages) + slot / p.block_size * p.block_stride;
      const std::int64_t at = inside + slot % p.block_size * kWideDim;
      const float factor = 1.0f / (head.is_value ? p.value_scale : p.key_scale);
#if KV_FP8
      auto* to = reinterpret_cast<std::uint8_t*>(page) + at;
      *reinterpret_cast<std::uint32_t*>(to + first) = narrow_fp8(x, factor);
      *reinterpret_cast<std::uint32_t*>(to + second) = narrow_fp8(y, factor);
#else
      auto* to = reinterpret_cast<std::uint16_t*>(page) + at;
      *reinterpret_cast<uint2*>(to + first) = narrow(x, factor);
      *reinterpret_cast<uint2*>(to + second) = narrow(y, factor);
#endif
    }
  }
  if (!waited) wait_for_producers();
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(WARPS * 32) qkv_store(const __grid_constant__ CudaQkvStoreParams p) {
  release_consumers();
  if constexpr (kHeads > 0) {
    if (p.wide != 0) return store_wide(p);
  }
  __shared__ __align__(16) float rows[WARPS][kRow];
  float* x = rows[threadIdx.x / 32];
  const int number = blockIdx.x * WARPS + threadIdx.x / 32;
  const bool idle = number >= p.num_heads + 2 * p.num_kv_heads || blockIdx.y >= p.tokens;
  const Head head = locate(p, idle ? 0 : number);
  Token token = fetch_token(p, head, idle ? 0 : blockIdx.y);
  const Weights weights = fetch_weights(p, head);
  wait_for_producers();
  if (idle) return;
  for (std::int64_t at = blockIdx.y; at < p.tokens; at += gridDim.y) {
    if (at != blockIdx.y) token = fetch_token(p, head, at);
    if (!head.is_query && token.slot < 0) continue;
    load_head(x, head, at * head.stride + std::int64_t{head.index} * head.dim);
    if (head.is_value ? NORM == 2 : NORM >= 1) norm_head(p, x, weights, head.dim);
    if (!head.is_value && p.rope != nullptr) rotate_head(p, x, token);
    if (head.is_query) {
      auto* to = static_cast<std::uint16_t*>(p.query_out) + at * p.query_out_stride + head.index * key_dim(p);
      store_bf16(to, x, head.dim, 1.0f);
    } else {
      store_slot(p, head, token.slot, x);
    }
    __syncwarp();
  }
}
