// output = act(gate) · up, four neighbouring elements a thread (gated_activation.h says what the kinds are).
// Grid: x over columns, y over rows, in turn. Bytes: gate, up and output once.
// Constants: KIND (0 SiLU, 1 GELU with tanh, 2 clamped SwiGLU), INPUT_FLOAT (0: bf16), THREADS.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/gated_activation/cuda_gated_activation.h"

using namespace pagoda;
using namespace pagoda::kernels;

__device__ __forceinline__ float4 load4(const void* from, std::int64_t at) {
  if constexpr (INPUT_FLOAT) {
    return *reinterpret_cast<const float4*>(static_cast<const float*>(from) + at);
  } else {
    const uint2 pairs = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(from) + at);
    return {bf16_low(pairs.x), bf16_high(pairs.x), bf16_low(pairs.y), bf16_high(pairs.y)};
  }
}

__device__ __forceinline__ float activate(float gate, float up, float limit) {
  if constexpr (KIND == 0) {
    return silu(gate) * up;
  } else if constexpr (KIND == 1) {
    return gelu_tanh(gate) * up;
  } else {
    // NaN stays NaN: the device's fminf would drop it.
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : up < -limit ? -limit : up;
    return g / (1.0f + __expf(-1.702f * g)) * (u + 1.0f);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gated_activation(const __grid_constant__ CudaGatedActivationParams p) {
  release_consumers();
  wait_for_producers();
  const std::int64_t column = (std::int64_t{blockIdx.x} * THREADS + threadIdx.x) * 4;
  if (column >= p.width) return;
  for (std::int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
    const float4 g = load4(p.gate, row * p.gate_stride + column);
    const float4 u = load4(p.up, row * p.up_stride + column);
    uint2 packed;
    packed.x = pack_bf16(activate(g.x, u.x, p.limit), activate(g.y, u.y, p.limit));
    packed.y = pack_bf16(activate(g.z, u.z, p.limit), activate(g.w, u.w, p.limit));
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(p.output) + row * p.output_stride + column) = packed;
  }
}
