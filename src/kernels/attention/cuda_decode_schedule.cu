// The work list of a step's decode attention, made on the device so that a captured step serves any lengths.
// One block of 256 threads; thread n tries the partition that cuts the longest row into n + 1 and the cheapest wins.
// Cost of a partition: whole waves of blocks, each as long as a full partition and a constant, and the merge.
// Lets no kernel start before it has ended: attention reads the work list before it waits (docs/decisions/0101).
#include "kernels/attention/cuda_decode.h"
#include "kernels/cuda/ptx.cuh"

namespace pagoda::kernels {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kCachedRows = 1024;   // in shared memory; more are read again
constexpr int kUnit = 64;           // keys
constexpr int kItemOverhead = 160;  // of a piece of work, in keys
constexpr int kSplitOverhead = 64;  // of any merge, in keys
constexpr int kMergeOverhead = 4;   // of a merge, for each partition

/// The keys that a row's tokens see; none if the row is not this kernel's.
struct Range {
  int begin = 0, end = 0;

  __device__ __forceinline__ int items(int partition) const {
    return end == 0 ? 0 : (end + partition - 1) / partition - begin / partition;
  }
  /// The same to within rounding, and faster.
  __device__ __forceinline__ float about(float inverse) const { return ceilf(end * inverse) - floorf(begin * inverse); }
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

/// The same in all threads; no partition for no rows.
__device__ __forceinline__ int choose_partition(const DecodeScheduleParams& p, const Rows& rows, long long* shared) {
  if (p.fixed_partition > 0) return p.fixed_partition;
  long long longest = 0;
  for (std::int64_t row = threadIdx.x; row < p.num_rows; row += kThreads) {
    longest = max(longest, static_cast<long long>(rows[row].end - rows[row].begin));
  }
  longest = -block_min(-longest, shared);
  const int parts = static_cast<int>(threadIdx.x) + 1;
  const int partition = max(static_cast<int>((longest + parts * kUnit - 1) / (parts * kUnit)), 1) * kUnit;
  const float inverse = 1.0f / static_cast<float>(partition);
  float items = 0;
#pragma unroll 4
  for (std::int64_t row = 0; row < p.num_rows; ++row) items += rows[row].about(inverse);
  const long long waves = (static_cast<int>(items) * p.kv_heads + p.blocks - 1) / p.blocks;
  const long long merge = parts > 1 ? kSplitOverhead + parts * kMergeOverhead : 0;
  const long long cost = waves * (min(static_cast<long long>(partition), longest) + kItemOverhead) + merge;
  const bool fits = items <= static_cast<float>(p.capacity);
  const long long best = block_min((fits ? cost : 1ll << 40) * kThreads + threadIdx.x, shared);
  const int best_parts = static_cast<int>(best % kThreads) + 1;
  return max(static_cast<int>((longest + best_parts * kUnit - 1) / (best_parts * kUnit)), 1) * kUnit;
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads) decode_schedule(const __grid_constant__ DecodeScheduleParams p) {
  __shared__ Range cached[kCachedRows];
  __shared__ long long least[kWarps];
  __shared__ int sums[kWarps];
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

  for (int item = threadIdx.x; item < total; item += kThreads) {
    std::int64_t low = 0, high = p.num_rows;  // the last row that begins at or before the item
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (p.prefix[middle] <= item ? low : high) = middle;
    }
    const Range range = rows[low];
    const int first = p.prefix[low], part = range.begin / partition + item - first;
    const int token = static_cast<int>(p.row_offsets[low]);
    p.items[item] = {static_cast<int>(low),
                     first,
                     p.prefix[low + 1] - first,
                     max(range.begin, part * partition),
                     min(range.end, (part + 1) * partition),
                     token,
                     static_cast<int>(p.row_offsets[low + 1]) - token,
                     static_cast<int>(p.row_starts[low])};
  }
  __threadfence();
}
