// Parameters of cuda_mma_bulk_rows.cu, shared by host and device.
#pragma once

#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda::kernels {

struct MmaBulkRowsParams {
  MmaRowsWeight weights[3];
  const void* input;          ///< (m, k) bf16, or float if the unit norms it; rows begin at multiples of 16 bytes
  const float* norm;          ///< (k) weights of the norm, if the unit norms
  std::int64_t input_stride;  ///< elements
  std::int64_t k;             ///< a multiple of 8
  std::int64_t split_stride;  ///< elements from one slice's output to the next slice's, if splits > 1
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t m;             ///< rows of the input: at most 8 · TOKEN_TILES
  std::int32_t stages;        ///< of the ring: 1 to 32
  std::int32_t window;        ///< stages under way at once: at most `stages`
  std::int32_t long_blocks;   ///< so many blocks (of a slice), the first ones, have a tile more than the others
  std::int32_t long_window;   ///< stages under way at once in these
  std::int32_t splits;  ///< slices of k: block b takes slice b % splits; above 1 only for float output without norm
  float epsilon;
  float norm_shift;  ///< added to each weight of the norm
  float scale;       ///< of what a residual unit adds
};

/// Bytes of a row of x in shared memory: a slice of k, padded so that eight rows touch all banks.
PAGODA_SHARED std::int64_t mma_bulk_rows_stride(std::int64_t k, std::int64_t splits) {
  const std::int64_t turns = ((k + 31) / 32 + splits - 1) / splits;
  return (turns * 64 + 127) / 128 * 128 + 64;
}

/// Bytes of dynamic shared memory besides the ring: the warps' sums, twice, and x.
PAGODA_SHARED std::int64_t mma_bulk_rows_fixed_bytes(std::int64_t k, std::int64_t m, std::int64_t splits, int warps,
                                                     int sets, int token_tiles) {
  return std::int64_t{2} * warps * sets * 16 * (token_tiles * 8 + 1) * 4 + m * mma_bulk_rows_stride(k, splits);
}

/// Bytes of a stage of the ring.
PAGODA_SHARED std::int64_t mma_bulk_rows_stage_bytes(int stage_turns, int sets) {
  return std::int64_t{sets} * stage_turns * 1024;
}

}  // namespace pagoda::kernels
