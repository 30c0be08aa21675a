// Rows of bf16 to e4m3 with one scale a row, max |x| / 448, in the order that products of e4m3 want (e4m3_place). A
// block takes a row, which stays in shared memory between its two passes (2 · k bytes, dynamic); a thread takes eight
// neighbouring columns a turn, then sixteen. Bytes: 2 · k read and k written a row. Constants: THREADS.
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_quantize_e4m3.h"

using namespace pagoda;
using namespace pagoda::kernels;

namespace {

/// Two neighbours of the first eight columns and of the last eight as a word, in the bytes that e4m3_place gives them.
__device__ __forceinline__ std::uint32_t pack_e4m3(std::uint32_t first, std::uint32_t last, float factor) {
  std::uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(low)
      : "f"(bf16_low(first) * factor), "f"(bf16_low(last) * factor));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(high)
      : "f"(bf16_high(first) * factor), "f"(bf16_high(last) * factor));
  return low | std::uint32_t{high} << 16;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) quantize_e4m3(const __grid_constant__ QuantizeE4m3Params p) {
  extern __shared__ __align__(16) char row[];
  __shared__ float partial[THREADS / 32];
  release_consumers();
  wait_for_producers();
  const char* from = static_cast<const char*>(p.input) + blockIdx.x * p.input_stride * 2;
  const int chunks = static_cast<int>(p.k / 8);
  float most = 0;
  for (int c = threadIdx.x; c < chunks; c += THREADS) {
    const Vec16 v = load_vec16(from + c * 16);
    store_vec16(row + c * 16, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      most = fmaxf(most, fmaxf(fabsf(bf16_low(v.word[i])), fabsf(bf16_high(v.word[i]))));
    }
  }
  most = block_max(most, partial);
  if (most > 0) most = fmaxf(most, 0x1p-100f);  // so that 448 / most is a number
  if (threadIdx.x == 0) p.scales[blockIdx.x] = most > 0 ? most / 448.0f : 1.0f;
  const float factor = most > 0 ? 448.0f / most : 1.0f;
  const std::int64_t columns = e4m3_columns(p.k);
  char* to = static_cast<char*>(p.output) + blockIdx.x * columns;
  for (int c = threadIdx.x; c < static_cast<int>(columns / 16); c += THREADS) {
    const Vec16 first = 2 * c < chunks ? load_vec16(row + c * 32) : Vec16{};
    const Vec16 last = 2 * c + 1 < chunks ? load_vec16(row + c * 32 + 16) : Vec16{};
    Vec16 out;
#pragma unroll
    for (int i = 0; i < 4; ++i) out.word[i] = pack_e4m3(first.word[i], last.word[i], factor);
    store_vec16(to + c * 16, out);
  }
}
