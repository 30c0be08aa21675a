// Which tokens top-k and top-p keep, to the token, and the draw among them. A limit is a rank: the order key of a logit
// above the complement of its id, so that ties go to lower ids.
#pragma once

#include "kernels/sample/cuda_sample_row.cuh"
#include "kernels/sample/philox.h"

namespace pagoda::kernels {

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
  struct Token {
    u64 rank;
    bool there;
    const u64* stored;
    __device__ __forceinline__ u64 units() const { return *stored; }
  };
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
  /// f(token), by whole warps. A thread sees its own tokens alone.
  template <class F>
  __device__ __forceinline__ void for_each(F f) const {
#pragma unroll 1
    for (u32 first = 0; first < count; first += kThreads) {
      const u32 at = first + threadIdx.x;
      const bool there = at < count;
      f(Token{there ? ranks[at] : 0, there, units + at});
    }
  }
};

/// The tokens of a row's bins (sure, last], where a list has no room for them.
struct RowSource {
  struct Token {
    u64 rank;
    bool there;
    float logit;
    const Weighing<float>& how;
    __device__ __forceinline__ u64 units() const { return weight_units(logit, how); }
  };
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
        f(Token{rank_of(logit.v[i], first + i), there, logit.v[i], how});
      }
    });
  }
};

/// The least rank whose predecessors, from the largest down, have not reached `need` in number or in mass; its lower
/// digits may be zero where no other token has the same upper ones. 8 bits a turn, from the first that differs.
template <class Source>
__device__ u64 find_limit(const Source& source, bool by_mass, u64 need, Shared& s) {
  u64 high = 0, above_low = 0;
  source.for_each([&](const typename Source::Token& token) {
    if (!token.there) return;
    high = token.rank > high ? token.rank : high;
    above_low = ~token.rank > above_low ? ~token.rank : above_low;
  });
  high = block_max(high, s);
  above_low = block_max(above_low, s);
  int open = 64 - __clzll(static_cast<long long>(high ^ ~above_low));  // lowest bits, not decided yet
  u64 prefix = open < 64 ? high >> open << open : 0;
#pragma unroll 1
  while (open > 0) {
    const int shift = open > 8 ? open - 8 : 0;
    const u64 mask = open < 64 ? ~u64{0} << open : 0;
    __syncthreads();
    s.counts[threadIdx.x] = 0;
    s.masses[threadIdx.x] = 0;
    if (threadIdx.x == 0) s.found = 0;
    __syncthreads();
    source.for_each([&](const typename Source::Token& token) {
      const bool counts = token.there && (token.rank & mask) == prefix;
      const u32 voters = __ballot_sync(kAll, counts);
      if (voters == 0) return;
      const u64 weight = by_mass && counts ? token.units() : 0;
      const u32 digit = static_cast<u32>((token.rank & ~mask) >> shift);
      const int leader = __ffs(voters) - 1;
      const u32 common = __shfl_sync(kAll, digit, leader);
      if (__all_sync(kAll, !counts || digit == common)) {
        const u64 sum = warp_sum(weight);
        if (static_cast<int>(threadIdx.x % 32) != leader) return;
        atomicAdd(&s.counts[digit], static_cast<u32>(__popc(voters)));
        if (by_mass) atomicAdd(reinterpret_cast<unsigned long long*>(&s.masses[digit]), sum);
      } else if (counts) {
        atomicAdd(&s.counts[digit], 1u);
        if (by_mass) atomicAdd(reinterpret_cast<unsigned long long*>(&s.masses[digit]), weight);
      }
    });
    __syncthreads();
    const u32 digit = kThreads - 1 - threadIdx.x;
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
    if (s.found == 0) break;  // all of them are wanted
    prefix |= static_cast<u64>(s.digit) << shift;
    open = shift;
    need = s.need;
    if (s.digit_count == 1 || s.digit_total == need) break;
  }
  return prefix;
}

/// Adds to `s.pieces` what of a source is kept.
template <class Source>
__device__ void add_kept(const Source& source, u64 floor, u64 limit, Shared& s) {
  source.for_each([&](const typename Source::Token& token) {
    const u64 units = token.there && token.rank >= limit ? token.units() : 0;
    const bool kept = units > 0 && units >= floor;
    const u32 voters = __ballot_sync(kAll, kept);
    if (voters == 0) return;
    const u32 piece = id_of(token.rank) / kSamplePiece;
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
    source.for_each(
        [&](const typename Source::Token& token) { own += token.there && token.rank >= limit ? token.units() : 0; });
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
  source.for_each([&](const typename Source::Token& token) {
    if (!token.there || token.rank < limit) return;
    const u32 at = atomicAdd(&s.listed, 1u);
    if (at < kSampleMaxBest) s.best[at] = token.rank;
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

}  // namespace pagoda::kernels
