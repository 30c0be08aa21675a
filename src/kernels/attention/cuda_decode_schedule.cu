// The work list of a step's decode attention, made on the device so that a captured step serves any lengths.
// One block of 256 threads; each tries a partition, that cuts the longest row into 1, 2, … parts, and the cheapest
// wins. Cost of a partition: what the busiest block has to do, a constant for each piece of work, and the merge. Where
// blocks take several pieces the list is sorted by their keys, long ones first, and dealt out to and fro
// (cuda_decode.cu). Lets no kernel start before it has ended: attention reads the work list before it waits
// (docs/decisions/0101).
#include "kernels/attention/cuda_decode.h"
#include "kernels/cuda/ptx.cuh"

namespace pagoda::kernels {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kCachedRows = 1024;  // in shared memory; more are read again
constexpr int kManyRows = 64;
constexpr int kUnit = 64;           // keys
constexpr int kItemOverhead = 160;  // of a piece of work, in keys
constexpr int kSplitOverhead = 64;  // of any merge, in keys
constexpr int kMergeOverhead = 4;   // of a merge, for each partition
constexpr int kSizes = 32;          // that the sort tells apart
constexpr int kMostWaves = 16;      // beyond which blocks have the same to do
constexpr float kNearlyFull = 0.125f;

/// The keys that a row's tokens see; none if the row is not this kernel's.
struct Range {
  int begin = 0, end = 0;

  __device__ __forceinline__ int items(int partition) const {
    return end == 0 ? 0 : (end + partition - 1) / partition - begin / partition;
  }
};

__device__ __forceinline__ Range read_range(const DecodeScheduleParams& p, std::int64_t row) {
  const int tokens = static_cast<int>(p.row_offsets[row + 1] - p.row_offsets[row]);
  if (tokens <= 0 || tokens > p.max_tokens) return {};
  const std::int64_t start = p.row_starts[row], first = p.window > 0 ? start - p.window + 1 : 0;
  return {first > 0 ? static_cast<int>(first) : 0, static_cast<int>(start) + tokens};
}

struct Rows {
  const DecodeScheduleParams& p;
  const Range* cached;

  __device__ __forceinline__ Range operator[](std::int64_t row) const {
    return row < kCachedRows ? cached[row] : read_range(p, row);
  }
};

/// The least of all threads' values, in all of them. `shared`: kWarps values.
__device__ __forceinline__ long long block_min(long long value, long long* shared) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value = min(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kWarps; ++i) value = min(value, shared[i]);
  return value;
}

/// The sum of the values of all threads before this one; `total` becomes that of all.
__device__ __forceinline__ int sum_before(int value, int& total, int* shared) {
  int sum = value;
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const int other = __shfl_up_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 >= offset) sum += other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 31) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  total = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    if (i < threadIdx.x / 32) sum += shared[i];
    total += shared[i];
  }
  return sum - value;
}

/// What a partition makes of the rows: their partitions, how many of these are full or nearly so, the least of the
/// others as a share of a full one, and the keys of all.
struct Cut {
  float items = 0, full = 0, least = 1, keys = 0;

  __device__ __forceinline__ void add(const Range& range, float inverse) {
    const float begin = static_cast<float>(range.begin) * inverse, end = static_cast<float>(range.end) * inverse;
    const float last = end - floorf(end);
    items += ceilf(end) - floorf(begin);
    full += fmaxf(floorf(end + kNearlyFull) - ceilf(begin - kNearlyFull), 0);
    if (last > 0.02f && last < 1 - kNearlyFull) least = fminf(least, last);
    keys += static_cast<float>(range.end - range.begin);
  }
};

/// The keys of the busiest block, each piece's overhead among them, if pieces are dealt out as cuda_decode.cu does.
/// Those that are not full are taken to fall evenly from the longest to the least. `size`: keys of a full piece.
__device__ __forceinline__ float busiest(const DecodeScheduleParams& p, const Cut& cut, float size) {
  const int pieces = static_cast<int>(cut.items) * p.kv_heads, full = static_cast<int>(cut.full) * p.kv_heads;
  const float mean_other = fmaxf(cut.keys - cut.full * size, 0) / fmaxf(cut.items - cut.full, 1);
  const float least = fminf(cut.least * size, mean_other), longest = fminf(2 * mean_other - least, size);
  const float fall = (longest - least) / static_cast<float>(max(pieces - full, 1));
  const float heads = static_cast<float>(p.kv_heads), blocks = static_cast<float>(p.blocks);
  const float mean = (cut.keys + cut.items * kItemOverhead) * heads / blocks;
  const int waves = (pieces + p.blocks - 1) / p.blocks;
  if (waves > kMostWaves) return mean;
  const auto keys_of = [&](int block) {
    float sum = 0;
    for (int wave = 0; wave < waves; ++wave) {
      const int piece = wave * p.blocks + (wave % 2 == 0 ? block : p.blocks - 1 - block);
      if (piece >= pieces) break;
      sum += (piece < full ? size : longest - static_cast<float>(piece - full) * fall) + kItemOverhead;
    }
    return sum;
  };
  // Who has most is the first, the last, or one of those beside whom full pieces end.
  const int last_full = max(full % p.blocks - 1, 0);
  return fmaxf(mean,
               fmaxf(fmaxf(keys_of(0), keys_of(p.blocks - 1)), fmaxf(keys_of(last_full), keys_of(full % p.blocks))));
}

/// The same in all threads; no partition for no rows. Of many rows eight threads together try a partition: 1 … 16
/// parts, then ever fewer up to 256.
__device__ __forceinline__ int choose_partition(const DecodeScheduleParams& p, const Rows& rows, long long* shared) {
  if (p.fixed_partition > 0) return p.fixed_partition;
  long long longest = 0;
  for (std::int64_t row = threadIdx.x; row < p.num_rows; row += kThreads) {
    longest = max(longest, static_cast<long long>(rows[row].end - rows[row].begin));
  }
  longest = -block_min(-longest, shared);
  const int threads = p.num_rows >= kManyRows ? 8 : 1;
  const int group = static_cast<int>(threadIdx.x) / threads;
  const int parts = threads == 1 || group < 16 ? group + 1 : min(16 + (group - 15) * (group - 15), kThreads);
  const auto partition_of = [&](long long number) {
    return max(static_cast<int>((longest + number * kUnit - 1) / (number * kUnit)), 1) * kUnit;
  };
  const int partition = partition_of(parts);
  const float inverse = 1.0f / static_cast<float>(partition);
  Cut cut;
#pragma unroll 4
  for (std::int64_t row = threadIdx.x % threads; row < p.num_rows; row += threads) {
    cut.add(rows[row], inverse);
  }
  for (int offset = 1; offset < threads; offset <<= 1) {
    cut.items += __shfl_xor_sync(0xffffffffu, cut.items, offset);
    cut.full += __shfl_xor_sync(0xffffffffu, cut.full, offset);
    cut.least = fminf(cut.least, __shfl_xor_sync(0xffffffffu, cut.least, offset));
    cut.keys += __shfl_xor_sync(0xffffffffu, cut.keys, offset);
  }
  const long long merge = parts > 1 ? kSplitOverhead + parts * kMergeOverhead : 0;
  const auto size = static_cast<float>(min(static_cast<long long>(partition), longest));
  const long long cost = static_cast<long long>(busiest(p, cut, size)) + merge;
  const bool fits = cut.items <= static_cast<float>(p.capacity);
  const long long best = block_min((fits ? cost : 1ll << 40) * kThreads + parts - 1, shared);
  return partition_of(best % kThreads + 1);
}

/// Item number `item`, of those in the order of rows.
__device__ __forceinline__ DecodeItem make_item(const DecodeScheduleParams& p, const Rows& rows, int partition,
                                                int item) {
  std::int64_t low = 0, high = p.num_rows;  // the last row that begins at or before the item
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (p.prefix[middle] <= item ? low : high) = middle;
  }
  const Range range = rows[low];
  const int first = p.prefix[low], part = range.begin / partition + item - first;
  const int token = static_cast<int>(p.row_offsets[low]);
  return {static_cast<int>(low),
          first,
          static_cast<std::uint16_t>(item - first),
          static_cast<std::uint16_t>(p.prefix[low + 1] - first),
          max(range.begin, part * partition),
          min(range.end, (part + 1) * partition),
          token,
          static_cast<int>(p.row_offsets[low + 1]) - token,
          static_cast<int>(p.row_starts[low])};
}

/// By falling number of keys.
__device__ __forceinline__ int size_class(const DecodeItem& item, int partition) {
  const float share = static_cast<float>(item.end - item.begin) / static_cast<float>(partition);
  return min(static_cast<int>((1.0f - share) * kSizes), kSizes - 1);
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads) decode_schedule(const __grid_constant__ DecodeScheduleParams p) {
  __shared__ Range cached[kCachedRows];
  __shared__ long long least[kWarps];
  __shared__ int sums[kWarps];
  __shared__ int places[kSizes];  // where the next item of each size goes
  if (threadIdx.x < kSizes) places[threadIdx.x] = 0;
  wait_for_producers();
  for (std::int64_t row = threadIdx.x; row < min(p.num_rows, static_cast<long long>(kCachedRows)); row += kThreads) {
    cached[row] = read_range(p, row);
  }
  __syncthreads();
  const Rows rows{p, cached};
  int partition = choose_partition(p, rows, least);

  // Every thread has a stretch of rows.
  const std::int64_t stretch = (p.num_rows + kThreads - 1) / kThreads;
  const std::int64_t begin = min(stretch * threadIdx.x, static_cast<long long>(p.num_rows));
  const std::int64_t end = min(begin + stretch, static_cast<long long>(p.num_rows));
  int before = 0, total = 0;
  for (;; partition *= 2) {
    int mine = 0;
    for (std::int64_t row = begin; row < end; ++row) mine += rows[row].items(partition);
    before = sum_before(mine, total, sums);
    if (total <= p.capacity) break;
  }
  for (std::int64_t row = begin; row < end; ++row) {
    p.prefix[row] = before;
    before += rows[row].items(partition);
  }
  if (threadIdx.x == 0) {
    p.prefix[p.num_rows] = total;
    *p.schedule = {total, partition, static_cast<int>(p.row_offsets[p.num_rows]), 0};
  }
  __syncthreads();

  if (total * p.kv_heads <= p.blocks) {
    for (int item = threadIdx.x; item < total; item += kThreads) p.items[item] = make_item(p, rows, partition, item);
  } else {
    for (int item = threadIdx.x; item < total; item += kThreads) {
      atomicAdd(&places[size_class(make_item(p, rows, partition, item), partition)], 1);
    }
    int unused = 0;
    __syncthreads();
    const int first = sum_before(threadIdx.x < kSizes ? places[threadIdx.x] : 0, unused, sums);
    if (threadIdx.x < kSizes) places[threadIdx.x] = first;
    __syncthreads();
    for (int item = threadIdx.x; item < total; item += kThreads) {
      const DecodeItem made = make_item(p, rows, partition, item);
      p.items[atomicAdd(&places[size_class(made, partition)], 1)] = made;
    }
  }
  __threadfence();
}
