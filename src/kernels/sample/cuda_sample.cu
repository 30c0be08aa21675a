// A row of logits to a token and log-probabilities, by the rules of sample.h and with the host's bits: masses are whole
// units (weight_units.h), so that blocks may sum them in any order and nothing is sorted.
//   sample_extremes  the largest logit, raw and changed; ends greedy rows
//   sample_weigh     masses by piece; a histogram of the scaled logits, which tells between which bins a limit falls
//   sample_select    the tokens of those bins, the exact limit among them, and the draw in order of ids
// Grid: (blocks of a row, rows, in the last two kernels: 0 draw, 1 report of raw log-probabilities). A block takes
// every gridDim.x-th piece of 1024 logits; the block of a row that ends last goes on with the row. A limit is a rank:
// the order key of a logit above the complement of its id, so that ties go to lower ids. Constants: MIN_BLOCKS, blocks
// that a multiprocessor shall have room for; two more of the first kernel. Moves: the row once (greedy), twice or three
// times, mostly from the second-level cache.
#include "kernels/cuda/ptx.cuh"
#include "kernels/sample/cuda_sample.h"
#include "kernels/sample/exp_nonpositive.h"
#include "kernels/sample/philox.h"
#include "kernels/sample/weight_units.h"

using namespace pagoda;
using namespace pagoda::kernels;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

namespace {

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
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const u32 word = first + i < p.vocab ? words[first + i] : 0;
      if (word != 0) logit.v[i] = change(logit.v[i], word, first + i);
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

__device__ __forceinline__ Weighing<float> draw_weighing(const Row& row, const CudaSampleState& state) {
  return weighing(state.max, row.slot.inverse, row.p.weight_bits);
}
/// Tokens that weigh less are not drawn.
__device__ __forceinline__ u64 draw_floor(const Row& row, const Weighing<float>& how) {
  return wanted_units(row.slot.min_p, u64{1} << how.bits);
}

/// What is known once the token is. No other block of the row reads its words any more.
__device__ void take(const Row& row, u32 index, u32 id) {
  row.p.results[index].id = static_cast<int>(id);
  row.p.last_ids[row.wants.slot] = static_cast<int>(id);
  if (row.slot.flags & kSamplePenalises) {
    u32& word = row.p.words[row.wants.slot * row.p.vocab + id];
    word = (word | kSampleSeen) + 1;
  }
}

/// The token drawn from kept ones (rank at least `limit`, bin at most `last_bin`), `s.pieces` being their masses.
__device__ void draw(const Row& row, u32 index, const Weighing<float>& how, int last_bin, u64 limit, Shared& s) {
  constexpr int kOwn = kSampleMaxPieces / kThreads;
  const u64 word = draw_word(row.slot.seed, row.slot.choice, row.wants.position);
  const u64 floor = draw_floor(row, how);
  __syncthreads();
  u64 own = 0, total;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) own += s.pieces[threadIdx.x * kOwn + i];
  u64 passed = block_scan(own, total, s) - own;
  const u64 threshold = multiply_high(word, total);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const u64 mass = s.pieces[threadIdx.x * kOwn + i];
    if (passed <= threshold && threshold < passed + mass) {
      s.found = threadIdx.x * kOwn + i;
      s.need = threshold - passed;
    }
    passed += mass;
  }
  __syncthreads();
  const int piece = static_cast<int>(s.found);
  const u64 need = s.need;
  const u32 first = Row::first_id(piece);
  Four logit = row.load(piece);
  row.change(piece, logit);
  u64 units[kPerThread];
  own = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const bool kept = bin_of(scaled_logit(logit.v[i], how)) <= last_bin && rank_of(logit.v[i], first + i) >= limit;
    units[i] = kept ? weight_units(logit.v[i], how) : 0;
    if (units[i] < floor) units[i] = 0;
    own += units[i];
  }
  passed = block_scan(own, total, s) - own;
  bool here = false;
  u32 id = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (!here && passed <= need && need < passed + units[i]) {
      here = true;
      id = first + i;
    }
    passed += units[i];
  }
  __syncthreads();  // every thread has read what it needs of the words
  if (here) take(row, index, id);
}

/// Loads `s.pieces` from the masses of warps, or zeros.
__device__ void load_pieces(const CudaSampleParams& p, const u64* masses, bool there, Shared& s) {
  for (int piece = threadIdx.x; piece < kSampleMaxPieces; piece += kThreads) {
    u64 sum = 0;
    if (there && piece < p.pieces) {
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += __ldcg(masses + piece * kWarps + warp);
    }
    s.pieces[piece] = sum;
  }
}

/// The tokens of a list, in shared memory.
struct ListSource {
  u64 *ranks, *units;
  u32 count;

  static constexpr int kSharedWords = 2 * kSampleList;
  __device__ ListSource(const u64* list, u32 tokens, const Weighing<float>& how, u64* shared)
      : ranks(shared), units(shared + kSampleList), count(tokens) {
    for (u32 at = threadIdx.x; at < count; at += kThreads) {
      ranks[at] = __ldcg(list + at);
      units[at] = weight_units(value_of(ranks[at]), how);
    }
  }
  /// f(rank, units, whether there is one), by whole warps. A thread sees its own tokens alone.
  template <class F>
  __device__ __forceinline__ void for_each(F f) const {
#pragma unroll 1
    for (u32 first = 0; first < count; first += kThreads) {
      const u32 at = first + threadIdx.x;
      const bool there = at < count;
      f(there ? ranks[at] : 0, there ? units[at] : 0, there);
    }
  }
};

/// The tokens of a row's bins (sure, last], where a list has no room for them.
struct RowSource {
  const Row& row;
  bool raw;
  const Weighing<float>& how;
  int sure, last;

  template <class F>
  __device__ void for_each(F f) const {
    row.for_pieces(0, 1, [&](int piece, Four& logit) {
      if (!raw) row.change(piece, logit);
      const u32 first = Row::first_id(piece);
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const int bin = bin_of(scaled_logit(logit.v[i], how));
        const bool there = first + i < row.p.vocab && bin > sure && bin <= last;
        f(rank_of(logit.v[i], first + i), there ? weight_units(logit.v[i], how) : 0, there);
      }
    });
  }
};

/// The least rank whose predecessors, from the largest down, have not reached `need` in number or in mass: digit by
/// digit. Its lower digits may be zero where no other token has the same upper ones.
template <class Source>
__device__ u64 find_limit(const Source& source, bool by_mass, u64 need, Shared& s) {
  u64 prefix = 0, mask = 0;
#pragma unroll 1
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    s.counts[threadIdx.x] = 0;
    s.masses[threadIdx.x] = 0;
    if (threadIdx.x == 0) s.found = 0;
    __syncthreads();
    source.for_each([&](u64 rank, u64 units, bool there) {
      const bool counts = there && (rank & mask) == prefix;
      const u32 voters = __ballot_sync(kAll, counts);
      if (voters == 0) return;
      const u32 digit = static_cast<u32>(rank >> shift) & 255;
      const int leader = __ffs(voters) - 1;
      const u32 common = __shfl_sync(kAll, digit, leader);
      if (__all_sync(kAll, !counts || digit == common)) {
        const u64 sum = warp_sum(counts ? units : 0);
        if (static_cast<int>(threadIdx.x % 32) != leader) return;
        atomicAdd(&s.counts[digit], static_cast<u32>(__popc(voters)));
        if (by_mass) atomicAdd(reinterpret_cast<unsigned long long*>(&s.masses[digit]), sum);
      } else if (counts) {
        atomicAdd(&s.counts[digit], 1u);
        if (by_mass) atomicAdd(reinterpret_cast<unsigned long long*>(&s.masses[digit]), units);
      }
    });
    __syncthreads();
    const u32 digit = 255 - threadIdx.x;
    const u64 own = by_mass ? s.masses[digit] : s.counts[digit];
    u64 total;
    const u64 reached = block_scan(own, total, s);
    if (reached - own < need && need <= reached) {
      s.found = 1;
      s.digit = digit;
      s.digit_count = s.counts[digit];
      s.digit_total = own;
      s.need = need - (reached - own);
    }
    __syncthreads();
    if (s.found == 0) return prefix;  // there are no more
    prefix |= static_cast<u64>(s.digit) << shift;
    mask |= u64{255} << shift;
    need = s.need;
    if (s.digit_count == 1 || s.digit_total == need) break;
  }
  return prefix;
}

/// Adds to `s.pieces` what of a source is kept.
template <class Source>
__device__ void add_kept(const Source& source, u64 floor, u64 limit, Shared& s) {
  source.for_each([&](u64 rank, u64 units, bool there) {
    const bool kept = there && rank >= limit && units >= floor;
    const u32 voters = __ballot_sync(kAll, kept);
    if (voters == 0) return;
    const u32 piece = id_of(rank) / kSamplePiece;
    const int leader = __ffs(voters) - 1;
    const u32 common = __shfl_sync(kAll, piece, leader);
    if (__all_sync(kAll, !kept || piece == common)) {
      const u64 sum = warp_sum(kept ? units : 0);
      if (static_cast<int>(threadIdx.x % 32) != leader) return;
      atomicAdd(reinterpret_cast<unsigned long long*>(&s.pieces[piece]), sum);
    } else if (kept) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&s.pieces[piece]), units);
    }
  });
}

/// The exact limit of top-k and top-p among a source's tokens, and the draw. `sure_mass` is of all better ones.
template <class Source>
__device__ void limit_and_draw(const Row& row, u32 index, const CudaSampleState& state, const Weighing<float>& how,
                               const Source& source, u64 sure_mass, Shared& s) {
  bool by_mass = row.slot.top_k == 0;
  u64 need = state.wanted - (by_mass ? sure_mass : 0);
  u64 limit;
#pragma unroll 1
  for (;; by_mass = true) {
    limit = find_limit(source, by_mass, need, s);
    if (by_mass || row.slot.top_p >= 1) break;
    u64 own = 0;  // what top-k keeps, for top-p
    source.for_each([&](u64 rank, u64 units, bool there) { own += there && rank >= limit ? units : 0; });
    need = wanted_units(row.slot.top_p, block_sum(own, s));
  }
  __syncthreads();
  add_kept(source, draw_floor(row, how), limit, s);
  draw(row, index, how, state.last_bin[0], limit, s);
}

/// The best tokens among a source's, best first.
template <class Source>
__device__ void write_best(const Row& row, u32 index, double log_sum, const Source& source, Shared& s) {
  const u32 count = static_cast<u32>(row.wants.num_best);
  const u64 limit = find_limit(source, false, count, s);
  __syncthreads();
  if (threadIdx.x == 0) s.listed = 0;
  __syncthreads();
  source.for_each([&](u64 rank, u64, bool there) {
    if (!there || rank < limit) return;
    const u32 at = atomicAdd(&s.listed, 1u);
    if (at < kSampleMaxBest) s.best[at] = rank;
  });
  __syncthreads();
  if (threadIdx.x >= count) return;
  const u64 own = s.best[threadIdx.x];
  u32 place = 0;
  for (u32 i = 0; i < count; ++i) place += s.best[i] > own ? 1 : 0;
  const double logit = static_cast<double>(row.logits[id_of(own)]);
  row.p.best[static_cast<std::int64_t>(index) * row.p.max_best + place] = {static_cast<int>(id_of(own)),
                                                                           static_cast<float>(logit - log_sum)};
}

/// This block's counts to the row's.
__device__ void add_bins(u32* bins, const u32* own) {
  __syncthreads();
  for (int bin = threadIdx.x; bin < kSampleBins; bin += kThreads) {
    if (own[bin] != 0) atomicAdd(bins + bin, own[bin]);
  }
}

constexpr int kOwnBins = kSampleBins / kThreads;

/// Takes the row's counts of this thread's bins and leaves zeros.
__device__ void take_bins(u32* bins, u32 (&counts)[kOwnBins]) {
#pragma unroll
  for (int i = 0; i < kOwnBins; ++i) {
    counts[i] = __ldcg(bins + threadIdx.x * kOwnBins + i);
    bins[threadIdx.x * kOwnBins + i] = 0;
  }
}

/// The first bin with which `count` tokens are reached, or `most`; the tokens before it, and in it.
struct Reached {
  int bin;
  u32 before, in_bin;
};
__device__ Reached find_count(const u32 (&counts)[kOwnBins], u64 count, int most, Shared& s) {
  u64 own = 0, total;
#pragma unroll
  for (int i = 0; i < kOwnBins; ++i) own += counts[i];
  u64 seen = block_scan(own, total, s) - own;
#pragma unroll
  for (int i = 0; i < kOwnBins; ++i) {
    const int bin = threadIdx.x * kOwnBins + i;
    if (seen < count && (bin == most || (bin < most && count <= seen + counts[i]))) {
      s.bin = bin;
      s.digit = static_cast<u32>(seen);
      s.digit_count = counts[i];
    }
    seen += counts[i];
  }
  __syncthreads();
  return {s.bin, s.digit, s.digit_count};
}

/// The bins between which top-p's limit falls, from bounds of each bin's mass: better bins are kept whole.
__device__ void find_mass(const u32 (&counts)[kOwnBins], double one, u64 spare, CudaSampleState& state, Shared& s) {
  // Of the weight at a bin's edge, with room for what single precision is off.
  const auto edge = [&](int bin) {
    return static_cast<u64>(exp_nonpositive(-bin / static_cast<double>(kBinsPerUnit)) * one);
  };
  u64 least[kOwnBins], most[kOwnBins], own_least = 0, own_most = 0, own = 0;
#pragma unroll
  for (int i = 0; i < kOwnBins; ++i) {
    const int bin = threadIdx.x * kOwnBins + i;
    const u64 high = edge(bin), low = edge(bin + 1);
    const bool none = bin == kSampleBins - 1;  // its tokens weigh nothing
    own_least += least[i] = none || low < 4 ? 0 : counts[i] * (low - (low >> 16) - 3);
    own_most += most[i] = none ? 0 : counts[i] * (high + (high >> 16) + 3);
    own += counts[i];
  }
  u64 total_least, total_most, total;
  // Bounds of what lies behind each bin.
  u64 behind_least = block_scan(own_least, total_least, s) - own_least;
  u64 behind_most = block_scan(own_most, total_most, s) - own_most;
  u64 seen = block_scan(own, total, s) - own;
  behind_least = total_least - behind_least;
  behind_most = total_most - behind_most;
  if (threadIdx.x == 0) {
    s.bin = -1;  // sure
    s.listed = 0;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kOwnBins; ++i) {
    const int bin = threadIdx.x * kOwnBins + i;
    const bool was_needed = behind_most > spare;
    behind_least -= least[i];
    behind_most -= most[i];
    seen += counts[i];
    if ((was_needed || bin == 0) && behind_most <= spare) {
      s.digit = static_cast<u32>(bin);
      s.digit_count = static_cast<u32>(seen);
    }
    if (behind_least > spare) {
      atomicMax(&s.bin, bin);
      atomicMax(&s.listed, static_cast<u32>(seen));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    state.last_bin[0] = static_cast<int>(s.digit);
    state.sure_bin = s.bin;
    state.in_bins[0] = s.digit_count - s.listed;
  }
}

__device__ void clear_bins(u32* bins) {
  for (int bin = threadIdx.x; bin < kSampleBins; bin += kThreads) bins[bin] = 0;
  __syncthreads();
}

__device__ void weigh_for_draw(const Row& row, u32 index, CudaSampleState& state, u32* own_bins, Shared& s) {
  const CudaSampleParams& p = row.p;
  const Weighing<float> how = draw_weighing(row, state);
  const u64 floor = draw_floor(row, how);
  const bool selects = state.todo & kTodoSelect, weighs = row.slot.top_k == 0;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32* bins = p.bins + static_cast<std::int64_t>(index) * 2 * kSampleBins;
  u64* mass = p.masses + static_cast<std::int64_t>(index) * p.pieces * kWarps;
  u64* partials = p.partials + static_cast<std::int64_t>(index) * p.pieces * 2;
  u64 all = 0;
  if (selects) clear_bins(own_bins);
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
    row.change(piece, logit);
    const u32 first = Row::first_id(piece);
    u64 own = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (selects && first + i < p.vocab) atomicAdd(&own_bins[bin_of(scaled_logit(logit.v[i], how))], 1u);
      if (!weighs) continue;
      const u64 units = weight_units(logit.v[i], how);
      own += selects || units >= floor ? units : 0;
    }
    all += own;
    if (selects) return;
    own = warp_sum(own);
    if (lane == 0) mass[piece * kWarps + warp] = own;
  });
  if (selects) {
    add_bins(bins, own_bins);
    all = block_sum(all, s);
    if (threadIdx.x == 0) partials[blockIdx.x] = all;
  }
  if (!ends_last(state.arrived[1], s)) return;
  if (!selects) {
    load_pieces(p, mass, true, s);
    draw(row, index, how, kSampleBins, 0, s);
    return;
  }
  u32 counts[kOwnBins];
  take_bins(bins, counts);
  if (!weighs) {
    const u64 top_k = static_cast<u64>(row.slot.top_k);
    const Reached reached = find_count(counts, top_k, kSampleBins - 2, s);
    const bool whole = row.slot.top_p < 1;  // top-p's limit may lie anywhere above
    if (threadIdx.x == 0) {
      state.last_bin[0] = reached.bin;
      state.sure_bin = whole ? -1 : reached.bin - 1;
      state.in_bins[0] = reached.in_bin + (whole ? reached.before : 0);
      state.wanted = top_k - (whole ? 0 : reached.before);
    }
    return;
  }
  u64 own = 0;
  for (u32 block = threadIdx.x; block < gridDim.x; block += kThreads) own += __ldcg(partials + block);
  const u64 total = block_sum(own, s);
  const u64 wanted = wanted_units(row.slot.top_p, total);
  if (threadIdx.x == 0) state.wanted = wanted;
  find_mass(counts, how.one, total - wanted, state, s);
}

__device__ void weigh_for_report(const Row& row, u32 index, CudaSampleState& state, u32* own_bins, Shared& s) {
  const CudaSampleParams& p = row.p;
  const Weighing<float> how = weighing(state.raw_max, 1.0, p.weight_bits);
  const bool best = state.todo & kTodoBest;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32* bins = p.bins + (static_cast<std::int64_t>(index) * 2 + 1) * kSampleBins;
  double* sums = p.sums + static_cast<std::int64_t>(index) * p.pieces * kWarps;
  if (best) clear_bins(own_bins);
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
    const u32 first = Row::first_id(piece);
    double head = 0;
    float tail = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const float scaled = scaled_logit(logit.v[i], how);
      if (best && first + i < p.vocab) atomicAdd(&own_bins[bin_of(scaled)], 1u);
      if (scaled > kTailBelow) {
        head += exp_nonpositive(static_cast<double>(logit.v[i]) - static_cast<double>(how.max));
      } else if (scaled > -40.0f) {
        tail += tail_weight(scaled, 0);
      }
    }
    head += static_cast<double>(tail);
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) head += __shfl_xor_sync(kAll, head, offset);
    if (lane == 0) sums[piece * kWarps + warp] = head;
  });
  if (best) add_bins(bins, own_bins);
  if (!ends_last(state.arrived[2], s)) return;
  double own = 0;
  for (int at = threadIdx.x; at < p.pieces * kWarps; at += kThreads) own += __ldcg(sums + at);
  const double log_sum = static_cast<double>(how.max) + log(block_sum(own, s));
  if (threadIdx.x == 0) {
    state.log_sum = log_sum;
    if (row.wants.target >= 0) {
      p.results[index].target_logprob = static_cast<float>(static_cast<double>(row.logits[row.wants.target]) - log_sum);
    }
  }
  if (!best) return;
  u32 counts[kOwnBins];
  take_bins(bins, counts);
  const Reached reached = find_count(counts, static_cast<u64>(row.wants.num_best), kSampleBins - 1, s);
  if (threadIdx.x == 0) {
    state.last_bin[1] = reached.bin;
    state.in_bins[1] = reached.before + reached.in_bin;
  }
}

/// Puts this thread's tokens of bins (sure, last] into the row's list, in any order, if there is room.
struct Lister {
  u64* list;
  u32& listed;
  int sure, last;
  bool room;

  __device__ __forceinline__ void add(float logit, u32 id, int bin) const {
    if (room && bin > sure && bin <= last) list[atomicAdd(&listed, 1u)] = rank_of(logit, id);
  }
};

/// Whether this block ended the row.
__device__ bool select_and_draw(const Row& row, u32 index, CudaSampleState& state, u64* listed, Shared& s) {
  const CudaSampleParams& p = row.p;
  const Weighing<float> how = draw_weighing(row, state);
  const u64 floor = draw_floor(row, how);
  const int sure = state.sure_bin, last = state.last_bin[0];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Lister lister = {p.lists + static_cast<std::int64_t>(index) * 2 * kSampleList, state.listed[0], sure, last,
                         state.in_bins[0] <= kSampleList};
  u64* mass = p.masses + static_cast<std::int64_t>(index) * p.pieces * kWarps;
  u64* partials = p.partials + static_cast<std::int64_t>(index) * p.pieces * 2;
  u64 all = 0;
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
    row.change(piece, logit);
    u64 own = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int bin = bin_of(scaled_logit(logit.v[i], how));  // past the vocabulary it is beyond `last`
      lister.add(logit.v[i], Row::first_id(piece) + i, bin);
      if (bin > sure) continue;
      const u64 units = weight_units(logit.v[i], how);
      all += units;
      own += units >= floor ? units : 0;
    }
    if (sure < 0) return;
    own = warp_sum(own);
    if (lane == 0) mass[piece * kWarps + warp] = own;
  });
  if (sure >= 0) {
    all = block_sum(all, s);
    if (threadIdx.x == 0) partials[blockIdx.x] = all;
  }
  if (!ends_last(state.arrived[3], s)) return false;
  if (threadIdx.x == 0) state.listed[0] = 0;
  u64 own = 0;
  for (u32 block = threadIdx.x; sure >= 0 && block < gridDim.x; block += kThreads) own += __ldcg(partials + block);
  const u64 sure_mass = block_sum(own, s);
  load_pieces(p, mass, sure >= 0, s);
  if (lister.room) {
    limit_and_draw(row, index, state, how, ListSource(lister.list, state.in_bins[0], how, listed), sure_mass, s);
  } else {
    limit_and_draw(row, index, state, how, RowSource{row, false, how, sure, last}, sure_mass, s);
  }
  return true;
}

__device__ void select_best(const Row& row, u32 index, CudaSampleState& state, u64* listed, Shared& s) {
  const CudaSampleParams& p = row.p;
  const Weighing<float> how = weighing(state.raw_max, 1.0, p.weight_bits);
  const int last = state.last_bin[1];
  const Lister lister = {p.lists + (static_cast<std::int64_t>(index) * 2 + 1) * kSampleList, state.listed[1], -1, last,
                         state.in_bins[1] <= kSampleList};
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const u32 id = Row::first_id(piece) + i;
      if (id < p.vocab) lister.add(logit.v[i], id, bin_of(scaled_logit(logit.v[i], how)));
    }
  });
  if (!ends_last(state.arrived[4], s)) return;
  if (threadIdx.x == 0) state.listed[1] = 0;
  if (lister.room) {
    write_best(row, index, state.log_sum, ListSource(lister.list, state.in_bins[1], how, listed), s);
  } else {
    write_best(row, index, state.log_sum, RowSource{row, true, how, -1, last}, s);
  }
}

/// The largest of a thread's logits, which come in order of ids.
struct Largest {
  float logit = -kInfinity;
  u32 id = kAll, magnitude = 0;

  __device__ __forceinline__ void add(u32 first, const Four& four) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const u32 bits = __float_as_uint(four.v[i]) & 0x7fffffffu;
      magnitude = bits > magnitude ? bits : magnitude;
      if (four.v[i] > logit) {
        logit = four.v[i];
        id = first + i;
      }
    }
  }
  /// Above all others if there was a NaN; below if nothing was above -∞.
  __device__ __forceinline__ u64 rank() const {
    if (magnitude > 0x7f800000u) return ~u64{0};
    return id == kAll ? 0 : rank_of(logit, id);
  }
};

__device__ bool no_distribution(u64 best) { return best >> 32 >= kInfinityKey || best >> 32 <= kMinusInfinityKey; }

/// What one thread notes of a row whose extremes are known.
__device__ void begin_row(const Row& row, u32 index, u64 raw_best, u64 best) {
  CudaSampleState& state = row.p.states[index];
  const bool raw_bad = no_distribution(raw_best), bad = raw_bad || no_distribution(best);
  const bool draws = row.wants.draws != 0, greedy = row.slot.flags & kSampleGreedy;
  const float nan = __uint_as_float(0x7fc00000u);
  row.p.results[index] = {-1, draws && bad ? 1 : 0, 0, raw_bad ? nan : 0};
  state.raw_max = value_of(raw_best);
  state.max = value_of(best);
  u32 todo = 0;
  if (draws && !bad && !greedy) {
    todo |= kTodoWeigh | (row.slot.top_k > 0 || row.slot.top_p < 1 ? kTodoSelect : 0);
  }
  if (!raw_bad && (row.wants.num_best >= 0 || row.wants.target >= 0)) {
    todo |= kTodoReport | (row.wants.num_best > 0 ? kTodoBest : 0);
    if (draws && !bad && row.wants.num_best >= 0) todo |= kTodoLogprob;
  }
  state.todo = todo;
  if (draws && !bad && greedy) take(row, index, id_of(best));
}

__device__ void write_logprob(const Row& row, u32 index, const CudaSampleState& state) {
  CudaSampleResult& result = row.p.results[index];
  result.logprob = static_cast<float>(static_cast<double>(row.logits[result.id]) - state.log_sum);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kSampleThreads, MIN_BLOCKS + 2)
    sample_extremes(const __grid_constant__ CudaSampleParams p) {
  __shared__ Shared s;
  release_consumers();
  wait_for_producers();
  const u32 index = blockIdx.y;
  const Row row(p, index);
  if (row.wants.slot < 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) p.states[index].todo = 0;
    return;
  }
  Largest raw, changed;
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
    raw.add(Row::first_id(piece), logit);
    if (row.words == nullptr) return;
    row.change(piece, logit);
    changed.add(Row::first_id(piece), logit);
  });
  u64 raw_best = raw.rank(), best = changed.rank();
  u64* partials = p.partials + static_cast<std::int64_t>(index) * p.pieces * 2;
  raw_best = block_max(raw_best, s);
  best = row.words == nullptr ? raw_best : block_max(best, s);
  if (threadIdx.x == 0) {
    partials[2 * blockIdx.x] = raw_best;
    partials[2 * blockIdx.x + 1] = best;
  }
  if (!ends_last(p.states[index].arrived[0], s)) return;
  for (u32 block = threadIdx.x; block < gridDim.x; block += kThreads) {
    const u64 raw_other = __ldcg(partials + 2 * block), other = __ldcg(partials + 2 * block + 1);
    raw_best = raw_other > raw_best ? raw_other : raw_best;
    best = other > best ? other : best;
  }
  raw_best = block_max(raw_best, s);
  best = block_max(best, s);
  if (threadIdx.x == 0) begin_row(row, index, raw_best, best);
  if (no_distribution(raw_best)) {
    for (int i = threadIdx.x; i < row.wants.num_best; i += kThreads) {
      p.best[static_cast<std::int64_t>(index) * p.max_best + i] = {-1, __uint_as_float(0x7fc00000u)};
    }
  }
}

extern "C" __global__ void __launch_bounds__(kSampleThreads, MIN_BLOCKS)
    sample_weigh(const __grid_constant__ CudaSampleParams p) {
  __shared__ Shared s;
  __shared__ u32 bins[kSampleBins];
  release_consumers();
  wait_for_producers();
  const u32 index = blockIdx.y;
  CudaSampleState& state = p.states[index];
  const u32 todo = state.todo;
  if (blockIdx.z == 0) {
    if (todo & kTodoWeigh) weigh_for_draw(Row(p, index), index, state, bins, s);
  } else {
    if (todo & kTodoReport) weigh_for_report(Row(p, index), index, state, bins, s);
  }
}

extern "C" __global__ void __launch_bounds__(kSampleThreads, MIN_BLOCKS)
    sample_select(const __grid_constant__ CudaSampleParams p) {
  __shared__ Shared s;
  __shared__ u64 list[ListSource::kSharedWords];
  release_consumers();
  wait_for_producers();
  const u32 index = blockIdx.y;
  CudaSampleState& state = p.states[index];
  const u32 todo = state.todo;
  if (blockIdx.z == 1) {
    if (todo & kTodoBest) select_best(Row(p, index), index, state, list, s);
    return;
  }
  const bool ends = todo & kTodoSelect ? select_and_draw(Row(p, index), index, state, list, s) : blockIdx.x == 0;
  if (!ends || !(todo & kTodoLogprob)) return;
  __syncthreads();
  if (threadIdx.x == 0) write_logprob(Row(p, index), index, state);
}
