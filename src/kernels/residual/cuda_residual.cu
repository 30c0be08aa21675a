// residual += scale · N(update), a row a block; N is nothing or an RMS norm with weights (norms after a sublayer).
// Bytes: the update once or, normed, twice (the second time from the caches); the residual in and out.
// Constants: UPDATE_FLOAT (0: bf16), THREADS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/residual/cuda_residual.h"

using namespace pagoda;
using namespace pagoda::kernels;

__device__ __forceinline__ float update_at(const CudaResidualParams& p, std::int64_t column) {
  const std::int64_t at = blockIdx.x * p.update_stride + column;
  if constexpr (UPDATE_FLOAT) {
    return static_cast<const float*>(p.update)[at];
  } else {
    return bf16_to_float(static_cast<const std::uint16_t*>(p.update)[at]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) residual_add(const __grid_constant__ CudaResidualParams p) {
  __shared__ float partial[THREADS / 32];
  release_consumers();
  wait_for_producers();
  float factor = p.scale;
  if (p.norm != nullptr) {
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < p.hidden; i += THREADS) sum = fmaf(update_at(p, i), update_at(p, i), sum);
    factor *= rsqrtf(block_sum(sum, partial) / static_cast<float>(p.hidden) + p.epsilon);
  }
  float* residual = p.residual + blockIdx.x * p.residual_stride;
  for (std::int64_t i = threadIdx.x; i < p.hidden; i += THREADS) {
    const float weight = p.norm != nullptr ? p.norm[i] + p.weight_shift : 1.0f;
    residual[i] = fmaf(factor * weight, update_at(p, i), residual[i]);
  }
}
