// output[i] = scale · table[ids[i]] as float: the residual stream's first value. A block takes a row. An id outside the
// table makes a row of NaN, so that it can only end its own request.
// Constants: FORMAT, LAYOUT (0 as in the file, 1 mma16, where FORMAT is BF16, 2 mma_codes), THREADS.
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/embed/cuda_embed.h"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_mma_codes.h"

using namespace pagoda;
using namespace pagoda::kernels;

/// Of formats that have none too, which then is not used.
template <class F>
__device__ __forceinline__ constexpr Coding coding_of() {
  if constexpr (requires { F::kCoding; }) {
    return F::kCoding;
  } else {
    return {};
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) embed(const __grid_constant__ CudaEmbedParams p) {
  wait_for_producers();
  release_consumers();  // not before: a step's first kernel orders all that follow behind the copy of the step's inputs
  std::int64_t id = p.ids[blockIdx.x];
  if (id < 0 && p.last_ids != nullptr) id = p.last_ids[-1 - id];
  float* output = p.output + blockIdx.x * p.output_stride;
  for (std::int64_t column = threadIdx.x; column < p.k; column += THREADS) {
    float value = float_of_bits(0x7fc00000u);
    if (id >= 0 && id < p.n) {
      if constexpr (LAYOUT == 1) {
        value = bf16_to_float(static_cast<const std::uint16_t*>(p.table)[mma16_offset(id, column, p.k)]);
      } else if constexpr (LAYOUT == 2) {
        value = mma_codes_value(coding_of<Format>(), static_cast<const std::uint8_t*>(p.table), p.n, p.k, id, column);
      } else {
        value = decode_element(static_cast<const char*>(p.table) + id * p.row_bytes, column);
      }
    }
    output[column] = value * p.scale;
  }
}
