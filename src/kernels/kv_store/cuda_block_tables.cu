// tables[change.index] = change.block: the few entries of block tables that are new in a step. A thread takes a change.
// Constant: THREADS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/kv_store/cuda_block_tables.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) block_tables(const __grid_constant__ CudaBlockTablesParams p) {
  wait_for_producers();
  release_consumers();
  const std::int64_t i = std::int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (i < p.count) p.tables[p.changes[i].index] = p.changes[i].block;
}
