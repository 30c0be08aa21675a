// A row of logits to a token and log-probabilities, by the rules of sample.h and with the host's bits: masses are whole
// units (weight_units.h), so that blocks may sum them in any order and nothing is sorted.
//   sample_extremes  the largest logit, raw and changed; ends greedy rows
//   sample_weigh     masses by piece; a histogram of the scaled logits, which tells between which bins a limit falls
//   sample_select    the tokens of those bins, the exact limit among them, and the draw in order of ids
// Grid: (blocks of a row, rows, in the last two kernels: 0 draw, 1 report of raw log-probabilities). A block takes
// every gridDim.x-th piece of 1024 logits; the block of a row that ends last goes on with the row.
// Constants: MIN_BLOCKS, blocks that a multiprocessor shall have room for; two more of the first kernel.
// Moves the row once (greedy), twice or three times, mostly from the second-level cache. H200, 151936 logits, 2026-11:
// 1 / 64 rows greedy 4.0 / 11.8 us, temperature 12.5 / 55, top-k 50 23 / 56, top-p 0.95 26 / 81.
#include "kernels/cuda/ptx.cuh"
#include "kernels/sample/cuda_sample_limit.cuh"

using namespace pagoda;
using namespace pagoda::kernels;

namespace {

__device__ void clear_bins(u32* bins) {
  for (int bin = threadIdx.x; bin < kSampleBins; bin += kThreads) bins[bin] = 0;
  __syncthreads();
}

__device__ void weigh_for_draw(const Row& row, u32 index, CudaSampleState& state, u32* own_bins, Shared& s) {
  const CudaSampleParams& p = row.p;
  const Weighing<float> how = draw_weighing(row, state);
  const bool selects = state.todo & kTodoSelect, weighs = row.slot.top_k == 0;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32* bins = p.bins + static_cast<std::int64_t>(index) * 2 * kSampleBins;
  u64* mass = p.masses + static_cast<std::int64_t>(index) * p.pieces * kWarps;
  u64* partials = p.partials + static_cast<std::int64_t>(index) * p.pieces * 2;
  const u64 floor = selects ? 0 : draw_floor(row, how);  // a limit is of masses before min-p
  const u32 tail_floor = floor < kAll ? static_cast<u32>(floor) : kAll;
  u64 all = 0;
  if (selects) clear_bins(own_bins);
  row.for_pieces(blockIdx.x, gridDim.x, [&](int piece, Four& logit) {
    row.change(piece, logit);
    const u32 first = Row::first_id(piece);
    u64 own = 0;
    u32 tails = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const float scaled = scaled_logit(logit.v[i], how);
      if (selects && first + i < p.vocab) atomicAdd(&own_bins[bin_of(scaled)], 1u);
      if (!weighs) continue;
      if (scaled > kTailBelow) {
        const u64 units = head_units(logit.v[i], how);
        own += units >= floor ? units : 0;
      } else {
        const u32 units = tail_units(scaled, how.bits);
        tails += units >= tail_floor ? units : 0;
      }
    }
    own += tails;
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
