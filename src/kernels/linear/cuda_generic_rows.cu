// y[m, n] = Σ_k x[m, k] · w[n, k] for weights of any block format, as the file has them: what a format has for free
// from its header. A warp takes a row of the weight, its lanes every 32nd column; TOKENS rows of x share a decoded
// weight, more of them decode it again. Bytes: the weights once for each TOKENS rows. Chosen when no faster kernel
// knows the format.
// Constants: FORMAT, TOKENS, INPUT_BF16 (0, 1), EPILOGUE (0 bf16, 1 float, 2 residual +=), ORDERED (0, 1).
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_generic_rows.h"

using namespace pagoda;
using namespace pagoda::kernels;

constexpr int kWarps = 4;

__device__ __forceinline__ float input_at(const GenericRowsParams& p, std::int64_t token, std::int64_t column) {
  const std::int64_t at = token * p.input_stride + column;
  if constexpr (INPUT_BF16) {
    return bf16_to_float(static_cast<const std::uint16_t*>(p.input)[at]);
  } else {
    return static_cast<const float*>(p.input)[at];
  }
}

extern "C" __global__ void __launch_bounds__(kWarps * 32) generic_rows(const __grid_constant__ GenericRowsParams p) {
  wait_for_producers();
  release_consumers();
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= p.n) return;
  const char* weight = static_cast<const char*>(p.weight) + row * p.row_bytes;
  for (std::int64_t first = 0; first < p.m; first += TOKENS) {
    float sums[TOKENS] = {};
    for (std::int64_t column = lane; column < p.k; column += 32) {
      const float w = decode_element(weight, ORDERED ? p.place[column] : column);
#pragma unroll
      for (int t = 0; t < TOKENS; ++t) {
        if (first + t < p.m) sums[t] = fmaf(input_at(p, first + t, column), w, sums[t]);
      }
    }
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) {
      float value = warp_sum(sums[t]);
      if (lane != 0 || first + t >= p.m) continue;
      if (p.bias != nullptr) value += p.bias[row];
      const std::int64_t at = (first + t) * p.output_stride + row;
      if constexpr (EPILOGUE == 0) {
        static_cast<std::uint16_t*>(p.output)[at] = to_bf16(value);
      } else if constexpr (EPILOGUE == 1) {
        static_cast<float*>(p.output)[at] = value;
      } else {
        float* residual = static_cast<float*>(p.output) + at;
        *residual = fmaf(p.scale, value, *residual);
      }
    }
  }
}
