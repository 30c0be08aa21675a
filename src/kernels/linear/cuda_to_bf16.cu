// Weights of any block format, or in the layout mma16, as bf16 rows or mma16: packs a model's weights on the device,
// and unpacks what a large product by a library needs. A thread makes eight columns of a row. Grid: x over columns, y
// over rows, in turn. Bytes: source and target once. Constants: FORMAT, FROM_MMA16 (0, 1; then FORMAT is BF16),
// TO_MMA16 (0, 1), THREADS.
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_to_bf16.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) to_bf16_rows(const __grid_constant__ ToBf16Params p) {
  wait_for_producers();
  release_consumers();
  const std::int64_t column = (std::int64_t{blockIdx.x} * THREADS + threadIdx.x) * 8;
  const std::int64_t columns = TO_MMA16 ? (p.k + 31) / 32 * 32 : p.k;
  const std::int64_t rows = TO_MMA16 ? (p.n + 15) / 16 * 16 : p.n;
  if (column >= columns) return;
  auto* target = static_cast<std::uint16_t*>(p.target);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    if constexpr (FROM_MMA16 && !TO_MMA16) {
      if (p.k % 8 == 0) {  // eight columns are neighbours on both sides
        const auto* source = static_cast<const std::uint16_t*>(p.source);
        store_vec16(target + row * p.k + column, load_vec16(source + mma16_offset(row, column, p.k)));
        continue;
      }
    }
    std::uint16_t values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = 0;
      if (row >= p.n || column + i >= p.k) continue;
      if constexpr (FROM_MMA16) {
        values[i] = static_cast<const std::uint16_t*>(p.source)[mma16_offset(row, column + i, p.k)];
      } else {
        const char* source = static_cast<const char*>(p.source) + row * p.row_bytes;
        values[i] = float_to_bf16(decode_element(source, p.place != nullptr ? p.place[column + i] : column + i));
      }
    }
    if constexpr (TO_MMA16) {
      Vec16 packed;
#pragma unroll
      for (int i = 0; i < 4; ++i) packed.word[i] = values[2 * i] | static_cast<std::uint32_t>(values[2 * i + 1]) << 16;
      store_vec16(target + mma16_offset(row, column, p.k), packed);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (column + i < p.k) target[row * p.k + column + i] = values[i];
      }
    }
  }
}
