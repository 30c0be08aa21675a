// The work list of a step's decode attention, made on the device so that a captured step serves any lengths.
// One block of 256 threads; thread n tries the partition that cuts the longest row into n + 1 and the cheapest wins.
// Cost of a partition: whole waves of blocks, each as long as a full partition and a constant, and the merge.
#include "kernels/attention/cuda_decode.h"
#include "kernels/cuda/ptx.cuh"

namespace pagoda::kernels {

constexpr int kThreads = 256;
constexpr int kUnit = 64;           // keys
constexpr int kItemOverhead = 96;   // of a piece of work, in keys
constexpr int kMergeOverhead = 2;   // of a partition, in keys

/// What a row asks for; no keys: not this kernel's.
struct Row {
  std::int64_t start;
  int num_tokens, begin, end;
};

__device__ __forceinline__ Row row_of(const DecodeScheduleParams& p, std::int64_t row) {
  Row r{};
  r.num_tokens = static_cast<int>(p.row_offsets[row + 1] - p.row_offsets[row]);
  r.start = p.row_starts[row];
  if (r.num_tokens <= 0 || r.num_tokens > p.max_tokens) return r;
  r.end = static_cast<int>(r.start) + r.num_tokens;
  const std::int64_t first = p.window > 0 ? r.start - p.window + 1 : 0;
  r.begin = first > 0 ? static_cast<int>(first) : 0;
  return r;
}

__device__ __forceinline__ int items_of(const Row& r, int partition) {
  return r.end == 0 ? 0 : (r.end + partition - 1) / partition - r.begin / partition;
}

__device__ __forceinline__ int longest_of(const DecodeScheduleParams& p, int* shared) {
  int longest = 0;
  for (std::int64_t row = threadIdx.x; row < p.num_rows; row += kThreads) {
    const Row r = row_of(p, row);
    longest = max(longest, r.end - r.begin);
  }
  shared[threadIdx.x] = longest;
  __syncthreads();
  for (int i = 0; i < kThreads; ++i) longest = max(longest, shared[i]);
  __syncthreads();
  return longest;
}

__device__ __forceinline__ int count_items(const DecodeScheduleParams& p, int partition) {
  int items = 0;
  for (std::int64_t row = 0; row < p.num_rows; ++row) items += items_of(row_of(p, row), partition);
  return items;
}

/// The same in all threads.
__device__ __forceinline__ int choose_partition(const DecodeScheduleParams& p, int longest, int* shared, int* sizes) {
  int partition = p.fixed_partition;
  if (partition == 0) {
    const int parts = static_cast<int>(threadIdx.x) + 1;
    partition = max((longest + parts * kUnit - 1) / (parts * kUnit), 1) * kUnit;
    const int items = count_items(p, partition);
    const int waves = (items * p.kv_heads + p.blocks - 1) / p.blocks;
    sizes[threadIdx.x] = partition;
    shared[threadIdx.x] = items > p.capacity
                              ? 0x7fffffff
                              : waves * (min(partition, longest) + kItemOverhead) + parts * kMergeOverhead;
    __syncthreads();
    int best = 0;
    for (int i = 1; i < kThreads; ++i) best = shared[i] < shared[best] ? i : best;
    partition = sizes[best];
  }
  while (count_items(p, partition) > p.capacity) partition *= 2;
  __syncthreads();
  return partition;
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads) decode_schedule(const __grid_constant__ DecodeScheduleParams p) {
  __shared__ int shared[kThreads];
  __shared__ int sizes[kThreads];
  wait_for_producers();
  release_consumers();
  const int partition = choose_partition(p, longest_of(p, shared), shared, sizes);

  // Where each row's items begin: every thread sums a stretch of rows, then adds what lies before it.
  const std::int64_t stretch = (p.num_rows + kThreads - 1) / kThreads;
  const std::int64_t begin = min(stretch * threadIdx.x, static_cast<long long>(p.num_rows));
  const std::int64_t end = min(begin + stretch, static_cast<long long>(p.num_rows));
  int sum = 0;
  for (std::int64_t row = begin; row < end; ++row) sum += items_of(row_of(p, row), partition);
  shared[threadIdx.x] = sum;
  __syncthreads();
  int before = 0;
  for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) before += shared[i];
  for (std::int64_t row = begin; row < end; ++row) {
    p.prefix[row] = before;
    before += items_of(row_of(p, row), partition);
  }
  if (threadIdx.x == kThreads - 1) {
    p.prefix[p.num_rows] = before;
    *p.schedule = {before, partition, static_cast<int>(p.row_offsets[p.num_rows]), 0};
  }
  __syncthreads();

  const int num_items = p.prefix[p.num_rows];
  for (int item = threadIdx.x; item < num_items; item += kThreads) {
    std::int64_t low = 0, high = p.num_rows;  // the last row that begins at or before the item
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (p.prefix[middle] <= item ? low : high) = middle;
    }
    const Row r = row_of(p, low);
    const int first = p.prefix[low];
    const int part = r.begin / partition + item - first;
    p.items[item] = {static_cast<int>(low), first, p.prefix[low + 1] - first, max(r.begin, part * partition),
                     min(r.end, (part + 1) * partition), static_cast<int>(p.row_offsets[low]), r.num_tokens,
                     static_cast<int>(r.start)};
  }
}
