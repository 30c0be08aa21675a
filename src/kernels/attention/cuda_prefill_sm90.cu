// Attention of a chunk's tokens over pages, the chunk's own keys among them, for sm_90a: FlashAttention-3's scheme.
// A work's tile is WARPGROUPS · 64 query vectors: neighbouring tokens × the heads of one group. Of the first warpgroup
// one warp copies keys and values (a tensor copy a page and 64 dims), three copy queries, across the bounds of works;
// each of the others holds 64 rows: scores of a tile are issued, then the outputs of the tile before, and while these
// run the weights of this tile are made, in turns with the other warpgroups. Scores, weights and outputs stay in
// registers. Tiles of KEYS keys lie at absolute positions and are taken in order, so a row's bits are its own.
// Slots outside a tile's range (never written, or another's) are zeros before values are read: a NaN survives weight 0.
//
// Constants: HEAD_DIM_K, HEAD_DIM_V (64, 80, 96, 128, 192, 256), GROUP, WARPGROUPS (2, 3), KEYS (64, 128, 176), STAGES,
// SOFTCAP (0, 1).
#include "kernels/attention/cuda_prefill_sm90.h"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/cuda/warpgroup.cuh"

namespace pagoda::kernels {

constexpr int kThreads = (WARPGROUPS + 1) * 128;
constexpr int kRows = WARPGROUPS * 64;
constexpr int kKeySlices = (HEAD_DIM_K + 63) / 64;
constexpr int kValueSlices = (HEAD_DIM_V + 63) / 64;
constexpr int kQuerySliceBytes = kRows * 128;
constexpr int kSliceBytes = KEYS * 128;
constexpr int kKeyStageBytes = kKeySlices * kSliceBytes;
constexpr int kValueStageBytes = kValueSlices * kSliceBytes;
constexpr int kChunk = HEAD_DIM_V == 192 ? 64 : HEAD_DIM_V == 256 ? 128 : HEAD_DIM_V;  // columns of one product
constexpr int kChunks = HEAD_DIM_V / kChunk;
constexpr int kProducerRegisters = WARPGROUPS == 2 ? 40 : 32;
constexpr int kConsumerRegisters = WARPGROUPS == 2 ? 232 : 160;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kNone = __builtin_bit_cast(float, 0xff800000u);  // -∞
static_assert(kChunk * kChunks == HEAD_DIM_V);

/// The stages of a ring, walked by its producer and its consumers alike.
struct Cursor {
  int stage = 0;
  std::uint32_t round = 0;  // parity of the walks over the ring
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, round ^= 1;
  }
};

struct Barriers {
  Barrier query_full, query_free;
  Barrier key_full[STAGES], key_free[STAGES];
  Barrier value_full[STAGES], value_free[STAGES];
};

struct Shared {
  std::uint32_t queries, keys, values;
  char* base;
  Barriers* barriers;
  __device__ __forceinline__ explicit Shared(char* start)
      : queries(shared_address(start)),
        keys(queries + kKeySlices * kQuerySliceBytes),
        values(keys + STAGES * kKeyStageBytes),
        base(start),
        barriers(reinterpret_cast<Barriers*>(start + (values - queries) + STAGES * kValueStageBytes)) {}
};

/// One head of one item, and the keys that any of its tokens sees.
struct Work {
  PrefillItem item;
  int head, begin, end;
  int first, last;  // tiles

  __device__ __forceinline__ Work(const PrefillSm90Params& p, int index)
      : item(p.items[index / p.kv_heads]), head(index % p.kv_heads) {
    begin = p.window > 0 ? max(item.position - p.window + 1, 0) : 0;
    end = last_key(p, item.count - 1) + 1;
    first = begin / KEYS;
    last = (end - 1) / KEYS;
  }
  /// Of a token, counted from the item's first. It never decreases from token to token.
  __device__ __forceinline__ int last_key(const PrefillSm90Params& p, int token) const {
    return p.last_keys != nullptr ? p.last_keys[item.token + token] : item.position + token;
  }
};

/// Calls use(index) for the block's works, forth and back over the list, so that every block gets a like share.
template <class Use>
__device__ __forceinline__ void for_each_work(const PrefillSm90Params& p, Use use) {
  const int blocks = gridDim.x, total = p.num_items * p.kv_heads;
  for (int turn = 0; turn * blocks < total; ++turn) {
    const int index = turn * blocks + (turn % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x);
    if (index < total) use(index);
  }
}

/// The warp that copies keys and values; a lane has a box of slots.
class Copier {
 public:
  __device__ __forceinline__ Copier(const PrefillSm90Params& p, const Shared& shared)
      : p_(p), shared_(shared), slots_(prefill_box_slots(1 << p.block_shift, KEYS)), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    for_each_work(p_, [&](int index) {
      const Work work(p_, index);
      int page = page_of(work, work.first);
      for (int tile = work.first; tile <= work.last; ++tile) {
        const int now = page;
        if (tile < work.last) page = page_of(work, tile + 1);
        copy<kKeySlices, kKeyStageBytes>(work, tile, now, p_.keys, shared_.keys, shared_.barriers->key_full,
                                         shared_.barriers->key_free, keys_);
        copy<kValueSlices, kValueStageBytes>(work, tile, now, p_.values, shared_.values, shared_.barriers->value_full,
                                             shared_.barriers->value_free, values_);
      }
    });
  }

 private:
  __device__ __forceinline__ bool seen(const Work& work, int tile) const {
    const int key = tile * KEYS + lane_ * slots_;
    return lane_ * slots_ < KEYS && key < work.end && key + slots_ > work.begin;
  }
  __device__ __forceinline__ int page_of(const Work& work, int tile) const {
    if (!seen(work, tile)) return 0;
    return p_.block_tables[work.item.row * p_.max_blocks + ((tile * KEYS + lane_ * slots_) >> p_.block_shift)];
  }
  template <int kSlices, int kStageBytes>
  __device__ __forceinline__ void copy(const Work& work, int tile, int page, const PageMap& map, std::uint32_t ring,
                                       Barrier* full, Barrier* free, Cursor& cursor) {
    const bool mine = seen(work, tile);
    const int boxes = __popc(__ballot_sync(0xffffffffu, mine));
    wait_barrier(&free[cursor.stage], cursor.round ^ 1);
    if (lane_ == 0) arrive_expecting(&full[cursor.stage], boxes * kSlices * slots_ * 128);
    __syncwarp();
    if (mine) {
      const int slot = (tile * KEYS + lane_ * slots_) & ((1 << p_.block_shift) - 1);
      const std::uint32_t to = ring + cursor.stage * kStageBytes + lane_ * slots_ * 128;
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        copy_box(to + slice * kSliceBytes, reinterpret_cast<const TensorMapBytes*>(&map), slice * 64, slot, work.head,
                 page, &full[cursor.stage]);
      }
    }
    cursor.next();
  }

  const PrefillSm90Params& p_;
  const Shared& shared_;
  const int slots_, lane_;
  Cursor keys_, values_;
};

/// By three warps: swizzled as the tensor copies do; zeros for rows without a token.
__device__ __forceinline__ void copy_queries(const PrefillSm90Params& p, const Shared& shared) {
  constexpr int kPieces = HEAD_DIM_K / 8;
  std::uint32_t round = 1;
  for_each_work(p, [&](int index) {
    const Work work(p, index);
    wait_barrier(&shared.barriers->query_free, round);
    round ^= 1;
#pragma unroll 4
    for (int i = threadIdx.x - 32; i < kRows * kPieces; i += 96) {
      const int row = i / kPieces, piece = i % kPieces;
      const bool used = row / GROUP < work.item.count;
      const char* from = static_cast<const char*>(p.query) +
                         (work.item.token + (used ? row / GROUP : 0)) * p.query_stride * 2 +
                         static_cast<std::int64_t>(work.head * GROUP + row % GROUP) * (HEAD_DIM_K * 2) + piece * 16;
      char* to = shared.base + piece / 8 * kQuerySliceBytes + row * 128 + ((piece % 8) ^ (row % 8)) * 16;
      copy_async16(to, from, used ? 16 : 0);
    }
    commit_copies();
    wait_copies<0>();
    fence_async();
    arrive(&shared.barriers->query_full);
  });
}

/// A warp's 16 rows: lane (g, t) has rows g and g + 8, at columns 2t, 2t + 1 of each 8.
struct Running {
  float maximum[2];  // in units of log 2
  float sum[2];      // this lane's keys only
  float out[kChunks][kChunk / 2];
};
using Scores = float[KEYS / 2];
using Weights = std::uint32_t[KEYS / 16][4];

__device__ __forceinline__ void issue_scores(Scores& s, std::uint64_t queries, std::uint64_t keys) {
  begin_products();
#pragma unroll
  for (int i = 0; i < HEAD_DIM_K / 16; ++i) {
    const std::uint64_t a = queries + (i / 4 * kQuerySliceBytes + i % 4 * 32) / 16;
    const std::uint64_t b = keys + (i / 4 * kSliceBytes + i % 4 * 32) / 16;
    if (i == 0) {
      Scored<KEYS>::issue<false>(s, a, b);
    } else {
      Scored<KEYS>::issue<true>(s, a, b);
    }
  }
  commit_products();
}

__device__ __forceinline__ void issue_values(Running& state, const Weights& weights, std::uint64_t values) {
  begin_products();
#pragma unroll
  for (int i = 0; i < KEYS / 16; ++i) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      Weighted<kChunk>::issue(state.out[c], weights[i], values + (i * 2048 + c * (kChunk / 64) * kSliceBytes) / 16);
    }
  }
  commit_products();
}

/// The keys that this lane's two rows see, both ends included.
struct Sight {
  int first[2], last[2];
};

__device__ __forceinline__ void mask(Scores& s, const Sight& sight, int key) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int first = sight.first[half] - key - t * 2, last = sight.last[half] - key - t * 2;
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + i > last || n * 8 + i < first) s[n * 4 + half * 2 + i] = kNone;
      }
    }
  }
}

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/// Scores become weights; `factor` brings scores to units of log 2. The base of a row's weights is raised only when
/// they would grow beyond 2^8: the quotient in the end is the same, and outputs are seldom scaled. Whether any is, and
/// by what.
__device__ __forceinline__ bool weigh(Scores& s, Running& state, float factor, float (&shrink)[2]) {
  bool raised = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest[2] = {kNone, kNone};
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
      largest[n % 2] = fmaxf(largest[n % 2], fmaxf(s[n * 4 + half * 2], s[n * 4 + half * 2 + 1]));
    }
    const float top = quad_max(fmaxf(largest[0], largest[1])) * factor;
    float& maximum = state.maximum[half];
    const float before = maximum;
    if (top > maximum + 8.0f) maximum = top;
    const float base = maximum == kNone ? 0.0f : maximum;
    shrink[half] = exp2_fast(before - base);
    raised |= maximum != before;
    float sum[2] = {};
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = s[n * 4 + half * 2 + i];
        x = exp2_fast(fmaf(x, factor, -base));
        sum[i] += x;
      }
    }
    state.sum[half] = fmaf(state.sum[half], shrink[half], sum[0] + sum[1]);
  }
  return __any_sync(0xffffffffu, raised);
}

__device__ __forceinline__ void scale_outputs(Running& state, const float (&shrink)[2]) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) state.out[c][i] *= shrink[i / 2 % 2];
  }
}

__device__ __forceinline__ void pack(Weights& weights, const Scores& s) {
#pragma unroll
  for (int i = 0; i < KEYS / 4; ++i) weights[i / 4][i % 4] = pack_bf16(s[i * 2], s[i * 2 + 1]);
}

/// A warpgroup that multiplies: 64 rows of every work of its block.
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const PrefillSm90Params& p, const Shared& shared, int number)
      : p_(p),
        shared_(shared),
        number_(number),
        query_operand_(operand(shared.queries + number * 8192, 0)),
        factor_(SOFTCAP ? kLog2e : p.scale * kLog2e) {}

  __device__ __forceinline__ void run() {
    if (number_ == WARPGROUPS - 1) arrive_threads(1, 256);  // the first may begin
    std::uint32_t round = 0;
    for_each_work(p_, [&](int index) {
      const Work work(p_, index);
      set_sight(work);
      wait_barrier(&shared_.barriers->query_full, round);
      round ^= 1;
      attend(work);
    });
  }

 private:
  __device__ __forceinline__ int row(int half) const {
    return number_ * 64 + threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4;
  }
  __device__ __forceinline__ void set_sight(const Work& work) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = min(row(half) / GROUP, work.item.count - 1);
      sight_.first[half] = p_.window > 0 ? work.item.position + token - p_.window + 1 : 0;
      sight_.last[half] = work.last_key(p_, token);
    }
  }

  __device__ __forceinline__ void attend(const Work& work) {
    Running state = {{kNone, kNone}, {0, 0}, {}};
    Scores s;
    Weights weights;
    float shrink[2];
    // Keys that every token of the work sees.
    const int common_last = work.last_key(p_, 0);
    const int common_first = p_.window > 0 ? work.item.position + work.item.count - p_.window : 0;
    const auto make_weights = [&](int tile) {
      const int key = tile * KEYS;
      if constexpr (SOFTCAP) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; ++i) s[i] = soft_cap(s[i] * p_.scale, p_.softcap);
      }
      if (key + KEYS - 1 > common_last || key < common_first) mask(s, sight_, key);
      return weigh(s, state, factor_, shrink);
    };
    wait_barrier(&shared_.barriers->key_full[keys_.stage], keys_.round);
    issue_scores(s, query_operand_, key_operand());
    wait_products<0>();
    hold(s);
    release(shared_.barriers->key_free, keys_);
    if (work.first == work.last) arrive_warp(&shared_.barriers->query_free);
    make_weights(work.first);
    pack(weights, s);
    for (int tile = work.first + 1; tile <= work.last; ++tile) {
      wait_barrier(&shared_.barriers->key_full[keys_.stage], keys_.round);
      await_values(work, tile - 1);
      sync_threads(1 + number_, 256);
      issue_scores(s, query_operand_, key_operand());
      issue_values(state, weights, value_operand());
      arrive_threads(1 + (number_ + 1) % WARPGROUPS, 256);
      wait_products<1>();
      hold(s);
      release(shared_.barriers->key_free, keys_);
      if (tile == work.last) arrive_warp(&shared_.barriers->query_free);
      const bool raised = make_weights(tile);
      wait_products<0>();
      hold_outputs(state);
      release(shared_.barriers->value_free, values_);
      if (raised) scale_outputs(state, shrink);
      pack(weights, s);
    }
    await_values(work, work.last);
    issue_values(state, weights, value_operand());
    wait_products<0>();
    hold_outputs(state);
    release(shared_.barriers->value_free, values_);
    finish(work, state);
  }

  static __device__ __forceinline__ void hold_outputs(Running& state) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) hold(state.out[c]);
  }
  __device__ __forceinline__ std::uint64_t key_operand() const {
    return operand(shared_.keys + keys_.stage * kKeyStageBytes, 0);
  }
  __device__ __forceinline__ std::uint64_t value_operand() const {
    return operand(shared_.values + values_.stage * kValueStageBytes, kSliceBytes);
  }
  static __device__ __forceinline__ void arrive_warp(Barrier* barrier) {
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }
  static __device__ __forceinline__ void release(Barrier* free, Cursor& cursor) {
    arrive_warp(&free[cursor.stage]);
    cursor.next();
  }

  /// Waits for a tile's values. Slots that no token of the work sees become zeros; each warpgroup writes them all, so
  /// that none waits for another.
  __device__ __forceinline__ void await_values(const Work& work, int tile) {
    wait_barrier(&shared_.barriers->value_full[values_.stage], values_.round);
    const int from = max(work.begin - tile * KEYS, 0), to = min(work.end - tile * KEYS, KEYS);
    if (from == 0 && to == KEYS) return;
    char* const stage = shared_.base + (shared_.values - shared_.queries) + values_.stage * kValueStageBytes;
    for (int i = threadIdx.x % 128; i < KEYS * 8; i += 128) {
      if (i / 8 >= from && i / 8 < to) continue;
#pragma unroll
      for (int slice = 0; slice < kValueSlices; ++slice) store_vec16(stage + slice * kSliceBytes + i * 16, {});
    }
    fence_async();
    sync_threads(4 + number_, 128);
  }

  __device__ __forceinline__ void finish(const Work& work, const Running& state) const {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = quad_sum(state.sum[half]), factor = 1;
      const int token = row(half) / GROUP;
      if (token >= work.item.count) continue;
      const int head = work.head * GROUP + row(half) % GROUP;
      if (p_.sinks != nullptr) {
        const float sink = p_.sinks[head] * kLog2e;
        const float maximum = fmaxf(sink, state.maximum[half]);
        factor = exp2_fast(state.maximum[half] - maximum);
        sum = fmaf(sum, factor, exp2_fast(sink - maximum));
      }
      factor /= sum;
      auto* out = static_cast<std::uint16_t*>(p_.output) + (work.item.token + token) * p_.output_stride +
                  head * HEAD_DIM_V + t * 2;
#pragma unroll
      for (int d = 0; d < HEAD_DIM_V / 8; ++d) {
        const float* pair = &state.out[d * 8 / kChunk][d * 8 % kChunk / 2 + half * 2];
        *reinterpret_cast<std::uint32_t*>(out + d * 8) = pack_bf16(pair[0] * factor, pair[1] * factor);
      }
    }
  }

  const PrefillSm90Params& p_;
  const Shared& shared_;
  const int number_;
  const std::uint64_t query_operand_;
  const float factor_;
  Sight sight_;
  Cursor keys_, values_;
};

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, 1) prefill_sm90(const __grid_constant__ PrefillSm90Params p) {
  extern __shared__ __align__(1024) char memory[];
  const Shared shared(memory);
  if (threadIdx.x == 0) {
    init_barrier(&shared.barriers->query_full, 96);
    init_barrier(&shared.barriers->query_free, WARPGROUPS * 4);
    for (int i = 0; i < STAGES; ++i) {
      init_barrier(&shared.barriers->key_full[i], 1);
      init_barrier(&shared.barriers->value_full[i], 1);
      init_barrier(&shared.barriers->key_free[i], WARPGROUPS * 4);
      init_barrier(&shared.barriers->value_free[i], WARPGROUPS * 4);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_producers();
  release_consumers();
  if (threadIdx.x < 128) {
    drop_registers<kProducerRegisters>();
    if (threadIdx.x < 32) {
      Copier(p, shared).run();
    } else {
      copy_queries(p, shared);
    }
  } else {
    raise_registers<kConsumerRegisters>();
    Multiplier(p, shared, threadIdx.x / 128 - 1).run();
  }
}
