// Rows of a weight, as a file has them, into the layout mma_codes. A warp packs a unit of 16 rows × 64 columns, and the
// scales that begin there. Grid: x over units, y over tiles of rows, in turn. Constants: FORMAT, THREADS.
#include "kernels/cuda/format.cuh"
#include "kernels/linear/cuda_mma_codes.h"
#include "kernels/linear/cuda_pack_codes.h"

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(THREADS) pack_codes(const __grid_constant__ PackCodesParams p) {
  const std::int64_t unit = (std::int64_t{blockIdx.x} * THREADS + threadIdx.x) / 32;
  if (unit >= num_units(p.k)) return;
  for (std::int64_t tile = blockIdx.y; tile < num_tiles16(p.num_rows); tile += gridDim.y) {
    pack_mma_codes<Format>(static_cast<const std::uint8_t*>(p.rows), p.row_bytes, p.first_row, p.num_rows, p.n, p.k,
                           tile, unit, static_cast<int>(threadIdx.x % 32), static_cast<std::uint8_t*>(p.packed));
  }
}
