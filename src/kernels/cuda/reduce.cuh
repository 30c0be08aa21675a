// Sums and maxima over a warp and over a block, always in the same order.
#pragma once

#include "base/shared.h"

namespace pagoda {

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

/// The sum over all threads of the block, in every thread. `partial` is shared memory for one float a warp, not in use
/// by anything else until the next barrier after the call.
__device__ __forceinline__ float block_sum(float value, float* partial) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (unsigned warp = 0; warp < (blockDim.x + 31) / 32; ++warp) total += partial[warp];
  __syncthreads();
  return total;
}

/// The same of the largest value, which is not negative.
__device__ __forceinline__ float block_max(float value, float* partial) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float most = 0;
  for (unsigned warp = 0; warp < (blockDim.x + 31) / 32; ++warp) most = fmaxf(most, partial[warp]);
  __syncthreads();
  return most;
}

}  // namespace pagoda
