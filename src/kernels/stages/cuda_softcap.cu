// logit = cap · tanh(scale · logit / cap), or scale · logit without a cap, in place. Grid: x over columns, y over rows, in turn. Bytes: the logits in and out.
// Constant: THREADS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/stages/cuda_softcap.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) softcap(const __grid_constant__ CudaSoftcapParams p) {
  release_consumers();
  wait_for_producers();
  const std::int64_t column = std::int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (column >= p.width) return;
  for (std::int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
    float* at = p.logits + row * p.stride + column;
    const float scaled = *at * p.scale;
    *at = p.cap > 0 ? p.cap * tanhf(scaled / p.cap) : scaled;
  }
}
