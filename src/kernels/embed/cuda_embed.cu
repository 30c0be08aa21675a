// output[i] = scale · table[ids[i]] as float: the residual stream's first value. A block takes a row. An id outside the
// table makes a row of NaN, so that it can only end its own request.
// Constants: FORMAT, FROM_MMA16 (0, 1; then FORMAT is BF16), THREADS.
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/embed/cuda_embed.h"
#include "kernels/linear/cuda_mma16.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) embed(const __grid_constant__ CudaEmbedParams p) {
  release_consumers();
  wait_for_producers();
  std::int64_t id = p.ids[blockIdx.x];
  if (id < 0 && p.last_ids != nullptr) id = p.last_ids[-1 - id];
  float* output = p.output + blockIdx.x * p.output_stride;
  for (std::int64_t column = threadIdx.x; column < p.k; column += THREADS) {
    float value = float_of_bits(0x7fc00000u);
    if (id >= 0 && id < p.n) {
      if constexpr (FROM_MMA16) {
        value = bf16_to_float(static_cast<const std::uint16_t*>(p.table)[mma16_offset(id, column, p.k)]);
      } else {
        value = decode_element(static_cast<const char*>(p.table) + id * p.row_bytes, column);
      }
    }
    output[column] = value * p.scale;
  }
}
