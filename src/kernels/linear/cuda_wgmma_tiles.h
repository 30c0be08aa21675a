// Parameters of cuda_wgmma_tiles.cu, shared by host and device.
#pragma once

#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda::kernels {

/// A tensor map, made by the driver; see cuda_wgmma_tiles_plan.h. Of x: over (k, m), bf16, boxes of 64 × block_tokens,
/// rows swizzled in 128 bytes. Of weights in the layout mma16: over tiles of 16 rows and turns of 32 columns, as pieces
/// of 1 KiB. Zeros outside.
struct alignas(64) CopyMap {
  std::uint64_t opaque[16];
};

struct WgmmaTilesParams {
  CopyMap input;
  CopyMap weight_maps[3];
  MmaRowsWeight weights[3];  ///< `data` is not read
  std::int64_t m;
  std::int64_t k;             ///< a multiple of 8
  std::int64_t split_stride;  ///< elements from one slice's output to the next slice's, if splits > 1
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t splits;        ///< slices of k; above 1 only for float output
  std::int32_t stages;        ///< of the ring: 2 to 32
  float scale;                ///< of what a residual unit adds
};

/// Threads of a block: the warps that multiply and one that feeds them, or a warpgroup where it gives registers away.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_threads(std::int64_t warpgroups, std::int64_t block_tokens) {
  return warpgroups * 128 + (warpgroups > 1 && block_tokens > 128 ? 128 : 32);
}

/// Rows of x whose outputs a warpgroup hands over at once.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_piece_tokens(std::int64_t block_tokens) {
  return block_tokens % 32 == 0 ? 32 : 16;
}

/// Tiles of 16 rows of one weight in a block's part of it: a box of its map.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_box_tiles(std::int64_t warpgroups, bool gated) {
  return warpgroups * (gated ? 2 : 4);
}

/// Bytes of a stage of the ring: `turns` times 32 columns of a block's rows of weights, and of its rows of x.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_stage_bytes(std::int64_t warpgroups, std::int64_t block_tokens,
                                                             std::int64_t turns) {
  return turns * 64 * (warpgroups * 64 + block_tokens);
}

/// Bytes of dynamic shared memory besides the ring: outputs on their way, and room to begin at a multiple of 1024.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_fixed_bytes(std::int64_t warpgroups, std::int64_t block_tokens) {
  return warpgroups * wgmma_tiles_piece_tokens(block_tokens) * (64 * 4 + 16) + 1024;
}

}  // namespace pagoda::kernels
