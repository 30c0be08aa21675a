// y[m, n] = Σ_k x[m, k] · w[n, k] on sm_90a, as cuda_wgmma_tiles.cu for w in the layout mma16, with operands the other
// way round: x is A of wgmma and w is B, both from shared memory. B may have any multiple of 8 rows, so that a block
// takes BLOCK_COLUMNS rows of w (of a gated unit half as many of gate and of up) where that saves a round of blocks:
// gate and up of 9,728 rows each are 152 blocks of 128 on 132 multiprocessors, but 122 of 160. Two warpgroups take half
// of BLOCK_TOKENS rows of x each, or one takes 64; a lane (group, quad) has rows group and group + 8 of its warp's 16,
// columns 2 · quad and 2 · quad + 1 of each 8, and gate and up of a column. Units, slices of k and the ring are those
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
constexpr int kSums = BLOCK_COLUMNS / 2;                   // of a part, of a thread
constexpr int kThreads = static_cast<int>(wgmma_columns_threads(BLOCK_TOKENS, BLOCK_COLUMNS));
constexpr bool kRaise = kThreads % 128 == 0;  // registers of the feeding warpgroup go to the others
constexpr int kStageBytes = static_cast<int>(wgmma_columns_stage_bytes(BLOCK_TOKENS, BLOCK_COLUMNS));
constexpr int kInputBytes = BLOCK_TOKENS * 128;             // of a stage: a box of 64 columns
constexpr int kTurnBytes = BLOCK_COLUMNS * 64;              // of a stage's weights: 32 columns
constexpr int kColumns = BLOCK_COLUMNS / (kGated ? 2 : 1);  // of y
constexpr int kTileRows = 16;

constexpr UnitShape kUnit{.tokens = BLOCK_TOKENS,
                          .box_tiles = kColumns / 16,
                          .cluster = 1,
                          .stage_turns = kWgmmaColumnsTurns,
                          .turn_columns = kWgmmaBf16.turn_columns,
                          .input_bytes = kWgmmaBf16.input_bytes,
                          .stage_bytes = kStageBytes,
                          .gated = kGated};

/// The feeding thread's whole work. A turn's weights lie as rows of 64 bytes, gate before up.
__device__ __forceinline__ void feed_block(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                           std::uint32_t ring) {
  feed(p, schedule, s, ring, [&](const Unit& unit, int turn, int slot) {
    arrive_expecting(&s.full[slot], kStageBytes);
    const std::uint32_t to = ring + slot * kStageBytes + kInputBytes;
#pragma unroll
    for (int i = 0; i < kUnit.stage_turns; ++i) {
#pragma unroll
      for (int w = 0; w < (kGated ? 2 : 1); ++w) {
        copy_box(to + i * kTurnBytes + w * kColumns * 64, &p.weight_maps[kGated ? w : unit.weight], 0,
                 (turn + i) * kTileRows, unit.tile, &s.full[slot]);
      }
    }
  });
}

__device__ __forceinline__ float gate_activation(float gate) { return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate); }

/// The words of four lanes transposed: lane q of a quad gets word q of each, in the lanes' order.
__device__ __forceinline__ void transpose_in_quad(std::uint32_t (&words)[4], int quad) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (quad & step) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t& low = words[step == 1 ? 2 * i : i];
      std::uint32_t& high = words[step == 1 ? 2 * i + 1 : i + 2];
      const std::uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? low : high, step);
      (upper ? low : high) = other;
    }
  }
}

/// Sums of 16 neighbouring columns of the block's, with bias: those of the lane's row and of the row 8 further, of two
/// columns of each 8. `d` are their registers.
struct Columns16 {
  float y[2][2][2];  // rows × eights of columns × columns

  /// `bias` of the lane's first column, of `left` columns that the weight has from there on, or null.
  __device__ __forceinline__ Columns16(const float* bias, int left, float factor, const float* d) {
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = eight * 8 + i;
        const float add = bias != nullptr && column < left ? bias[column] : 0;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const float sum = d[eight * 4 + row * 2 + i];
          y[row][eight][i] = ELEMENT == 1 ? fmaf(sum, factor, add) : sum + add;
        }
      }
    }
  }
};

/// Two neighbouring columns of a row of float, of `left` that there are.
__device__ __forceinline__ void write_pair(float* to, const float (&y)[2], int left, bool aligned, float scale) {
  if (aligned && left >= 2) {
    auto* const both = reinterpret_cast<float2*>(to);
    const float2 before = EPILOGUE == 2 ? *both : float2{};
    *both = EPILOGUE == 2 ? float2{fmaf(scale, y[0], before.x), fmaf(scale, y[1], before.y)} : float2{y[0], y[1]};
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (i < left) to[i] = EPILOGUE == 2 ? fmaf(scale, y[i], to[i]) : y[i];
  }
}

/// A lane's 8 columns of a row of bf16, of `left` that there are.
__device__ __forceinline__ void write_eight(std::uint16_t* to, const std::uint32_t (&words)[4], int left,
                                            bool aligned) {
  if (aligned && left >= 8) return store_vec16(to, {words[0], words[1], words[2], words[3]});
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (e < left) to[e] = static_cast<std::uint16_t>(words[e / 2] >> e % 2 * 16);
  }
}

/// The lane's first column's bias, or null.
__device__ __forceinline__ const float* lane_bias(const WgmmaTilesParams& p, int weight, const Unit& unit) {
  const float* const bias = p.weights[weight].bias;
  if (bias == nullptr || unit.slice > 0) return nullptr;
  return bias + std::int64_t{unit.tile} * kTileRows + threadIdx.x % 4 * 2;
}

/// A warp's 16 rows from `first` on, of `all` columns that there are, as float: of a quad's 8 columns of a row, which
/// are 32 bytes, a lane writes two.
__device__ __forceinline__ void write_float(const WgmmaTilesParams& p, const Unit& unit, std::int64_t first, int all,
                                            const float (&d)[kSums]) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, quad = static_cast<int>(threadIdx.x) % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  const std::int64_t stride = weight.output_stride;
  auto* const output = static_cast<float*>(weight.output) + (EPILOGUE == 1 ? unit.slice * p.split_stride : 0);
  const bool aligned = stride % 2 == 0 && reinterpret_cast<std::uint64_t>(output) % 8 == 0;
  const float* const bias = lane_bias(p, unit.weight, unit);
  float* const row = output + (first + group) * stride + std::int64_t{unit.tile} * kTileRows + quad * 2;
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
    if (i * 16 >= all) break;
    const int left = all - i * 16 - quad * 2;
    const Columns16 sums(bias == nullptr ? nullptr : bias + i * 16, left, p.output_factor, d + i * 8);
#pragma unroll
    for (int further = 0; further < 2; ++further) {
      if (first + group + further * 8 >= p.m) continue;
      float* const to = row + further * 8 * stride + i * 16;
      write_pair(to, sums.y[further][0], left, aligned, p.scale);
      write_pair(to + 8, sums.y[further][1], left - 8, aligned, p.scale);
    }
  }
}

/// The same as bf16: a quad exchanges 16 columns of two rows, and a lane writes 8 of one.
__device__ __forceinline__ void write_bf16(const WgmmaTilesParams& p, const Unit& unit, std::int64_t first, int all,
                                           const float (&d)[kSums]) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, quad = static_cast<int>(threadIdx.x) % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  auto* const output = static_cast<std::uint16_t*>(weight.output);
  const bool aligned = weight.output_stride % 8 == 0 && reinterpret_cast<std::uint64_t>(output) % 16 == 0;
  const float *const bias = lane_bias(p, unit.weight, unit), *const up_bias = kGated ? lane_bias(p, 1, unit) : nullptr;
  const std::int64_t token = first + group + quad / 2 * 8;
  std::uint16_t* const row = output + token * weight.output_stride + std::int64_t{unit.tile} * kTileRows + quad % 2 * 8;
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
    if (i * 16 >= all) break;
    const int left = all - i * 16;
    const Columns16 sums(bias == nullptr ? nullptr : bias + i * 16, left - quad * 2, p.output_factor, d + i * 8);
    std::uint32_t words[4];  // rows × eights of columns
    if constexpr (kGated) {
      const Columns16 up(up_bias == nullptr ? nullptr : up_bias + i * 16, left - quad * 2, p.output_factor,
                         d + kSums / 2 + i * 8);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float(&gate)[2] = sums.y[w / 2][w % 2];
        const float(&other)[2] = up.y[w / 2][w % 2];
        words[w] = pack_bf16(gate_activation(gate[0]) * other[0], gate_activation(gate[1]) * other[1]);
      }
    } else {
#pragma unroll
      for (int w = 0; w < 4; ++w) words[w] = pack_bf16(sums.y[w / 2][w % 2][0], sums.y[w / 2][w % 2][1]);
    }
    transpose_in_quad(words, quad);
    if (token < p.m) write_eight(row + i * 16, words, left - quad % 2 * 8, aligned);
  }
}

__device__ __forceinline__ void write_outputs(const WgmmaTilesParams& p, const Unit& unit,
                                              const float (&d)[kParts][kSums]) {
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

/// A multiplying warp's whole work.
__device__ __forceinline__ void consume(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                        std::uint32_t ring) {
  constexpr int kSteps = 4;  // of 16 columns, of a stage
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const std::uint64_t input = operand(ring + warpgroup * (kInputBytes / kWarpgroups), 16);
  const std::uint64_t weights = narrow_operand(ring + kInputBytes);
  float d[kParts][kSums];
  Cursor at{0, 0};
  for (int index = cluster_index<kUnit>(); index < schedule.units; index += num_clusters<kUnit>()) {
    const Unit unit = schedule.unit(p, index);
    int before = -1;  // the slot whose products may still run
    for (int stage = 0; stage < unit.stages; ++stage) {
      wait_barrier(&s.full[at.slot], at.parity);
      const std::uint32_t place = at.slot * (kStageBytes / 16);
      begin_products();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          multiply_add<BLOCK_COLUMNS>(d[part], input + place + part * (64 * 128 / 16) + step * 2,
                                      weights + place + step / 2 * (kTurnBytes / 16) + step % 2 * 2,
                                      stage > 0 || step > 0);
        }
      }
      commit_products();
      wait_products<1>();
      if (before >= 0) leave_slot<kUnit>(s, before);
      before = at.slot;
      at.advance(p.stages);
    }
    wait_products<0>();
#pragma unroll
    for (int part = 0; part < kParts; ++part) hold(d[part]);
    if (before >= 0) leave_slot<kUnit>(s, before);
    if (unit.stages <= 0) {
#pragma unroll
      for (int i = 0; i < kParts * kSums; ++i) d[i / kSums][i % kSums] = 0;
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
