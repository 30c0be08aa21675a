// output[i] = input[rows[i]], a row a block, 16 bytes a thread and turn. Bytes: each row that is taken, in and out.
// Constants: THREADS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/gather_rows/cuda_gather_rows.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) gather_rows(const __grid_constant__ CudaGatherRowsParams p) {
  release_consumers();
  wait_for_producers();
  const Vec16* from = static_cast<const Vec16*>(p.input) + p.rows[blockIdx.x] * p.input_stride;
  Vec16* to = static_cast<Vec16*>(p.output) + blockIdx.x * p.output_stride;
  for (std::int64_t i = threadIdx.x; i < p.pieces; i += THREADS) to[i] = from[i];
}
