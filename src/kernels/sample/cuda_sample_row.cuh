// A row of logits as a block of sampling kernels sees it, and what its threads find together.
#pragma once

#include "kernels/sample/cuda_sample.h"
#include "kernels/sample/weight_units.h"

namespace pagoda::kernels {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int kThreads = kSampleThreads;
constexpr int kPerThread = kSamplePiece / kThreads;
constexpr int kWarps = kThreads / 32;
constexpr float kBinsPerUnit = 32;  // 1023 bins reach e^-31.9, which is no unit any more
constexpr u32 kAll = 0xffffffffu;
constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);
constexpr u32 kInfinityKey = 0xff800000u, kMinusInfinityKey = 0x007fffffu;

// Bits of CudaSampleState::todo.
constexpr u32 kTodoWeigh = 1, kTodoSelect = 2, kTodoReport = 4, kTodoBest = 8, kTodoLogprob = 16;

/// Orders as the numbers do, NaN aside; -0 is +0.
__device__ __forceinline__ u32 order_key(float value) {
  const u32 bits = __float_as_uint(value + 0.0f);
  return bits ^ (static_cast<u32>(static_cast<int>(bits) >> 31) | 0x80000000u);
}
__device__ __forceinline__ float from_order_key(u32 key) {
  return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}
__device__ __forceinline__ u64 rank_of(float value, u32 id) { return static_cast<u64>(order_key(value)) << 32 | ~id; }
__device__ __forceinline__ float value_of(u64 rank) { return from_order_key(static_cast<u32>(rank >> 32)); }
__device__ __forceinline__ u32 id_of(u64 rank) { return ~static_cast<u32>(rank); }

/// Of a scaled logit (≤ 0). Monotone: a larger logit is never in a later bin.
__device__ __forceinline__ int bin_of(float scaled) {
  return static_cast<int>(fminf(-scaled * kBinsPerUnit, static_cast<float>(kSampleBins - 1)));
}

struct Shared {
  u64 scan[kWarps];
  double sums[kWarps];
  u32 counts[kThreads];
  u64 masses[kThreads];
  u64 pieces[kSampleMaxPieces];
  u64 need, digit_total;
  u32 digit, digit_count, found, listed;
  int bin;
  u64 best[kSampleMaxBest];
};

__device__ float find_bias(const CudaSampleBias* list, int count, u32 id) {
  int low = 0;
  for (int high = count; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (static_cast<u32>(list[middle].id) <= id) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return list[low].value;
}

__device__ __forceinline__ float change_logit(const CudaSampleSlot& slot, const CudaSampleBias* bias,
                                              std::int64_t position, float logit, u32 word, u32 id) {
  if (word & kSampleBiased) {
    logit = static_cast<float>(static_cast<double>(logit) + static_cast<double>(find_bias(bias, slot.num_bias, id)));
  }
  if (word & kSampleSeen) {
    double value = static_cast<double>(logit);
    value = value > 0 ? value / slot.repetition_penalty : value * slot.repetition_penalty;
    const u32 in_output = word & kSampleCount;
    if (in_output > 0) value -= slot.presence_penalty + slot.frequency_penalty * static_cast<double>(in_output);
    logit = static_cast<float>(value);
  }
  return (word & kSampleEnds) && position < slot.first_end ? from_order_key(kMinusInfinityKey) : logit;
}

struct Four {
  float v[kPerThread];
};
static_assert(kPerThread == 4);

/// A row as the draw sees it: its logits after bias, penalties and mask.
struct Row {
  const CudaSampleParams& p;
  CudaSampleRow wants;
  const CudaSampleSlot& slot;
  const float* logits;
  const u32* words;  // null if nothing changes

  __device__ Row(const CudaSampleParams& params, u32 row)
      : p(params), wants(params.rows[row]), slot(params.slots[wants.slot < 0 ? 0 : wants.slot]) {
    logits = p.logits + row * p.stride;
    const bool changes = wants.slot >= 0 && wants.draws != 0 && (slot.flags & kSampleWords) != 0;
    words = changes ? p.words + wants.slot * p.vocab : nullptr;
  }

  __device__ __forceinline__ float change(float logit, u32 word, u32 id) const {
    const CudaSampleBias* bias = p.bias + static_cast<std::int64_t>(wants.slot) * p.max_bias;
    return change_logit(slot, bias, wants.position, logit, word, id);
  }

  /// This thread's logits of a piece; -∞ past the vocabulary.
  __device__ __forceinline__ Four load(int piece) const {
    Four out;
    const u32 first = first_id(piece);
    if (first + kPerThread <= p.vocab && (reinterpret_cast<u64>(logits) & 15) == 0) {
      const float4 all = *reinterpret_cast<const float4*>(logits + first);
      out.v[0] = all.x, out.v[1] = all.y, out.v[2] = all.z, out.v[3] = all.w;
    } else {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) out.v[i] = first + i < p.vocab ? logits[first + i] : -kInfinity;
    }
    return out;
  }
  __device__ __forceinline__ void change(int piece, Four& logit) const {
    if (words == nullptr) return;
    const u32 first = first_id(piece);
    u32 own[kPerThread], any = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) any |= own[i] = first + i < p.vocab ? words[first + i] : 0;
    if (any == 0) return;
#pragma unroll 1
    for (int at = 0; at < kPerThread; ++at) {  // the long way once in the code, and registers by constant places
      float value = 0;
      u32 word = 0;
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        if (i == at) value = logit.v[i], word = own[i];
      }
      if (word == 0) continue;
      value = change(value, word, first + at);
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        if (i == at) logit.v[i] = value;
      }
    }
  }

  /// f(piece, this thread's logits) for every `step`-th piece, the next ones being fetched meanwhile.
  template <class F>
  __device__ __forceinline__ void for_pieces(int begin, int step, F f) const {
    if (begin >= p.pieces) return;
    Four next = load(begin);
    for (int piece = begin; piece < p.pieces; piece += step) {
      Four now = next;
      if (piece + step < p.pieces) next = load(piece + step);
      f(piece, now);
    }
  }

  static __device__ __forceinline__ u32 first_id(int piece) {
    return static_cast<u32>(piece) * kSamplePiece + threadIdx.x * kPerThread;
  }
};

__device__ __forceinline__ u64 warp_sum(u64 value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(kAll, value, offset);
  return value;
}

__device__ __forceinline__ u64 block_max(u64 value, Shared& s) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    const u64 other = __shfl_xor_sync(kAll, value, offset);
    value = other > value ? other : value;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) s.scan[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) value = s.scan[w] > value ? s.scan[w] : value;
  return value;
}

/// The sum over this thread and those below; `total` that over all.
__device__ __forceinline__ u64 block_scan(u64 value, u64& total, Shared& s) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const u64 below = __shfl_up_sync(kAll, value, offset);
    if (lane >= offset) value += below;
  }
  __syncthreads();
  if (lane == 31) s.scan[warp] = value;
  __syncthreads();
  total = 0;
  u64 before = 0;
#pragma unroll
  for (u32 w = 0; w < kWarps; ++w) {
    before += w < warp ? s.scan[w] : 0;
    total += s.scan[w];
  }
  return value + before;
}

__device__ __forceinline__ u64 block_sum(u64 value, Shared& s) {
  u64 total;
  block_scan(value, total, s);
  return total;
}

/// The same tree whatever the grid.
__device__ __forceinline__ double block_sum(double value, Shared& s) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(kAll, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) s.sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += s.sums[w];
  return total;
}

/// Whether this block is the last of its row's. What the others wrote is then visible to __ldcg.
__device__ bool ends_last(u32& counter, Shared& s) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) s.found = atomicInc(&counter, gridDim.x - 1) == gridDim.x - 1 ? 1 : 0;
  __syncthreads();
  const bool last = s.found != 0;
  __threadfence();
  __syncthreads();
  return last;
}

}  // namespace pagoda::kernels
