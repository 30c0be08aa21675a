// What kernels of wgmma_tiles' kind have in common: the units that blocks take in turn, and the thread that feeds a
// block's ring by boxes of tensor maps, with weights before it waits for earlier kernels. Blocks stay and take units in
// turn: rows of x within slices of k within weights. Blocks of a cluster fetch their rows of x for each other.
#pragma once

#include "kernels/cuda/register_products.cuh"
#include "kernels/linear/cuda_wgmma_tiles.h"

namespace pagoda::kernels {

constexpr int kMaxStages = 32;

/// Of a unit, and of a stage of the ring that makes it.
struct UnitShape {
  int tokens;        ///< rows of x
  int box_tiles;     ///< tiles of 16 rows of each weight
  int cluster;       ///< blocks
  int stage_turns;   ///< of turn_columns of k
  int turn_columns;  ///< 32 or 64
  int input_bytes;   ///< of an element of x
  int stage_bytes;
  bool gated;

  __device__ __forceinline__ constexpr int box_columns() const { return 128 / input_bytes; }  // of x
  __device__ __forceinline__ constexpr int boxes() const { return stage_turns * turn_columns / box_columns(); }
  __device__ __forceinline__ constexpr int box_bytes() const { return tokens * 128; }
};

struct RingBarriers {
  Barrier full[kMaxStages], empty[kMaxStages];
};

/// The block's number in its cluster, and the cluster's in the grid.
template <const UnitShape& kShape>
__device__ __forceinline__ int cluster_rank() {
  return kShape.cluster > 1 ? static_cast<int>(blockIdx.x) % kShape.cluster : 0;
}
template <const UnitShape& kShape>
__device__ __forceinline__ int cluster_index() {
  return static_cast<int>(blockIdx.x) / kShape.cluster;
}
template <const UnitShape& kShape>
__device__ __forceinline__ int num_clusters() {
  return static_cast<int>(gridDim.x) / kShape.cluster;
}

/// What a block makes in one go: tiles of weights from `tile` on, rows of x from `token` on, a slice of k. Blocks of a
/// cluster take neighbouring tiles of weights and the same rows of x.
struct Unit {
  int weight;  // of a gated unit 0, and 1 beside it
  int tile;    // of 16 rows within the weight
  int token;
  int slice, begin, stages;  // `begin` in turns
};

/// The units of a launch. Of many rows of x, some at a time meet all weights.
template <const UnitShape& kShape>
struct Schedule {
  static constexpr int kGroupTiles = 2048 / kShape.tokens;  // tiles of rows of x that share the second-level cache

  int units, blocks, token_tiles, splits;
  int all_turns, slice_turns;

  __device__ __forceinline__ explicit Schedule(const WgmmaTilesParams& p) {
    constexpr int kTurns = kShape.stage_turns;
    blocks = 0;
    for (int i = 0; i < (kShape.gated ? 1 : p.num_weights); ++i) blocks += num_blocks(p, i);
    token_tiles = static_cast<int>((p.m + kShape.tokens - 1) / kShape.tokens);
    splits = p.splits;
    units = blocks * splits * token_tiles;
    all_turns = static_cast<int>((p.k + kShape.turn_columns - 1) / kShape.turn_columns);
    slice_turns = ((all_turns + splits - 1) / splits + kTurns - 1) / kTurns * kTurns;
  }
  __device__ __forceinline__ static int num_blocks(const WgmmaTilesParams& p, int weight) {
    constexpr int kRows = kShape.cluster * kShape.box_tiles * 16;
    return static_cast<int>((p.weights[weight].n + kRows - 1) / kRows);
  }
  __device__ __forceinline__ Unit unit(const WgmmaTilesParams& p, int index) const {
    const int group = index / (blocks * splits * kGroupTiles);
    const int in_group = index - group * blocks * splits * kGroupTiles;
    const int tiles = min(kGroupTiles, token_tiles - group * kGroupTiles);
    const int slice = in_group / tiles % splits;
    const int begin = min(slice * slice_turns, all_turns);
    int block = in_group / (tiles * splits);
    int weight = 0;
    while (weight + 1 < (kShape.gated ? 1 : p.num_weights) && block >= num_blocks(p, weight)) {
      block -= num_blocks(p, weight);
      ++weight;
    }
    return {weight,
            (block * kShape.cluster + cluster_rank<kShape>()) * kShape.box_tiles,
            (group * kGroupTiles + in_group % tiles) * kShape.tokens,
            slice,
            begin,
            (min(slice_turns, all_turns - begin) + kShape.stage_turns - 1) / kShape.stage_turns};
  }
};

/// Walks over the stages of all the block's units; the feeding thread has one for weights and one for x.
template <const UnitShape& kShape>
struct Walk {
  int index;
  Unit unit;
  int stage;  // within the unit

  __device__ __forceinline__ bool ended(const Schedule<kShape>& schedule) const { return index >= schedule.units; }
  __device__ __forceinline__ void enter(const WgmmaTilesParams& p, const Schedule<kShape>& schedule) {
    stage = 0;
    while (index < schedule.units) {
      unit = schedule.unit(p, index);
      if (unit.stages > 0) break;
      index += num_clusters<kShape>();
    }
  }
  __device__ __forceinline__ void advance(const WgmmaTilesParams& p, const Schedule<kShape>& schedule) {
    if (++stage < unit.stages) return;
    index += num_clusters<kShape>();
    enter(p, schedule);
  }
};

/// The feeding thread's whole work. `fetch_weights(unit, turn, slot)` tells the slot's barrier how many bytes will
/// arrive in all, and starts the copies of the weights.
template <const UnitShape& kShape, class FetchWeights>
__device__ __forceinline__ void feed(const WgmmaTilesParams& p, const Schedule<kShape>& schedule, RingBarriers& s,
                                     std::uint32_t ring, const FetchWeights& fetch_weights) {
  const auto fetch = [&](const Walk<kShape>& walk, int slot) {
    fetch_weights(walk.unit, walk.unit.begin + walk.stage * kShape.stage_turns, slot);
  };
  const auto fetch_input = [&](const Walk<kShape>& walk, int slot) {
    constexpr int kFetched = kShape.tokens / kShape.cluster;  // rows that a block fetches, for all of its cluster
    static_assert(kFetched % 8 == 0);
    const int first = cluster_rank<kShape>() * kFetched;
    const std::uint32_t to = ring + slot * kShape.stage_bytes + first * 128;
    const int column = (walk.unit.begin + walk.stage * kShape.stage_turns) * kShape.turn_columns;
    const int token = walk.unit.token + first;
#pragma unroll
    for (int i = 0; i < kShape.boxes(); ++i) {
      if constexpr (kShape.cluster > 1) {
        copy_box_to_all<kShape.cluster>(to + i * kShape.box_bytes(), &p.input, column + i * kShape.box_columns(), token,
                                        &s.full[slot]);
      } else {
        copy_box(to + i * kShape.box_bytes(), &p.input, column + i * kShape.box_columns(), token, &s.full[slot]);
      }
    }
  };

  // The ring has room for so many stages' weights before anything is waited for.
  Walk<kShape> weights{cluster_index<kShape>(), {}, 0};
  weights.enter(p, schedule);
  Walk<kShape> input = weights;
  Cursor at{0, 1};
  int filled = 0;
  for (; filled < p.stages && !weights.ended(schedule); ++filled, at.advance(p.stages)) {
    fetch(weights, at.slot);
    weights.advance(p, schedule);
  }
  prefetch_map(reinterpret_cast<const TensorMapBytes*>(&p.input));  // so that x alone is what comes after the wait
  wait_for_producers();
  for (int i = 0; i < filled; ++i) {
    fetch_input(input, i);
    input.advance(p, schedule);
  }
  for (; !weights.ended(schedule); at.advance(p.stages)) {
    wait_barrier(&s.empty[at.slot], at.parity);
    fetch(weights, at.slot);
    fetch_input(weights, at.slot);
    weights.advance(p, schedule);
  }
}

/// A multiplying warp has done with a slot, whose barrier `empty` is: says so to whoever fetches x into it.
template <const UnitShape& kShape>
__device__ __forceinline__ void leave_slot(std::uint32_t empty) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kShape.cluster > 1) {
    if (lane < kShape.cluster) arrive_in_cluster(empty, lane);
  } else {
    if (lane == 0) arrive(empty);
  }
}

/// One thread, before the cluster meets. `warps` of each block empty the ring.
template <const UnitShape& kShape>
__device__ __forceinline__ void init_ring(RingBarriers& s, int stages, int warps) {
  for (int i = 0; i < stages; ++i) {
    init_barrier(&s.full[i], 1);
    init_barrier(&s.empty[i], warps * kShape.cluster);
  }
  publish_barriers();
}

}  // namespace pagoda::kernels
