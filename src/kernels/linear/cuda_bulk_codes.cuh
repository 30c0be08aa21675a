// What kernels of few rows over the layout mma_codes share (cuda_mma_bulk_codes.cu, cuda_whole_bulk_codes.cu): who does
// which tile, the ring of weights in shared memory and the warp that feeds it, and what is done with a finished output.
// One block a multiprocessor, with all its shared memory. Constants: FORMAT, WARPS, STAGE_UNITS (a multiple of WARPS
// and of 4), EPILOGUE (0 bf16, 1 float, 2 residual +=, 3 SiLU, 4 GELU).
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/format.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_codes.cuh"
#include "kernels/linear/cuda_mma_bulk_codes.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr int kSets = kGated ? 2 : 1;
constexpr int kThreads = WARPS * 32;  // and one warp that feeds them
constexpr int kMaxStages = 32;
constexpr Coding kCoding = Format::kCoding;
using TheScales = Scales<kCoding>;
constexpr int kUnitBytes = unit_bytes(kCoding);
constexpr int kSpanUnits = span_columns(kCoding) / kUnitColumns;
constexpr int kStageCodes = STAGE_UNITS * kUnitBytes;
constexpr int kSetBytes = mma_bulk_codes_set_bytes(kCoding, STAGE_UNITS);
constexpr int kAtOnce = STAGE_UNITS / WARPS < AT_ONCE ? STAGE_UNITS / WARPS : AT_ONCE;
constexpr int kGroupColumns = kCoding.group < kUnitColumns ? kCoding.group : kUnitColumns;
constexpr int kStageBytes = kSets * kSetBytes;
static_assert(STAGE_UNITS % WARPS == 0 && STAGE_UNITS % 4 == 0);

struct Ring {
  Barrier full[kMaxStages], empty[kMaxStages];
};

/// The columns of one block: units [begin, begin + count) of each tile.
struct Slice {
  int index, begin, count, tile_units, tile_spans;
};

__device__ __forceinline__ Slice slice_of_block(const MmaBulkCodesParams& p) {
  const int all = static_cast<int>(num_units(p.k));
  const int each = static_cast<int>(mma_bulk_codes_slice(p.k, p.splits));
  const int index = static_cast<int>(blockIdx.x) % p.splits;
  return {index, index * each, max(0, min(each, all - index * each)), all, static_cast<int>(num_spans(kCoding, p.k))};
}

/// A tile of 16 rows of one weight, by its number over all weights.
struct Place {
  int weight;
  std::int64_t tile;
};

__device__ __forceinline__ Place locate(const MmaBulkCodesParams& p, std::int64_t tile) {
  int which = 0;
  if constexpr (!kGated) {
    while (which + 1 < p.num_weights && tile >= (p.weights[which].n + 15) / 16) {
      tile -= (p.weights[which].n + 15) / 16;
      ++which;
    }
  }
  return {which, tile};
}

/// The feeding warp's whole work.
__device__ __forceinline__ void feed(const MmaBulkCodesParams& p, const Slice& slice, std::int64_t tiles, Ring& s,
                                     char* ring) {
  const int lane = threadIdx.x % 32;
  Cursor at{0, 1};  // an empty ring: its first waits pass at once
  Cursor landed{0, 0};
  int under_way = 0;
  const int block = static_cast<int>(blockIdx.x) / p.splits;
  const int window = block < p.long_blocks ? p.long_window : p.window;
  for (std::int64_t tile = block; tile < tiles; tile += gridDim.x / p.splits) {
    const Place place = locate(p, tile);
    for (int unit = 0; unit < slice.count; unit += STAGE_UNITS, at.advance(p.stages)) {
      wait_barrier(&s.empty[at.slot], at.parity);
      if (under_way == window) {
        wait_barrier(&s.full[landed.slot], landed.parity);
        landed.advance(p.stages);
      } else {
        ++under_way;
      }
      const int units = min(STAGE_UNITS, slice.count - unit);
      const int codes = units * kUnitBytes;
      const int scales = (units + kSpanUnits - 1) / kSpanUnits * span_bytes(kCoding);
      if (lane == 0) {
        arrive_expecting(&s.full[at.slot], static_cast<std::uint32_t>((codes + scales) * kSets));
        const std::int64_t first = place.tile * slice.tile_units + slice.begin + unit;
        const std::int64_t span = place.tile * slice.tile_spans + (slice.begin + unit) / kSpanUnits;
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          const MmaCodesWeight& weight = p.weights[place.weight + set];
          char* to = ring + at.slot * kStageBytes + set * kSetBytes;
          copy_bulk(to, static_cast<const char*>(weight.codes) + first * kUnitBytes, codes, &s.full[at.slot]);
          copy_bulk(to + kStageCodes, static_cast<const char*>(weight.scales) + span * span_bytes(kCoding), scales,
                    &s.full[at.slot]);
        }
      }
      __syncwarp();
    }
  }
}

__device__ __forceinline__ float gate_activation(float gate) { return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate); }

/// Writes what one output of the block came to. A bias belongs to the first slice.
__device__ __forceinline__ void finish(const MmaBulkCodesParams& p, const MmaCodesWeight& weight, int slice,
                                       std::int64_t row, int token, float value, float up, float before) {
  if (weight.bias != nullptr && slice == 0) value += weight.bias[row];
  if constexpr (kGated) {
    if (p.weights[1].bias != nullptr) up += p.weights[1].bias[row];
    value = gate_activation(value) * up;
  }
  const std::int64_t at = token * weight.output_stride + row;
  if constexpr (EPILOGUE == 1) {
    static_cast<float*>(weight.output)[slice * p.split_stride + at] = value;
  } else if constexpr (EPILOGUE == 2) {
    static_cast<float*>(weight.output)[at] = fmaf(p.scale, value, before);
  } else {
    static_cast<std::uint16_t*>(weight.output)[at] = to_bf16(value);
  }
}

/// The thread's number among those that finish the block's `turn`th tile: other warps come first each time, since all
/// wait for the one that had a tile to finish.
__device__ __forceinline__ int finisher(int turn) {
  return (static_cast<int>(threadIdx.x) + turn % WARPS * 32) % kThreads;
}

/// What the thread's first output of a tile is added to, fetched while the products run.
__device__ __forceinline__ float fetch_before(const MmaBulkCodesParams& p, const Place& place, int turn) {
  const MmaCodesWeight& weight = p.weights[place.weight];
  const std::int64_t row = place.tile * 16 + threadIdx.x % 16;
  const int index = finisher(turn);
  if (EPILOGUE != 2 || index >= 16 * p.m || row >= weight.n) return 0;
  return static_cast<const float*>(weight.output)[index / 16 * weight.output_stride + row];
}

/// Adds the warps' sums of a tile, in their order: `all` by warp, set, row and token; a row is kStride floats.
template <int kStride, class Factor>
__device__ __forceinline__ void finish_tile(const MmaBulkCodesParams& p, const Slice& slice, const Place& place,
                                            int turn, const float* all, float before, Factor factor) {
  const MmaCodesWeight& weight = p.weights[place.weight];
  const std::int64_t my_row = place.tile * 16 + threadIdx.x % 16;  // the same for all of a thread's outputs
  for (int index = finisher(turn); index < 16 * p.m; index += kThreads) {
    const int row = index % 16;
    const int token = index / 16;
    float total[2] = {};
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) total[set] += all[((w * kSets + set) * 16 + row) * kStride + token];
    }
    if (EPILOGUE == 2 && index >= kThreads && my_row < weight.n) {
      before = static_cast<const float*>(weight.output)[token * weight.output_stride + my_row];
    }
    const float by = factor(token);
    if (my_row < weight.n) finish(p, weight, slice.index, my_row, token, total[0] * by, total[1] * by, before);
  }
}

}  // namespace pagoda::kernels
