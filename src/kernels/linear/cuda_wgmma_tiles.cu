// y[m, n] = Σ_k x[m, k] · w[n, k] for 17 and more rows of x, w bf16 in the layout mma16, on sm_90a: decode of batches
// and prefill from the same weights as decode of one row.
// A block makes 64 · WARPGROUPS columns of y (of a gated unit half as many) for BLOCK_TOKENS rows: the weights are A of
// wgmma, from registers, a tile of 16 rows a warp (of a gated unit 8 rows of gate and 8 of up, so that a thread has
// both); x is B, from shared memory. One thread feeds the block through a ring by boxes of tensor maps: a bulk copy for
// each tile cost more than 100 cycles a copy. It fills the ring with weights before it waits for earlier kernels.
// ldmatrix would find rows 64 bytes apart in the same banks; so each row is asked for another of its four chunks, and
// registers are exchanged afterwards. Blocks stay and take units in turn: rows of x within slices of k within weights.
// k is added in one order within a slice, whatever m is. Bytes: the weights once for every BLOCK_TOKENS rows. Chosen
// for 17 and more rows on sm_90. Best on an H200, 2026-11-30: 746 TFLOP/s at 2048 × 28672 × 4096, 780 at 2048 × 4096 ×
// 14336. Constants: WARPGROUPS (1, 2), BLOCK_TOKENS (16, 32, 48, 64, 96, 128, 192, 256), STAGE_TURNS (32 columns each:
// 2, 4), EPILOGUE (0 bf16, 1 float, 2 residual +=, 3 SiLU-, 4 GELU-gated).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/register_products.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear/cuda_wgmma_tiles.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr bool kFloat = EPILOGUE == 1 || EPILOGUE == 2;
constexpr int kWarps = WARPGROUPS * 4;
constexpr int kBoxTiles = static_cast<int>(wgmma_tiles_box_tiles(WARPGROUPS, kGated));  // of 16 rows, of each weight
constexpr int kTileBytes = STAGE_TURNS * 1024;
constexpr int kWeightBytes = kWarps * kTileBytes;
constexpr int kBoxBytes = BLOCK_TOKENS * 128;  // 64 columns of x
constexpr int kInputBytes = STAGE_TURNS / 2 * kBoxBytes;
constexpr int kStageBytes = kWeightBytes + kInputBytes;
constexpr int kMaxStages = 32;
constexpr int kRun = kGated ? 32 : 64;  // neighbouring columns of y that a warpgroup makes
constexpr int kElementBytes = kFloat ? 4 : 2;
constexpr int kPieceTokens = static_cast<int>(wgmma_tiles_piece_tokens(BLOCK_TOKENS));
constexpr int kPieceStride = kRun * kElementBytes + 16;  // bytes: eight rows touch all banks
constexpr int kPieceBytes = kPieceTokens * (64 * 4 + 16);
constexpr int kSums = BLOCK_TOKENS / 2;
constexpr bool kRaise = WARPGROUPS > 1 && BLOCK_TOKENS > 128;  // registers of the feeding warpgroup go to the others
constexpr int kThreads = static_cast<int>(wgmma_tiles_threads(WARPGROUPS, BLOCK_TOKENS));
static_assert(STAGE_TURNS % 2 == 0 && BLOCK_TOKENS % 16 == 0);

struct Shared {
  Barrier full[kMaxStages], empty[kMaxStages];
};

/// What a block makes in one go: tiles of weights from `tile` on, rows of x from `token` on, a slice of k.
struct Unit {
  int weight;  // of a gated unit 0, and 1 beside it
  int tile;    // of 16 rows within the weight
  int token;
  int slice, begin, stages;  // `begin` in turns of 32 columns
};

/// The units of a launch.
struct Schedule {
  int units, token_tiles, splits;
  int all_turns, slice_turns;

  __device__ __forceinline__ explicit Schedule(const WgmmaTilesParams& p) {
    int blocks = 0;
    for (int i = 0; i < (kGated ? 1 : p.num_weights); ++i) blocks += num_blocks(p, i);
    token_tiles = static_cast<int>((p.m + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
    splits = p.splits;
    units = blocks * splits * token_tiles;
    all_turns = static_cast<int>((p.k + 31) / 32);
    slice_turns = ((all_turns + splits - 1) / splits + STAGE_TURNS - 1) / STAGE_TURNS * STAGE_TURNS;
  }
  __device__ __forceinline__ static int num_blocks(const WgmmaTilesParams& p, int weight) {
    return static_cast<int>((p.weights[weight].n + kBoxTiles * 16 - 1) / (kBoxTiles * 16));
  }
  __device__ __forceinline__ Unit unit(const WgmmaTilesParams& p, int index) const {
    const int slice = index / token_tiles % splits;
    const int begin = min(slice * slice_turns, all_turns);
    int block = index / (token_tiles * splits);
    int weight = 0;
    while (weight + 1 < (kGated ? 1 : p.num_weights) && block >= num_blocks(p, weight)) {
      block -= num_blocks(p, weight);
      ++weight;
    }
    return {weight,
            block * kBoxTiles,
            index % token_tiles * BLOCK_TOKENS,
            slice,
            begin,
            (min(slice_turns, all_turns - begin) + STAGE_TURNS - 1) / STAGE_TURNS};
  }
};

/// Where the ring stands, for one who fills or empties it.
struct Cursor {
  int slot;
  std::uint32_t parity;
  __device__ __forceinline__ void advance(int stages) {
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Walks over the stages of all the block's units; the feeding thread has one for weights and one for x.
struct Walk {
  int index;
  Unit unit;
  int stage;  // within the unit

  __device__ __forceinline__ void enter(const WgmmaTilesParams& p, const Schedule& schedule) {
    stage = 0;
    while (index < schedule.units) {
      unit = schedule.unit(p, index);
      if (unit.stages > 0) break;
      index += gridDim.x;
    }
  }
  __device__ __forceinline__ void advance(const WgmmaTilesParams& p, const Schedule& schedule) {
    if (++stage < unit.stages) return;
    index += gridDim.x;
    enter(p, schedule);
  }
};

/// The feeding thread's whole work.
__device__ __forceinline__ void feed(const WgmmaTilesParams& p, const Schedule& schedule, Shared& s,
                                     std::uint32_t ring) {
  const auto fetch_weights = [&](const Walk& walk, int slot) {
    arrive_expecting(&s.full[slot], kStageBytes);
    const int turn = walk.unit.begin + walk.stage * STAGE_TURNS;
    const std::uint32_t to = ring + slot * kStageBytes;
#pragma unroll
    for (int i = 0; i < (kGated ? 2 : 1); ++i) {
      copy_box(to + i * kBoxTiles * kTileBytes, &p.weight_maps[kGated ? i : walk.unit.weight], 0, turn, walk.unit.tile,
               &s.full[slot]);
    }
  };
  const auto fetch_input = [&](const Walk& walk, int slot) {
    const std::uint32_t to = ring + slot * kStageBytes + kWeightBytes;
    const int column = (walk.unit.begin + walk.stage * STAGE_TURNS) * 32;
#pragma unroll
    for (int i = 0; i < STAGE_TURNS / 2; ++i) {
      copy_box(to + i * kBoxBytes, &p.input, column + i * 64, walk.unit.token, &s.full[slot]);
    }
  };

  // The ring has room for so many stages' weights before anything is waited for.
  Walk weights{static_cast<int>(blockIdx.x), {}, 0};
  weights.enter(p, schedule);
  Walk input = weights;
  Cursor at{0, 1};
  int filled = 0;
  for (; filled < p.stages && weights.index < schedule.units; ++filled, at.advance(p.stages)) {
    fetch_weights(weights, at.slot);
    weights.advance(p, schedule);
  }
  wait_for_producers();
  for (int i = 0; i < filled; ++i) {
    fetch_input(input, i);
    input.advance(p, schedule);
  }
  for (; weights.index < schedule.units; at.advance(p.stages)) {
    wait_barrier(&s.empty[at.slot], at.parity);
    fetch_weights(weights, at.slot);
    fetch_input(weights, at.slot);
    weights.advance(p, schedule);
  }
}

__device__ __forceinline__ float gate_activation(float gate) {
  return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate);
}

/// A of two products of 16 columns each.
using Fragments = std::uint32_t[2][4];

/// Four chunks of 8 columns of the lane's row from 8 rows of 64 bytes; `place` is what the lane asks ldmatrix for.
__device__ __forceinline__ void load_half(std::uint32_t (&chunk)[4], std::uint32_t place) {
  load_matrix_x4(chunk, place);
  const int shift = threadIdx.x / 8 % 4;  // register i has chunk i ^ shift of the lane's row
  const bool odd = shift & 1, high = shift & 2;
  const std::uint32_t a = odd ? chunk[1] : chunk[0], b = odd ? chunk[0] : chunk[1];
  const std::uint32_t c = odd ? chunk[3] : chunk[2], d = odd ? chunk[2] : chunk[3];
  chunk[0] = high ? c : a;
  chunk[1] = high ? d : b;
  chunk[2] = high ? a : c;
  chunk[3] = high ? b : d;
}

/// A of a turn: 16 rows (or 8 of gate and 8 of up), 32 columns.
__device__ __forceinline__ void load_turn(Fragments& a, std::uint32_t top, std::uint32_t bottom) {
  std::uint32_t upper[4], lower[4];
  load_half(upper, top);
  load_half(lower, bottom);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a[i][0] = upper[2 * i];
    a[i][1] = lower[2 * i];
    a[i][2] = upper[2 * i + 1];
    a[i][3] = lower[2 * i + 1];
  }
}

/// A warpgroup's sums to y, by way of shared memory, so that neighbouring threads write neighbouring columns.
__device__ __forceinline__ void write_outputs(const WgmmaTilesParams& p, const Unit& unit, const float (&d)[kSums],
                                              char* piece) {
  const int warp = threadIdx.x / 32;  // of the block
  const int member = threadIdx.x % 128;
  const int lane = threadIdx.x % 32;
  const int group = lane / 4, quad = lane % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  const std::int64_t origin = std::int64_t{unit.tile} * 16;
  // Biases of the thread's two rows of weights.
  float bias[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float* from = p.weights[kGated ? i : unit.weight].bias;
    const std::int64_t row = origin + warp * (kGated ? 8 : 16) + (kGated ? 0 : i * 8) + group;
    if (from != nullptr && row < weight.n && unit.slice == 0) bias[i] = from[row];
  }
  // Which 16 bytes of a row of y this thread writes.
  constexpr int kChunk = 16 / kElementBytes;
  constexpr int kChunks = kRun / kChunk;  // of a row: 8, 4 or 16
  constexpr int kRowsAtOnce = 128 / kChunks;
  const int column = member % kChunks * kChunk;  // within the run
  const std::int64_t n = origin + warp / 4 * kRun + column;
  const bool whole = n + kChunk <= weight.n && weight.output_stride % kChunk == 0 &&
                     reinterpret_cast<std::uint64_t>(weight.output) % 16 == 0 &&
                     (EPILOGUE != 1 || p.split_stride % kChunk == 0);
#pragma unroll
  for (int first = 0; first < BLOCK_TOKENS; first += kPieceTokens) {
    if (unit.token + first >= p.m) break;
    __syncwarp();
    sync_threads(1 + warp / 4, 128);  // the piece before has left
    if constexpr (kFloat) {
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          char* row = piece + (t * 8 + quad * 2 + e % 2) * kPieceStride;
          reinterpret_cast<float*>(row)[warp % 4 * 16 + e / 2 * 8 + group] = d[(first / 8 + t) * 4 + e] + bias[e / 2];
        }
      }
    } else if constexpr (kGated) {
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; t += 2) {
        // Two registers of 8 columns of y × 8 rows: as a pair of tiles, of which stmatrix takes four or two.
        std::uint32_t tile[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float* from = d + (first / 8 + t + i) * 4;
          tile[i] = pack_bf16(gate_activation(from[0] + bias[0]) * (from[2] + bias[1]),
                              gate_activation(from[1] + bias[0]) * (from[3] + bias[1]));
        }
        char* row = piece + (t * 8 + lane % 16) * kPieceStride + warp % 4 * 16;
        store_matrix_x2_transposed(row, tile[0], tile[1]);
      }
    } else {
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; t += 2) {
        std::uint32_t tile[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // upper and lower 8 columns of y, of two times 8 rows
          const float* from = d + (first / 8 + t + i / 2) * 4 + i % 2 * 2;
          tile[i] = pack_bf16(from[0] + bias[i % 2], from[1] + bias[i % 2]);
        }
        char* row = piece + ((t + lane / 16) * 8 + lane % 8) * kPieceStride + warp % 4 * 32 + lane / 8 % 2 * 16;
        store_matrix_x4_transposed(row, tile);
      }
    }
    sync_threads(1 + warp / 4, 128);
    if (n >= weight.n) continue;
#pragma unroll
    for (int i = 0; i < kPieceTokens; i += kRowsAtOnce) {
      const int row = i + member / kChunks;
      const std::int64_t token = std::int64_t{unit.token} + first + row;
      if (row >= kPieceTokens || token >= p.m) continue;
      const char* from = piece + row * kPieceStride + column * kElementBytes;
      const std::int64_t at = token * weight.output_stride + n;
      if constexpr (kFloat) {
        float* to = static_cast<float*>(weight.output) + (EPILOGUE == 1 ? unit.slice * p.split_stride : 0) + at;
        const float4 v = *reinterpret_cast<const float4*>(from);
        if (whole) {
          float4 y = v;
          if constexpr (EPILOGUE == 2) {
            y = *reinterpret_cast<const float4*>(to);
            y.x = fmaf(p.scale, v.x, y.x), y.y = fmaf(p.scale, v.y, y.y);
            y.z = fmaf(p.scale, v.z, y.z), y.w = fmaf(p.scale, v.w, y.w);
          }
          *reinterpret_cast<float4*>(to) = y;
        } else {
          const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            if (n + e < weight.n) to[e] = EPILOGUE == 2 ? fmaf(p.scale, values[e], to[e]) : values[e];
          }
        }
      } else {
        std::uint16_t* to = static_cast<std::uint16_t*>(weight.output) + at;
        const Vec16 v = load_vec16(from);
        if (whole) {
          store_vec16(to, v);
        } else {
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            if (n + e < weight.n) to[e] = static_cast<std::uint16_t>(v.word[e / 2] >> e % 2 * 16);
          }
        }
      }
    }
  }
}

/// A multiplying warp's whole work.
__device__ __forceinline__ void consume(const WgmmaTilesParams& p, const Schedule& schedule, Shared& s,
                                        std::uint32_t ring, char* pieces) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  // ldmatrix: lane 8j + r asks for a chunk of row r, such that the eight rows' chunks lie in different banks.
  const int chunk = (lane / 8 ^ lane / 2 % 4) % 4;
  const std::uint32_t mine =
      ring + lane % 8 * 64 + chunk * 16 + (kGated ? warp / 2 * kTileBytes + warp % 2 * 512 : warp * kTileBytes);
  constexpr int kBottom = kGated ? kBoxTiles * kTileBytes : 512;
  const std::uint64_t input = operand(ring + kWeightBytes, 16);
  float d[kSums];
  Cursor at{0, 0};
  int before = -1;  // the slot whose products may still run
  const auto leave = [&](int slot) {
    if (lane == 0) arrive(&s.empty[slot]);
  };
  for (int index = blockIdx.x; index < schedule.units; index += gridDim.x) {
    const Unit unit = schedule.unit(p, index);
    const auto step = [&](Fragments(&a)[STAGE_TURNS], bool first) {
      wait_barrier(&s.full[at.slot], at.parity);
      const std::uint32_t offset = at.slot * kStageBytes;
#pragma unroll
      for (int i = 0; i < STAGE_TURNS; ++i) {
        load_turn(a[i], mine + offset + i * 1024, mine + offset + i * 1024 + kBottom);
      }
      begin_products();
      const std::uint64_t b = input + offset / 16;
#pragma unroll
      for (int i = 0; i < STAGE_TURNS; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          multiply_add<BLOCK_TOKENS>(d, a[i][j], b + i / 2 * (kBoxBytes / 16) + i % 2 * 4 + j * 2, !first || i + j > 0);
        }
      }
      commit_products();
      wait_products<1>();
      if (before >= 0) leave(before);
      before = at.slot;
      at.advance(p.stages);
    };
    Fragments even[STAGE_TURNS], odd[STAGE_TURNS];
    int stage = 0;
    for (; stage + 1 < unit.stages; stage += 2) {
      step(even, stage == 0);
      step(odd, false);
    }
    if (stage < unit.stages) step(even, stage == 0);
    wait_products<0>();
    hold(d);
    if (before >= 0) leave(before);
    before = -1;
    if (unit.stages <= 0) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) d[i] = 0;
    }
    write_outputs(p, unit, d, pieces + warp / 4 * kPieceBytes);
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, 1) wgmma_tiles(const __grid_constant__ WgmmaTilesParams p) {
  extern __shared__ char shared[];  // the ring, outputs on their way
  __shared__ Shared s;
  const std::uint32_t padding = (1024 - shared_address(shared) % 1024) % 1024;
  const std::uint32_t ring = shared_address(shared) + padding;
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.stages; ++i) {
      init_barrier(&s.full[i], 1);
      init_barrier(&s.empty[i], kWarps);
    }
    publish_barriers();
  }
  release_consumers();
  __syncthreads();
  const Schedule schedule(p);
  if (threadIdx.x >= kWarps * 32) {
    if constexpr (kRaise) drop_registers<40>();
    if (threadIdx.x == kWarps * 32) feed(p, schedule, s, ring);
    __syncwarp();
    wait_for_producers();
  } else {
    if constexpr (kRaise) raise_registers<232>();
    wait_for_producers();
    consume(p, schedule, s, ring, shared + padding + p.stages * kStageBytes);
  }
}
