// What a host needs to run cuda_wgmma_tiles.cu or cuda_wgmma_columns.cu: which of them, constants, grid, ring and
// slices a product wants, and the tensor maps of its matrices.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/driver.h"
#include "kernels/linear/cuda_wgmma_tiles.h"
#include "quant/format.h"

namespace pagoda::kernels {

/// A product whose input's rows begin at multiples of 16 bytes, k a multiple of 8.
struct WgmmaTilesProblem {
  std::int64_t m = 0;
  std::array<std::int64_t, 3> n = {};  ///< of each weight, 0 for none; of gate and up the same
  std::int64_t k = 0;
  int epilogue = 0;  ///< the unit's EPILOGUE
  WgmmaTilesWeights weights = kWgmmaBf16;
  const quant::Format* format = nullptr;  ///< whose codes become 16 bits, if `weights` are of those
  bool half = false;                      ///< 16 bits are f16, not bf16
  bool may_split = false;  ///< whether slices of k may leave sums of their own; only with float output (epilogue 1)
};

/// The unit's constants, and how k is cut.
struct WgmmaTilesShape {
  int warpgroups = 2;
  int block_tokens = 256;
  int stage_turns = 2;
  int splits = 1;
  int cluster = 1;        ///< blocks that take the same rows of x, each fetching a part of them for all
  int block_columns = 0;  ///< of cuda_wgmma_columns.cu, which has no other warpgroups and turns than these; else 0

  bool columns() const { return block_columns > 0; }

  friend bool operator==(const WgmmaTilesShape&, const WgmmaTilesShape&) = default;
};

struct WgmmaTilesPlan {
  WgmmaTilesShape shape;
  const char* source = nullptr;      ///< of the unit, for the architecture sm_90a
  const char* function = nullptr;    ///< in it; its parameters are WgmmaTilesParams
  std::vector<std::string> defines;  ///< of the unit
  std::uint32_t blocks = 0;          ///< along the grid's x, in clusters of shape.cluster
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::int32_t stages = 0;         ///< params.stages
};

/// The cheapest shape by a reckoning of cycles that was fitted to an H200 (docs/decisions/0031, 0103). Pure.
WgmmaTilesShape choose_wgmma_tiles(const WgmmaTilesProblem& problem, std::int64_t num_sms);

/// Pure. `shared_bytes_per_block` is the most that a block may have, its static bytes included. What the kernel does
/// not take is our own fault.
WgmmaTilesPlan plan_wgmma_tiles(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms,
                                std::int64_t shared_bytes_per_block);

/// The plan's `blocks` for another m: all that depends on it, when the shape is kept.
std::uint32_t wgmma_tiles_blocks(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape, std::int64_t num_sms);

/// The map of an input (rows, k) whose rows are `stride` elements apart, a multiple of 16 bytes; `rows` ≥ m. Good as
/// long as the input lies there, whatever m is, for shapes of the same block_tokens and cluster. Throws DeviceError.
CopyMap map_wgmma_tiles_input(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                              const WgmmaTilesShape& shape, const void* input, std::int64_t rows, std::int64_t k,
                              std::int64_t stride);

/// The map of a weight (n, k) in tiles as `weights` says, for shapes that differ in block_tokens and splits only.
/// `gated` if the unit's epilogue is. Throws DeviceError.
CopyMap map_wgmma_tiles_weight(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                               const WgmmaTilesShape& shape, bool gated, const void* weight, std::int64_t n,
                               std::int64_t k);

/// The same of its scales, if they lie beside the tiles.
CopyMap map_wgmma_tiles_scales(const device::cuda::Driver& driver, const WgmmaTilesWeights& weights,
                               const WgmmaTilesShape& shape, bool gated, const void* scales, std::int64_t n,
                               std::int64_t k);

}  // namespace pagoda::kernels
