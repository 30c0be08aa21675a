// Parameters of cuda_wgmma_tiles.cu and cuda_wgmma_columns.cu, shared by host and device.
#pragma once

#include "kernels/linear/cuda_mma_codes.h"
#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda::kernels {

/// A tensor map, made by the driver; see cuda_wgmma_tiles_plan.h. Of x: over (k, m), 16 bits each, boxes of 64 × what a
/// block fetches of block_tokens, rows swizzled in 128 bytes. Of weights in the layout mma16: over tiles of 16 rows and
/// turns of 32 columns, as pieces of 1 KiB. Zeros outside.
struct alignas(64) CopyMap {
  std::uint64_t opaque[16];
};

/// How tiles of 16 rows of a weight lie, and the elements of x that they meet.
struct WgmmaTilesWeights {
  int turn_columns = 32;  ///< of a piece of a tile: 32 or 64
  int turn_bytes = 1024;  ///< of a piece, a multiple of 128
  int input_bytes = 2;    ///< of an element of x
  int span_columns = 0;   ///< whose scales lie together; 0 if there are none beside the tiles
  int span_bytes = 0;     ///< of these, of 16 rows: a multiple of 16

  bool operator==(const WgmmaTilesWeights&) const = default;
};
inline constexpr WgmmaTilesWeights kWgmmaBf16{};  ///< mma16
/// mma_codes of e4m3 with float scales of 128 columns, by products of e4m3; a stage is 128 columns.
inline constexpr WgmmaTilesWeights kWgmmaE4m3{
    .turn_columns = 64, .turn_bytes = 1024, .input_bytes = 1, .span_columns = 128, .span_bytes = 64};

/// The same where a row has one scale, which its sums are multiplied by at the end.
inline constexpr WgmmaTilesWeights kWgmmaE4m3Rows{.turn_columns = 64, .turn_bytes = 1024, .input_bytes = 1};

/// Of codes that become bf16 or f16 in registers.
PAGODA_SHARED constexpr WgmmaTilesWeights wgmma_tiles_codes(const Coding& coding) {
  return {.turn_columns = kUnitColumns,
          .turn_bytes = unit_bytes(coding),
          .input_bytes = 2,
          .span_columns = span_columns(coding),
          .span_bytes = span_bytes(coding)};
}

struct WgmmaTilesParams {
  CopyMap input;
  CopyMap weight_maps[3];
  CopyMap scale_maps[3];      ///< over spans of scales and tiles, if there are any beside the weights
  MmaRowsWeight weights[3];   ///< `data` is read for scales of rows only
  const float* input_scales;  ///< (m), of e4m3: what its rows of x are to be multiplied by
  std::int64_t m;
  std::int64_t k;             ///< a multiple of 8
  std::int64_t split_stride;  ///< elements from one slice's output to the next slice's, if splits > 1
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t splits;        ///< slices of k; above 1 only for float output
  std::int32_t stages;        ///< of the ring: 2 to 32
  float scale;                ///< of what a residual unit adds
  float output_factor;        ///< of f16: what sums are multiplied with
};

/// Threads of a block: the warps that multiply and one that feeds them, or a warpgroup where it gives registers away.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_threads(const WgmmaTilesWeights& weights, std::int64_t warpgroups,
                                                         std::int64_t block_tokens) {
  const bool two_sets = weights.input_bytes == 1 && weights.span_columns > 0;
  const std::int64_t sums = block_tokens * (two_sets ? 2 : 1);
  return warpgroups * 128 + (warpgroups > 1 && sums > 128 ? 128 : 32);
}

/// Rows of x whose outputs a warpgroup hands over at once.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_piece_tokens(std::int64_t block_tokens) {
  return block_tokens % 32 == 0 ? 32 : 16;
}

/// Tiles of 16 rows of one weight in a block's part of it: a box of its map.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_box_tiles(std::int64_t warpgroups, bool gated) {
  return warpgroups * (gated ? 2 : 4);
}

/// A stage of the ring: rows of x, from its first byte on, then tiles of weights, then their scales, of each weight
/// from a multiple of 128 bytes on.
struct WgmmaTilesStage {
  int weights;      ///< where they begin
  int scales;       ///< where they begin
  int spans;        ///< of scales in a row of tiles
  int scale_bytes;  ///< of one weight's, room up to the next one's included
  int bytes;
};
PAGODA_SHARED constexpr WgmmaTilesStage wgmma_tiles_stage(const WgmmaTilesWeights& weights, int warpgroups,
                                                          int block_tokens, int turns, bool gated) {
  WgmmaTilesStage stage{};
  const int columns = turns * weights.turn_columns;
  stage.weights = columns * weights.input_bytes * block_tokens;
  stage.scales = stage.weights + turns * weights.turn_bytes * warpgroups * 4;
  if (weights.span_columns > 0) stage.spans = columns > weights.span_columns ? columns / weights.span_columns : 1;
  const int box_tiles = warpgroups * (gated ? 2 : 4);
  stage.scale_bytes = (box_tiles * stage.spans * weights.span_bytes + 127) / 128 * 128;
  stage.bytes = (stage.scales + stage.scale_bytes * (gated ? 2 : 1) + 1023) / 1024 * 1024;
  return stage;
}

/// Bytes of dynamic shared memory besides the ring: outputs on their way, and room to begin at a multiple of 1024.
PAGODA_SHARED constexpr std::int64_t wgmma_tiles_fixed_bytes(std::int64_t warpgroups, std::int64_t block_tokens) {
  return warpgroups * wgmma_tiles_piece_tokens(block_tokens) * (64 * 4 + 16) + 1024;
}

/// Of cuda_wgmma_columns.cu: turns of a stage; threads, as of wgmma_tiles; and a stage's bytes: rows of x, then rows of
/// weights.
inline constexpr int kWgmmaColumnsTurns = 2;
PAGODA_SHARED constexpr std::int64_t wgmma_columns_warpgroups(std::int64_t block_tokens) {
  return block_tokens > 64 ? 2 : 1;
}
PAGODA_SHARED constexpr std::int64_t wgmma_columns_threads(std::int64_t block_tokens, std::int64_t block_columns) {
  return wgmma_columns_warpgroups(block_tokens) * 128 + (block_tokens * block_columns >= 128 * 256 ? 128 : 32);
}
PAGODA_SHARED constexpr std::int64_t wgmma_columns_stage_bytes(std::int64_t block_tokens, std::int64_t block_columns) {
  return (block_tokens + block_columns) * kWgmmaColumnsTurns * kWgmmaBf16.turn_columns * kWgmmaBf16.input_bytes;
}

}  // namespace pagoda::kernels
