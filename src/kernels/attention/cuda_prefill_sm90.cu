// Attention of a chunk's tokens over pages, the chunk's own keys among them, for sm_90a: FlashAttention-3's scheme.
// A work's tile is WARPGROUPS · 64 query vectors: neighbouring tokens × the heads of one group. Of the first warpgroup
// one warp takes works and copies keys and values (a tensor copy a page and 64 dims), three copy queries; each of the
// others holds 64 rows. It issues the scores of a tile with the outputs of the tile before, then makes weights while
// the others multiply, and so on across the bounds of works. Scores, weights and outputs stay in registers. Tiles of
// KEYS keys lie at absolute positions and are taken in order, so that a row's bits are its own. Slots that no token of
// a work sees (never written, or another's) are zeros before values are read: a weight of 0 does not silence a NaN.
//
// Constants: HEAD_DIM_K, HEAD_DIM_V (64, 80, 96, 128, 192, 256), GROUP, WARPGROUPS (2, 3), KEYS (64, 80, 96, 128, 160,
// 176), STAGES (2, 4), SOFTCAP (0, 1). H200, 2026-11-30, 32/8 heads × 128 in bf16, causal: 529 TFLOP/s at 4,096 tokens
// and 561 at 16,384 (cuDNN, in another run: 531 and 566); × 64: 436 and 507 (382 and 443).
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
constexpr int kQueryTileBytes = kKeySlices * kQuerySliceBytes;
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

constexpr int kQueryTiles = prefill_sm90_query_tiles(HEAD_DIM_K, HEAD_DIM_V, kRows, KEYS, STAGES);
constexpr int kWorks = 8;  // described at once; the fifth after one is described when that one is surely done

/// One head of one item, and the keys that any of its tokens sees.
struct Work {
  PrefillItem item;
  int head;  // negative: no more works
  int begin, end;
  int first, last;                // tiles
  int common_first, common_last;  // keys that all tokens see

  __device__ __forceinline__ Work(const PrefillSm90Params& p, int index) {
    head = -1;
    if (index >= p.num_items * p.kv_heads) return;
    item = p.items[index / p.kv_heads];
    head = index % p.kv_heads;
    begin = p.window > 0 ? max(item.position - p.window + 1, 0) : 0;
    end = last_key(p, item.count - 1) + 1;
    first = begin / KEYS;
    last = (end - 1) / KEYS;
    common_first = p.window > 0 ? item.position + item.count - p.window : 0;
    common_last = last_key(p, 0);
  }
  /// Of a token, counted from the item's first. It never decreases from token to token.
  __device__ __forceinline__ int last_key(const PrefillSm90Params& p, int token) const {
    return p.last_keys != nullptr ? p.last_keys[item.token + token] : item.position + token;
  }
};

/// Where the n-th thing that passes through a ring is, and the parity of its walk over the ring.
template <int kPlaces>
__device__ __forceinline__ int place_of(int n) {
  static_assert((kPlaces & (kPlaces - 1)) == 0);
  return n % static_cast<unsigned>(kPlaces);
}
template <int kPlaces>
__device__ __forceinline__ std::uint32_t round_of(int n) {
  return n / static_cast<unsigned>(kPlaces) & 1;
}

struct Control {
  Work works[kWorks];
  Barrier work_known[kQueryTiles], query_full[kQueryTiles], query_free[kQueryTiles];
  Barrier key_full[STAGES], key_free[STAGES];
  Barrier value_full[STAGES], value_free[STAGES];
};
static_assert(sizeof(Control) <= 640);

struct Shared {
  std::uint32_t queries, keys, values;
  char* base;
  Control* control;
  __device__ __forceinline__ explicit Shared(char* start)
      : queries(shared_address(start)),
        keys(queries + kQueryTiles * kQueryTileBytes),
        values(keys + STAGES * kKeyStageBytes),
        base(start),
        control(reinterpret_cast<Control*>(start + (values - queries) + STAGES * kValueStageBytes)) {}
};

/// The warp that takes works and copies their keys and values; a lane has a box of slots.
class Copier {
 public:
  __device__ __forceinline__ Copier(const PrefillSm90Params& p, const Shared& shared)
      : p_(p), shared_(shared), slots_(prefill_box_slots(1 << p.block_shift, KEYS)), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    Work work(p_, blockIdx.x);
    describe(work);
    tell();
    int page = work.head >= 0 ? page_of(work, work.first) : 0;
    while (work.head >= 0) {
      for (int tile = work.first; tile < work.last; ++tile) {
        const int now = page;
        page = page_of(work, tile + 1);
        copy_tile(work, tile, now);
      }
      const Work next = take();
      describe(next);
      const int now = page;
      if (next.head >= 0) page = page_of(next, next.first);
      // The next work's queries wait for this one's last scores if they need their place.
      if (kQueryTiles > 1) tell();
      copy_tile(work, work.last, now);
      if (kQueryTiles == 1) tell();
      work = next;
    }
    if (lane_ == 0 && atomicAdd(p_.counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
      p_.counters[0] = 0;  // no block takes works any more
      p_.counters[1] = 0;
    }
  }

 private:
  __device__ __forceinline__ Work take() const {
    int index = 0;
    if (lane_ == 0) index = gridDim.x + atomicAdd(p_.counters, 1);
    return Work(p_, __shfl_sync(0xffffffffu, index, 0));
  }
  __device__ __forceinline__ void describe(const Work& work) {
    if (lane_ == 0) shared_.control->works[num_described_ % kWorks] = work;
    ++num_described_;
  }
  __device__ __forceinline__ void tell() {
    Control& control = *shared_.control;
    const int place = place_of<kQueryTiles>(num_told_);
    wait_barrier(&control.query_free[place], round_of<kQueryTiles>(num_told_) ^ 1);
    if (lane_ == 0) arrive(&control.work_known[place]);
    ++num_told_;
  }
  __device__ __forceinline__ bool seen(const Work& work, int tile) const {
    const int key = tile * KEYS + lane_ * slots_;
    return lane_ * slots_ < KEYS && key < work.end && key + slots_ > work.begin;
  }
  __device__ __forceinline__ int page_of(const Work& work, int tile) const {
    if (!seen(work, tile)) return 0;
    return p_.block_tables[work.item.row * p_.max_blocks + ((tile * KEYS + lane_ * slots_) >> p_.block_shift)];
  }
  __device__ __forceinline__ void copy_tile(const Work& work, int tile, int page) {
    Control& control = *shared_.control;
    copy<kKeySlices, kKeyStageBytes>(work, tile, page, p_.keys, shared_.keys, control.key_full, control.key_free);
    copy<kValueSlices, kValueStageBytes>(work, tile, page, p_.values, shared_.values, control.value_full,
                                         control.value_free);
    ++num_tiles_;
  }
  template <int kSlices, int kStageBytes>
  __device__ __forceinline__ void copy(const Work& work, int tile, int page, const PageMap& map, std::uint32_t ring,
                                       Barrier* full, Barrier* free) {
    const bool mine = seen(work, tile);
    const int boxes = __popc(__ballot_sync(0xffffffffu, mine));
    const int place = place_of<STAGES>(num_tiles_);
    wait_barrier(&free[place], round_of<STAGES>(num_tiles_) ^ 1);
    if (lane_ == 0) arrive_expecting(&full[place], boxes * kSlices * slots_ * 128);
    __syncwarp();
    if (mine) {
      const int slot = (tile * KEYS + lane_ * slots_) & ((1 << p_.block_shift) - 1);
      const std::uint32_t to = ring + place * kStageBytes + lane_ * slots_ * 128;
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        copy_box(to + slice * kSliceBytes, reinterpret_cast<const TensorMapBytes*>(&map), slice * 64, slot, work.head,
                 page, &full[place]);
      }
    }
  }

  const PrefillSm90Params& p_;
  const Shared& shared_;
  const int slots_, lane_;
  int num_described_ = 0, num_told_ = 0, num_tiles_ = 0;
};

/// By three warps: swizzled as the tensor copies do; zeros for rows without a token.
__device__ __forceinline__ void copy_queries(const PrefillSm90Params& p, const Shared& shared) {
  constexpr int kPieces = HEAD_DIM_K / 8;
  Control& control = *shared.control;
  for (int number = 0;; ++number) {
    const int place = place_of<kQueryTiles>(number);
    wait_barrier(&control.work_known[place], round_of<kQueryTiles>(number));
    const Work& work = control.works[number % kWorks];
    const PrefillItem item = work.item;
    const int head = work.head;
    char* const tile = shared.base + place * kQueryTileBytes;
#pragma unroll 4
    for (int i = threadIdx.x - 32; i < kRows * kPieces; i += 96) {
      if (head < 0) break;
      const int row = i / kPieces, piece = i % kPieces;
      const bool used = row / GROUP < item.count;
      const char* from = static_cast<const char*>(p.query) +
                         (item.token + (used ? row / GROUP : 0)) * p.query_stride * 2 +
                         static_cast<std::int64_t>(head * GROUP + row % GROUP) * (HEAD_DIM_K * 2) + piece * 16;
      char* to = tile + piece / 8 * kQuerySliceBytes + row * 128 + ((piece % 8) ^ (row % 8)) * 16;
      copy_async16(to, from, used ? 16 : 0);
    }
    commit_copies();
    wait_copies<0>();
    fence_async();
    arrive(&control.query_full[place]);
    if (head < 0) return;
  }
}

/// A warp's 16 rows: lane (g, t) has rows g and g + 8, at columns 2t, 2t + 1 of each 8.
struct Totals {
  float maximum[2] = {kNone, kNone};  // in units of log 2
  float sum[2] = {};                  // this lane's keys only
};
using Outputs = float[kChunks][kChunk / 2];
using Scores = float[KEYS / 2];
using Weights = std::uint32_t[KEYS / 16][4];

__device__ __forceinline__ void issue_scores(Scores& s, std::uint64_t queries, std::uint64_t keys) {
  asm volatile("" : "+l"(queries), "+l"(keys));  // sums with them are made here, not kept
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

__device__ __forceinline__ void issue_values(Outputs& out, const Weights& weights, std::uint64_t values, bool add) {
  asm volatile("" : "+l"(values));
  begin_products();
#pragma unroll
  for (int i = 0; i < KEYS / 16; ++i) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      Weighted<kChunk>::issue(out[c], weights[i], values + (i * 2048 + c * (kChunk / 64) * kSliceBytes) / 16,
                              i > 0 || add);
    }
  }
  commit_products();
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
__device__ __forceinline__ bool weigh(Scores& s, Totals& totals, float factor, float (&shrink)[2]) {
  float base[2];
  bool raised = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest[2] = {s[half * 2], s[half * 2 + 1]};
#pragma unroll
    for (int n = 1; n < KEYS / 8; ++n) {
      largest[n % 2] = fmaxf(largest[n % 2], fmaxf(s[n * 4 + half * 2], s[n * 4 + half * 2 + 1]));
    }
    const float top = quad_max(fmaxf(largest[0], largest[1])) * factor;
    const float before = totals.maximum[half];
    if (top > before + 8.0f) totals.maximum[half] = top;
    base[half] = totals.maximum[half] == kNone ? 0.0f : totals.maximum[half];
    shrink[half] = exp2_fast(before - base[half]);
    raised |= totals.maximum[half] != before;
  }
  float sum[2][2] = {};
#pragma unroll
  for (int i = 0; i < KEYS / 2; ++i) {
    const int half = i / 2 % 2;
    s[i] = exp2_fast(fmaf(s[i], factor, -base[half]));
    sum[half][i % 2] += s[i];
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    totals.sum[half] = fmaf(totals.sum[half], shrink[half], sum[half][0] + sum[half][1]);
  }
  return __any_sync(0xffffffffu, raised);
}

__device__ __forceinline__ void scale_outputs(Outputs& out, const float (&shrink)[2]) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) out[c][i] *= shrink[i / 2 % 2];
  }
}

__device__ __forceinline__ void pack(Weights& weights, const Scores& s) {
#pragma unroll
  for (int i = 0; i < KEYS / 4; ++i) weights[i / 4][i % 4] = pack_bf16(s[i * 2], s[i * 2 + 1]);
}

/// A warpgroup that multiplies: 64 rows of every work of its block. It goes from tile to tile without regard to where
/// one work ends: scores of the next work's first tile are made beside the outputs of the last tile before it.
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const PrefillSm90Params& p, const Shared& shared, int number)
      : p_(p),
        shared_(shared),
        control_(*shared.control),
        number_(number),
        factor_(SOFTCAP ? kLog2e : p.scale * kLog2e) {}

  __device__ __forceinline__ void run() {
    if (number_ == WARPGROUPS - 1) arrive_threads(1, 256);  // the first may begin
    if (!begin_work()) return;
    Outputs out;
    Totals totals;
    Scores s;
    Weights weights;
    float shrink[2], factor[2];
    int tile = first_;
    bool edge = is_edge(tile), fresh = true;  // no outputs of the work so far
    await_keys();
    issue_scores(s, query_operand(), key_operand());
    wait_products<0>();
    hold(s);
    release_keys(tile == last_);
    make_weights(s, totals, shrink, tile, edge);
    pack(weights, s);
    while (true) {
      const int tile_before = tile;
      const bool ends = tile == last_, edge_before = edge;
      if (ends) {
        ++work_;
        if (!begin_work()) break;
        tile = first_;
      } else {
        ++tile;
      }
      edge = is_edge(tile);
      await_keys();
      await_values();
      if (edge_before) clear_unseen(ends ? work_ - 1 : work_, tile_before);
      sync_threads(1 + number_, 256);
      issue_scores(s, query_operand(), key_operand());
      issue_values(out, weights, value_operand(), !fresh);
      arrive_threads(1 + (number_ + 1) % WARPGROUPS, 256);
      if (ends) {
        final_factors(work_ - 1, totals, factor);
        totals = {};
      }
      wait_products<1>();
      hold(s);
      release_keys(tile == last_);
      const bool raised = make_weights(s, totals, shrink, tile, edge);
      // The compiler moves this wait ahead of the weights. Held behind them by a branch it costs 1 to 9 %.
      wait_products<0>();
      hold_outputs(out);
      release(&control_.value_free[place_of<STAGES>(turn_ - 2)]);
      pack(weights, s);
      if (ends) finish(work_ - 1, factor, out);
      if (raised) scale_outputs(out, shrink);
      fresh = ends;
    }
    await_values();
    if (edge) clear_unseen(work_ - 1, tile);
    issue_values(out, weights, value_operand(), !fresh);
    final_factors(work_ - 1, totals, factor);
    wait_products<0>();
    hold_outputs(out);
    finish(work_ - 1, factor, out);
  }

 private:
  /// Whether there is such a work; its queries have arrived then.
  __device__ __forceinline__ bool begin_work() {
    wait_barrier(&control_.query_full[place_of<kQueryTiles>(work_)], round_of<kQueryTiles>(work_));
    const Work& work = control_.works[work_ % kWorks];
    first_ = work.first;
    last_ = work.last;
    common_first_ = work.common_first;
    common_last_ = work.common_last;
    return work.head >= 0;
  }
  /// Whether some token of the work does not see all keys of a tile.
  __device__ __forceinline__ bool is_edge(int tile) const {
    return tile * KEYS + KEYS - 1 > common_last_ || tile * KEYS < common_first_;
  }
  /// Of tile `turn_`; the values are those of the tile before.
  __device__ __forceinline__ void await_keys() const {
    wait_barrier(&control_.key_full[place_of<STAGES>(turn_)], round_of<STAGES>(turn_));
  }
  __device__ __forceinline__ void await_values() const {
    wait_barrier(&control_.value_full[place_of<STAGES>(turn_ - 1)], round_of<STAGES>(turn_ - 1));
  }
  static __device__ __forceinline__ void release(Barrier* free) {
    if (threadIdx.x % 32 == 0) arrive(free);
  }
  /// And the queries, if the tile was their last. The turn goes to the next tile.
  __device__ __forceinline__ void release_keys(bool last) {
    release(&control_.key_free[place_of<STAGES>(turn_)]);
    if (last) release(&control_.query_free[place_of<kQueryTiles>(work_)]);
    ++turn_;
  }
  __device__ __forceinline__ int row(int half) const {
    return number_ * 64 + threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4;
  }
  __device__ __forceinline__ bool make_weights(Scores& s, Totals& totals, float (&shrink)[2], int tile,
                                               bool edge) const {
    if constexpr (SOFTCAP) {
#pragma unroll
      for (int i = 0; i < KEYS / 2; ++i) s[i] = soft_cap(s[i] * p_.scale, p_.softcap);
    }
    if (edge) mask(s, tile * KEYS);
    return weigh(s, totals, factor_, shrink);
  }

  /// Hides the keys that a row does not see.
  __device__ __forceinline__ void mask(Scores& s, int key) const {
    const Work& work = control_.works[work_ % kWorks];
    key += threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = min(row(half) / GROUP, work.item.count - 1);
      const int last = work.last_key(p_, token) - key;
      const int first = p_.window > 0 ? work.item.position + token - p_.window + 1 - key : -key;
#pragma unroll
      for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (n * 8 + i > last || n * 8 + i < first) s[n * 4 + half * 2 + i] = kNone;
        }
      }
    }
  }

  static __device__ __forceinline__ void hold_outputs(Outputs& out) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) hold(out[c]);
  }
  __device__ __forceinline__ std::uint64_t query_operand() const {
    return operand(shared_.queries + place_of<kQueryTiles>(work_) * kQueryTileBytes + number_ * 8192, 0);
  }
  __device__ __forceinline__ std::uint64_t key_operand() const {
    return operand(shared_.keys + place_of<STAGES>(turn_) * kKeyStageBytes, 0);
  }
  __device__ __forceinline__ std::uint64_t value_operand() const {
    return operand(shared_.values + place_of<STAGES>(turn_ - 1) * kValueStageBytes, kSliceBytes);
  }
  /// Values of slots that no token of the work sees become zeros. Each warpgroup writes them all, so that none waits
  /// for another.
  __device__ __forceinline__ void clear_unseen(int number, int tile) {
    const Work& work = control_.works[number % kWorks];
    const int from = max(work.begin - tile * KEYS, 0), to = min(work.end - tile * KEYS, KEYS);
    if (from == 0 && to == KEYS) return;
    char* const stage =
        shared_.base + (shared_.values - shared_.queries) + place_of<STAGES>(turn_ - 1) * kValueStageBytes;
    for (int i = threadIdx.x % 128; i < KEYS * 8; i += 128) {
      if (i / 8 >= from && i / 8 < to) continue;
#pragma unroll
      for (int slice = 0; slice < kValueSlices; ++slice) store_vec16(stage + slice * kSliceBytes + i * 16, {});
    }
    fence_async();
    sync_threads(4 + number_, 128);
  }

  /// By which a work's outputs are multiplied in the end.
  __device__ __forceinline__ void final_factors(int number, const Totals& totals, float (&factor)[2]) const {
    const int first_head = control_.works[number % kWorks].head * GROUP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = quad_sum(totals.sum[half]);
      factor[half] = 1;
      if (p_.sinks != nullptr) {
        const float sink = p_.sinks[first_head + row(half) % GROUP] * kLog2e;
        const float maximum = fmaxf(sink, totals.maximum[half]);
        factor[half] = exp2_fast(totals.maximum[half] - maximum);
        sum = fmaf(sum, factor[half], exp2_fast(sink - maximum));
      }
      factor[half] /= sum;
    }
  }

  __device__ __forceinline__ void finish(int number, const float (&factor)[2], const Outputs& out) const {
    const Work& work = control_.works[number % kWorks];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = row(half) / GROUP, head = work.head * GROUP + row(half) % GROUP;
      if (token >= work.item.count) continue;
      auto* to = static_cast<std::uint16_t*>(p_.output) + (work.item.token + token) * p_.output_stride +
                 head * HEAD_DIM_V + threadIdx.x % 4 * 2;
#pragma unroll
      for (int d = 0; d < HEAD_DIM_V / 8; ++d) {
        const float* pair = &out[d * 8 / kChunk][d * 8 % kChunk / 2 + half * 2];
        *reinterpret_cast<std::uint32_t*>(to + d * 8) = pack_bf16(pair[0] * factor[half], pair[1] * factor[half]);
      }
    }
  }

  const PrefillSm90Params& p_;
  const Shared& shared_;
  Control& control_;
  const int number_;
  const float factor_;
  int first_, last_, common_first_, common_last_;  // of the work
  int work_ = 0;                                   // the number of the one whose scores are made
  int turn_ = 0;                                   // tiles whose keys were read
};

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, 1) prefill_sm90(const __grid_constant__ PrefillSm90Params p) {
  extern __shared__ __align__(1024) char memory[];
  const Shared shared(memory);
  Control& control = *shared.control;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kQueryTiles; ++i) {
      init_barrier(&control.work_known[i], 1);
      init_barrier(&control.query_full[i], 96);
      init_barrier(&control.query_free[i], WARPGROUPS * 4);
    }
    for (int i = 0; i < STAGES; ++i) {
      init_barrier(&control.key_full[i], 1);
      init_barrier(&control.value_full[i], 1);
      init_barrier(&control.key_free[i], WARPGROUPS * 4);
      init_barrier(&control.value_free[i], WARPGROUPS * 4);
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
    Multiplier(p, shared, __shfl_sync(0xffffffffu, threadIdx.x / 128, 0) - 1).run();
  }
}
