// Parameters of cuda_mma_tiles.cu, shared by host and device.
#pragma once

#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda::kernels {

struct MmaTilesParams {
  MmaRowsWeight weights[3];
  const void* input;          ///< (m, k) bf16; rows begin at multiples of 16 bytes
  std::int64_t input_stride;  ///< elements
  std::int64_t m;
  std::int64_t k;             ///< a multiple of 8
  std::int64_t split_stride;  ///< elements from one slice's output to the next slice's, if splits > 1
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t splits;        ///< slices of k: the grid's z; above 1 only for float output
  float scale;                ///< of what a residual unit adds
};

/// Bytes of dynamic shared memory: the stages, and later the outputs in their place.
PAGODA_SHARED std::int64_t mma_tiles_shared_bytes(std::int64_t block_tokens, std::int64_t stages) {
  const std::int64_t ring = stages * 2 * (8 * 1024 + block_tokens * 64);
  const std::int64_t sums = block_tokens * (128 + 4) * 4;
  return ring > sums ? ring : sums;
}

/// Rows of 16 that a block's grid row covers: of gate and up together half as many each.
inline constexpr int kMmaTilesBlockTiles = 8;

}  // namespace pagoda::kernels
