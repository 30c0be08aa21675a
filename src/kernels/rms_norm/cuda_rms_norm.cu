// output = r / sqrt(mean(r²) + epsilon) · (weight + shift) with r = residual + scale · Σ slices of update, which
// becomes the residual: the norm between two products, and the sum of what the first one's slices of k left. A block
// takes a row, four neighbouring elements a thread and turn; r stays in shared memory (hidden floats, dynamic). Lets
// the next kernel start at once: the product that follows fills its ring with weights meanwhile. Constants: THREADS,
// OUTPUT (0 bf16, 1 float, 2 f16).
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/rms_norm/cuda_rms_norm.h"

using namespace pagoda;
using namespace pagoda::kernels;

constexpr int kAhead = 4;
constexpr int kSlices = 8;  // whose loads run at once: as many as products leave

extern "C" __global__ void __launch_bounds__(THREADS) rms_norm(const __grid_constant__ CudaRmsNormParams p) {
  extern __shared__ __align__(16) float4 row[];
  __shared__ float partial[THREADS / 32];
  release_consumers();
  // A thread's first weights lie ready when the sum does: no kernel writes them.
  float4 weight{};
  if (p.output != nullptr && threadIdx.x * 4 < p.hidden) weight = reinterpret_cast<const float4*>(p.weight)[threadIdx.x];
  wait_for_producers();
  const std::int64_t source = p.rows != nullptr ? p.rows[blockIdx.x] : blockIdx.x;
  float4* residual = reinterpret_cast<float4*>(p.residual + source * p.residual_stride);
  const int chunks = static_cast<int>(p.hidden / 4);
  float sum = 0;
  for (int begin = threadIdx.x; begin < chunks; begin += kAhead * THREADS) {
    // All loads of a turn before the first use: the loop waits once for them.
    float4 ahead[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (begin + j * THREADS < chunks) ahead[j] = residual[begin + j * THREADS];
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int c = begin + j * THREADS;
      if (c >= chunks) break;
      float4 v = ahead[j];
      if (p.update != nullptr) {
        const float* from = p.update + blockIdx.x * p.update_stride + c * 4;
        float4 total{};
        for (int first = 0; first < p.slices; first += kSlices) {
          float4 u[kSlices];
#pragma unroll
          for (int i = 0; i < kSlices; ++i) {
            u[i] =
                first + i < p.slices ? *reinterpret_cast<const float4*>(from + (first + i) * p.slice_stride) : float4{};
          }
#pragma unroll
          for (int i = 0; i < kSlices; ++i) total.x += u[i].x, total.y += u[i].y, total.z += u[i].z, total.w += u[i].w;
        }
        v.x = fmaf(p.scale, total.x, v.x), v.y = fmaf(p.scale, total.y, v.y);
        v.z = fmaf(p.scale, total.z, v.z), v.w = fmaf(p.scale, total.w, v.w);
        residual[c] = v;
      }
      row[c] = v;
      sum = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, sum))));
    }
  }
  if (p.output == nullptr) return;
  float factor = rsqrtf(block_sum(sum, partial) / static_cast<float>(p.hidden) + p.epsilon);
  if constexpr (OUTPUT == 2) factor *= p.output_factor;
  for (int c = threadIdx.x; c < chunks; c += THREADS) {
    float4 v = row[c];
    const float4 w = c == threadIdx.x ? weight : reinterpret_cast<const float4*>(p.weight)[c];
    v.x *= factor * (w.x + p.weight_shift), v.y *= factor * (w.y + p.weight_shift);
    v.z *= factor * (w.z + p.weight_shift), v.w *= factor * (w.w + p.weight_shift);
    if constexpr (OUTPUT == 1) {
      reinterpret_cast<float4*>(static_cast<float*>(p.output) + blockIdx.x * p.output_stride)[c] = v;
    } else {
      uint2 packed;
      packed.x = OUTPUT == 2 ? pack_f16(v.x, v.y) : pack_bf16(v.x, v.y);
      packed.y = OUTPUT == 2 ? pack_f16(v.z, v.w) : pack_bf16(v.z, v.w);
      reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(p.output) + blockIdx.x * p.output_stride)[c] = packed;
    }
  }
}
