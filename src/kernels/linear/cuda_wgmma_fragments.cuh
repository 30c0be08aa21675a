// A of wgmma_tiles from a stage of its ring, by kind of weights: what a warp's lane loads of a turn of its tile of 16
// rows. Of a gated unit that is 8 rows of gate (rows 0 … 7 of the fragment) and 8 of up where ldmatrix brings halves of
// tiles at no cost (mma16); elsewhere warps of even number have a tile of gate, and the next ones the same of up.
// Fragments have their columns in the order of x. Sums are multiplied by kSumFactor on their way out. Constant: WEIGHTS
// (0 mma16, 1 e4m3, whose stages have sums of their own, 3 e4m3 with one scale a row; 2 is in cuda_wgmma_codes.cuh).
#pragma once

#include "kernels/cuda/register_products_e4m3.cuh"
#include "kernels/linear/cuda_wgmma_tiles.h"

namespace pagoda::kernels {

/// Of a block: tiles in a box, turns in a stage; where a stage's parts lie; whether a thread has registers for a second
/// set of sums.
struct FragmentShape {
  bool gated;
  int box_tiles, turns;
  WgmmaTilesStage stage;
  bool two_sums = false;

  /// Where a warp's tile of codes lies in a stage, and its scales.
  __device__ __forceinline__ constexpr int codes(int warp, int tile_bytes) const {
    return stage.weights + (gated ? warp % 2 * box_tiles + warp / 2 : warp) * tile_bytes;
  }
  __device__ __forceinline__ constexpr int scales(int warp, int span_bytes) const {
    return stage.scales + (gated ? warp % 2 * stage.scale_bytes : 0) +
           (gated ? warp / 2 : warp) * stage.spans * span_bytes;
  }
};

#if WEIGHTS == 0

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 2;
  static constexpr float kSumFactor = 1;
  using Turn = std::uint32_t[kSteps][4];

  /// ldmatrix brings a fragment's four tiles of 8 × 8 in the order of its registers: lanes 8j … 8j + 7 ask for the rows
  /// of half j % 2, and for chunk j / 2 of the step's two. The tensor map's swizzle put chunks elsewhere in two rows' 128
  /// bytes, so that eight rows' chunks lie in different banks.
  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) {
    const int row = lane % 8, half = lane / 8 % 2;
    std::uint32_t tile = shared_address(ring) + kShape.stage.weights + (kShape.gated ? warp / 2 : warp) * kTileBytes;
    if (kShape.gated) tile += half * kShape.box_tiles * kTileBytes;
    const int rows = kShape.gated ? warp % 2 : half;  // which eight of the tile
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int chunk = 2 * i + lane / 16;
      mine_[i] = tile + rows * 512 + row / 2 * 128 + ((row % 2 * 4 + chunk) ^ (row / 2 + 4 * rows)) * 16;
    }
  }

  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) load_matrix_x4(a[i], mine_[i] + stage_offset + turn * 1024);
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add<kColumns>(d, a, b, add);
  }

 private:
  static constexpr int kTileBytes = kShape.turns * 1024;

  std::uint32_t mine_[kSteps];  // the lane's places in the ring's first stage, a turn's steps of 16 columns
};

#elif WEIGHTS == 1 || WEIGHTS == 3

template <const FragmentShape& kShape>
class WeightFragments {
 public:
  static constexpr int kSteps = 2;
  static constexpr float kSumFactor = 1;
  using Turn = std::uint32_t[kSteps][4];

  __device__ __forceinline__ WeightFragments(char* ring, int warp, int lane) {
    mine_ = shared_address(ring) + kShape.codes(warp, kShape.turns * 1024) + lane * 16;
    scales_ = ring + kShape.scales(warp, kWgmmaE4m3.span_bytes) + lane / 4 * 8;
  }

  /// Of the stage's 128 columns of the lane's two rows.
  __device__ __forceinline__ void load_scales(float (&scale)[2], int stage_offset) const {
    const float2 both = *reinterpret_cast<const float2*>(scales_ + stage_offset);
    scale[0] = both.x, scale[1] = both.y;
  }

  /// The lane's words are the registers, of row lane / 4 and of the row 8 further in turn.
  __device__ __forceinline__ void load(Turn& a, int stage_offset, int turn, int) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) load_shared_vec16(a[i], mine_ + stage_offset + turn * 1024 + i * 512);
  }

  template <int kColumns>
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int add) {
    multiply_add_e4m3<kColumns>(d, a, b, add);
  }

 private:
  std::uint32_t mine_;
  const char* scales_;
};

#endif

}  // namespace pagoda::kernels
