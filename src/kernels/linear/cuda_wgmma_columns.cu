// y[m, n] = Σ_k x[m, k] · w[n, k] on sm_90a, as cuda_wgmma_tiles.cu for w in the layout mma16, with operands the other
// way round: x is A of wgmma and w is B, both from shared memory. B may have any multiple of 8 rows, so that a block
// takes BLOCK_COLUMNS rows of w (of a gated unit half as many of gate and of up) where that saves a round of blocks:
// gate and up of 9,728 rows each are 152 blocks of 128 on 132 multiprocessors, but 122 of 160. Two warpgroups take half
// of BLOCK_TOKENS rows of x each, or one takes 64; a lane (group, quad) has rows group and group + 8 of its warp's 16,
// columns 4 · quad to 4 · quad + 3 of each 16, and gate and up of a column. Units, slices of k and the ring are those
// of cuda_wgmma_units.cuh. Bytes: the weights once for every BLOCK_TOKENS rows. Chosen by the plan's reckoning at 33 to
// 256 rows on sm_90; figures in decision 0103. Constants: BLOCK_TOKENS (64, 128, 256), BLOCK_COLUMNS (96, 128, 160; of
// fewer than 256 rows of x also 192, 224, 256), EPILOGUE and ELEMENT as of wgmma_tiles.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/shared_products.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_wgmma_units.cuh"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr bool kFloat = EPILOGUE == 1 || EPILOGUE == 2;
constexpr int kWarpgroups = static_cast<int>(wgmma_columns_warpgroups(BLOCK_TOKENS));
constexpr int kWarps = kWarpgroups * 4;
constexpr int kParts = BLOCK_TOKENS / (kWarpgroups * 64);  // of 64 rows of x, of a warpgroup
constexpr int kHalf = BLOCK_COLUMNS / 2;                   // rows of weights, every other one
constexpr int kThreads = static_cast<int>(wgmma_columns_threads(BLOCK_TOKENS, BLOCK_COLUMNS));
constexpr bool kRaise = kThreads % 128 == 0;  // registers of the feeding warpgroup go to the others
constexpr int kStageBytes = static_cast<int>(wgmma_columns_stage_bytes(BLOCK_TOKENS, BLOCK_COLUMNS));
constexpr int kInputBytes = BLOCK_TOKENS * 128;             // of a stage: a box of 64 columns
constexpr int kColumns = BLOCK_COLUMNS / (kGated ? 2 : 1);  // of y
constexpr int kTileRows = 16;
constexpr int kTileLines = 8;  // of a turn of a tile of weights: 128 bytes, an even row's 32 columns and an odd one's

constexpr UnitShape kUnit{.tokens = BLOCK_TOKENS,
                          .box_tiles = kColumns / 16,
                          .cluster = 1,
                          .stage_turns = kWgmmaColumnsTurns,
                          .turn_columns = kWgmmaBf16.turn_columns,
                          .input_bytes = kWgmmaBf16.input_bytes,
                          .stage_bytes = kStageBytes,
                          .gated = kGated};

/// The feeding thread's whole work. Of a tile of weights all turns of a stage follow each other; gate before up.
__device__ __forceinline__ void feed_block(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                           std::uint32_t ring) {
  feed(p, schedule, s, ring, [&](const Unit& unit, int turn, int slot) {
    arrive_expecting(&s.full[slot], kStageBytes);
    const std::uint32_t to = ring + slot * kStageBytes + kInputBytes;
#pragma unroll
    for (int w = 0; w < (kGated ? 2 : 1); ++w) {
      copy_box(to + w * kColumns * kUnit.stage_turns * 64, &p.weight_maps[kGated ? w : unit.weight], 0,
               turn * kTileLines, unit.tile, &s.full[slot]);
    }
  });
}

__device__ __forceinline__ float gate_activation(float gate) { return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate); }

/// The sums of a warpgroup's 64 rows of x: even rows of weights, and odd ones.
using Sums = float[2][kHalf / 2];

/// Four neighbouring columns of y in tile `tile` of the block's: those of the lane's row and of the row 8 further, with
/// bias.
struct Columns4 {
  float y[2][4];  // rows × columns

  /// `bias` of the lane's first column, of `left` columns that the weight has from there on, or null.
  __device__ __forceinline__ Columns4(const float* bias, int left, float factor, const Sums& d, int tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float add = bias != nullptr && i < left ? bias[i] : 0;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float sum = d[i % 2][tile * 4 + row * 2 + i / 2];
        y[row][i] = ELEMENT == 1 ? fmaf(sum, factor, add) : sum + add;
      }
    }
  }
};

/// Four neighbouring columns of a row of float, of `left` that there are.
__device__ __forceinline__ void write_four(float* to, const float (&y)[4], int left, bool aligned, float scale) {
  if (aligned && left >= 4) {
    auto* const all = reinterpret_cast<float4*>(to);
    float4 v = {y[0], y[1], y[2], y[3]};
    if constexpr (EPILOGUE == 2) {
      const float4 before = *all;
      v = {fmaf(scale, v.x, before.x), fmaf(scale, v.y, before.y), fmaf(scale, v.z, before.z),
           fmaf(scale, v.w, before.w)};
    }
    *all = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) to[i] = EPILOGUE == 2 ? fmaf(scale, y[i], to[i]) : y[i];
  }
}

/// The same of bf16.
__device__ __forceinline__ void write_four(std::uint16_t* to, uint2 words, int left, bool aligned) {
  if (aligned && left >= 4) {
    *reinterpret_cast<uint2*>(to) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) to[i] = static_cast<std::uint16_t>((i < 2 ? words.x : words.y) >> i % 2 * 16);
  }
}

/// The lane's first column's bias, or null.
__device__ __forceinline__ const float* lane_bias(const WgmmaTilesParams& p, int weight, const Unit& unit) {
  const float* const bias = p.weights[weight].bias;
  if (bias == nullptr || unit.slice > 0) return nullptr;
  return bias + std::int64_t{unit.tile} * kTileRows + threadIdx.x % 4 * 4;
}

/// A warp's 16 rows from `first` on, of `all` columns that there are, as float.
__device__ __forceinline__ void write_float(const WgmmaTilesParams& p, const Unit& unit, std::int64_t first, int all,
                                            const Sums& d) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, quad = static_cast<int>(threadIdx.x) % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  const std::int64_t stride = weight.output_stride;
  auto* const output = static_cast<float*>(weight.output) + (EPILOGUE == 1 ? unit.slice * p.split_stride : 0);
  const bool aligned = stride % 4 == 0 && reinterpret_cast<std::uint64_t>(output) % 16 == 0;
  const float* const bias = lane_bias(p, unit.weight, unit);
  float* const row = output + (first + group) * stride + std::int64_t{unit.tile} * kTileRows + quad * 4;
#pragma unroll
  for (int tile = 0; tile < kColumns / 16; ++tile) {
    if (tile * 16 >= all) break;
    const int left = all - tile * 16 - quad * 4;
    const Columns4 sums(bias == nullptr ? nullptr : bias + tile * 16, left, p.output_factor, d, tile);
#pragma unroll
    for (int further = 0; further < 2; ++further) {
      if (first + group + further * 8 >= p.m) continue;
      write_four(row + further * 8 * stride + tile * 16, sums.y[further], left, aligned, p.scale);
    }
  }
}

/// The same as bf16.
__device__ __forceinline__ void write_bf16(const WgmmaTilesParams& p, const Unit& unit, std::int64_t first, int all,
                                           const Sums& d) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, quad = static_cast<int>(threadIdx.x) % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  const std::int64_t stride = weight.output_stride;
  auto* const output = static_cast<std::uint16_t*>(weight.output);
  const bool aligned = stride % 4 == 0 && reinterpret_cast<std::uint64_t>(output) % 8 == 0;
  const float *const bias = lane_bias(p, unit.weight, unit), *const up_bias = kGated ? lane_bias(p, 1, unit) : nullptr;
  std::uint16_t* const row = output + (first + group) * stride + std::int64_t{unit.tile} * kTileRows + quad * 4;
#pragma unroll
  for (int tile = 0; tile < kColumns / 16; ++tile) {
    if (tile * 16 >= all) break;
    const int left = all - tile * 16 - quad * 4;
    Columns4 sums(bias == nullptr ? nullptr : bias + tile * 16, left, p.output_factor, d, tile);
    if constexpr (kGated) {
      const Columns4 up(up_bias == nullptr ? nullptr : up_bias + tile * 16, left, p.output_factor, d,
                        kColumns / 16 + tile);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums.y[i / 4][i % 4] = gate_activation(sums.y[i / 4][i % 4]) * up.y[i / 4][i % 4];
    }
#pragma unroll
    for (int further = 0; further < 2; ++further) {
      if (first + group + further * 8 >= p.m) continue;
      const float(&y)[4] = sums.y[further];
      write_four(row + further * 8 * stride + tile * 16, {pack_bf16(y[0], y[1]), pack_bf16(y[2], y[3])}, left, aligned);
    }
  }
}

__device__ __forceinline__ void write_outputs(const WgmmaTilesParams& p, const Unit& unit,
                                              const Sums (&d)[kParts]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t left = p.weights[unit.weight].n - std::int64_t{unit.tile} * kTileRows;
  const int all = static_cast<int>(min(left, std::int64_t{kColumns}));
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const std::int64_t first = std::int64_t{unit.token} + (warp / 4 * kParts + part) * 64 + warp % 4 * 16;
    if (first >= p.m) break;
    if constexpr (kFloat) {
      write_float(p, unit, first, all, d[part]);
    } else {
      write_bf16(p, unit, first, all, d[part]);
    }
  }
}

/// A multiplying warp's whole work. A line of weights holds an even row and an odd one: they are products of their own,
/// whose columns are lines.
__device__ __forceinline__ void consume(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                        std::uint32_t ring) {
  // From this the compiler sees that it is the same for all lanes, and makes descriptors in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  const std::uint64_t input = operand(ring + warpgroup * (kInputBytes / kWarpgroups), 16);
  const std::uint64_t weights = spaced_operand<kUnit.stage_turns * kTileLines * 128>(ring + kInputBytes);
  const std::uint32_t full = kept(shared_address(s.full)), empty = kept(shared_address(s.empty));
  Sums d[kParts];
  Cursor at{0, 0};
  for (int index = cluster_index<kUnit>(); index < schedule.units; index += num_clusters<kUnit>()) {
    const Unit unit = schedule.unit(p, index);
    int before = -1;  // the slot whose products may still run
    for (int stage = 0; stage < unit.stages; ++stage) {
      wait_barrier(full + at.slot * sizeof(Barrier), at.parity);
      const std::uint32_t place = at.slot * (kStageBytes / 16);
      begin_products();
#pragma unroll
      for (int step = 0; step < kUnit.stage_turns * 2; ++step) {  // of 16 columns
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const std::uint64_t a = input + place + part * (64 * 128 / 16) + step * 2;
          const std::uint64_t b = weights + place + step / 2 * (kTileLines * 128 / 16) + step % 2 * 2;
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            multiply_add<kHalf>(d[part][odd], a, b + odd * 4, stage > 0 || step > 0);
          }
        }
      }
      commit_products();
      wait_products<1>();
      if (before >= 0) leave_slot<kUnit>(empty + before * sizeof(Barrier));
      before = at.slot;
      at.advance(p.stages);
    }
    wait_products<0>();
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) hold(d[i / 2][i % 2]);
    if (before >= 0) leave_slot<kUnit>(empty + before * sizeof(Barrier));
    if (unit.stages <= 0) {
#pragma unroll
      for (int i = 0; i < kParts * BLOCK_COLUMNS / 2; ++i) (&d[0][0][0])[i] = 0;
    }
    write_outputs(p, unit, d);
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, 1) wgmma_columns(const __grid_constant__ WgmmaTilesParams p) {
  extern __shared__ char shared[];  // the ring
  __shared__ RingBarriers s;
  const std::uint32_t ring = (shared_address(shared) + 1023) / 1024 * 1024;
  if (threadIdx.x == 0) init_ring<kUnit>(s, p.stages, kWarps);
  release_consumers();
  __syncthreads();
  const Schedule<kUnit> schedule(p);
  if (threadIdx.x >= kWarps * 32) {
    if constexpr (kRaise) drop_registers<40>();
    if (threadIdx.x == kWarps * 32) feed_block(p, schedule, s, ring);
    __syncwarp();
    wait_for_producers();
  } else {
    if constexpr (kRaise) raise_registers<232>();
    wait_for_producers();
    consume(p, schedule, s, ring);
  }
}
