// y[m, n] = Σ_k x[m, k] · w[n, k] for 17 and more rows of x on sm_90a: decode of batches and prefill from the same
// weights as decode of one row. w in the layout mma16, or mma_codes as e4m3 (cuda_wgmma_fragments.cuh) or as 16 bits
// (cuda_wgmma_codes.cuh). A block makes 64 · WARPGROUPS columns of y (of a gated unit half as many) for BLOCK_TOKENS
// rows: the weights are A of wgmma, from registers, a tile of 16 rows a warp; x is B, from shared memory. Gate and up
// of a gated unit meet in a thread (mma16: 8 rows of each in a tile) or on their way out (others: neighbouring warps
// have a tile of each). One thread feeds the block through a ring by boxes of tensor maps, with weights before it
// waits for earlier kernels; blocks of a cluster fetch their rows of x for each other. Blocks stay and take units in
// turn: rows of x within slices of k within weights. k is added in one order within a slice, whatever m is. Bytes: the
// weights once for every BLOCK_TOKENS rows. Chosen for 17 and more rows on sm_90; figures in decisions 0031, 0060 and
// 0105. Constants: WARPGROUPS (1, 2; of codes 4), BLOCK_TOKENS (16, 32, 48, 64, 96, 128, 192, 256), STAGE_TURNS (of 32
// columns, or 64 of codes and e4m3: 1, 2, 4), CLUSTER (1, 2), WEIGHTS (0 mma16, 1 e4m3, 2 codes of FORMAT, 3 e4m3 with
// one scale a row), EPILOGUE (0 bf16, 1 float, 2 residual +=, 3 SiLU-, 4 GELU-gated), ELEMENT (16 bits of w and x are
// 0 bf16, 1 f16).
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/vector.cuh"
#if WEIGHTS == 2
#include "kernels/linear/cuda_wgmma_codes.cuh"
#else
#include "kernels/linear/cuda_wgmma_fragments.cuh"
#endif
#include "kernels/linear/cuda_wgmma_units.cuh"
#include "quant/formats/fp8.h"

namespace pagoda::kernels {

constexpr bool kGated = EPILOGUE >= 3;
constexpr bool kFloat = EPILOGUE == 1 || EPILOGUE == 2;
constexpr bool kRowScales = WEIGHTS == 3;
constexpr bool kFp8 = WEIGHTS == 1 || kRowScales;
constexpr bool kPairs = kGated && WEIGHTS != 0;  // of warps, with the same tile of gate and of up
constexpr bool kHalf = ELEMENT == 1;
#if WEIGHTS == 2
constexpr WgmmaTilesWeights kWeights = wgmma_tiles_codes(kCoding);
#else
constexpr WgmmaTilesWeights kWeights = kRowScales ? kWgmmaE4m3Rows : kFp8 ? kWgmmaE4m3 : kWgmmaBf16;
#endif
constexpr WgmmaTilesStage kStage = wgmma_tiles_stage(kWeights, WARPGROUPS, BLOCK_TOKENS, STAGE_TURNS, kGated);
constexpr int kWarps = WARPGROUPS * 4;
constexpr int kBoxTiles = static_cast<int>(wgmma_tiles_box_tiles(WARPGROUPS, kGated));  // of 16 rows, of each weight
constexpr int kTurnLines = WEIGHTS == 0 ? 8 : 1;  // along the map's second dimension
constexpr int kSpanTurns = kStage.spans > 0 ? kWeights.span_columns / kWeights.turn_columns : 1;
constexpr int kTileBytes = STAGE_TURNS * kWeights.turn_bytes;
constexpr int kBoxBytes = BLOCK_TOKENS * 128;
constexpr int kArriving = kStage.scales + kBoxTiles * kStage.spans * kWeights.span_bytes * (kGated ? 2 : 1);  // bytes
constexpr int kRun = kGated ? 32 : 64;  // neighbouring columns of y that a warpgroup makes
constexpr int kElementBytes = kFloat ? 4 : 2;
constexpr int kPieceTokens = static_cast<int>(wgmma_tiles_piece_tokens(BLOCK_TOKENS));
constexpr int kPieceStride = (kPairs ? 64 * 4 : kRun * kElementBytes) + 16;  // bytes: eight rows touch all banks
constexpr int kPieceBytes = kPieceTokens * (64 * 4 + 16);
constexpr int kSums = BLOCK_TOKENS / 2;
constexpr int kThreads = static_cast<int>(wgmma_tiles_threads(kWeights, WARPGROUPS, BLOCK_TOKENS));
constexpr bool kRaise = kThreads % 128 == 0;  // registers of the feeding warpgroup go to the others
static_assert(STAGE_TURNS * kWeights.turn_columns * kWeights.input_bytes % 128 == 0 && BLOCK_TOKENS % 16 == 0);

constexpr FragmentShape kFragments{kGated, kBoxTiles, STAGE_TURNS, kStage, BLOCK_TOKENS <= 64 && WARPGROUPS <= 2};
using Source = WeightFragments<kFragments>;
constexpr bool kScaledSums = kFp8 || kHalf || Source::kSumFactor != 1;

constexpr UnitShape kUnit{.tokens = BLOCK_TOKENS,
                          .box_tiles = kBoxTiles,
                          .cluster = CLUSTER,
                          .stage_turns = STAGE_TURNS,
                          .turn_columns = kWeights.turn_columns,
                          .input_bytes = kWeights.input_bytes,
                          .stage_bytes = kStage.bytes,
                          .gated = kGated};

/// The feeding thread's whole work.
__device__ __forceinline__ void feed_block(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                           std::uint32_t ring) {
  feed(p, schedule, s, ring, [&](const Unit& unit, int turn, int slot) {
    arrive_expecting(&s.full[slot], kArriving);
    const std::uint32_t to = ring + slot * kStage.bytes;
#pragma unroll
    for (int i = 0; i < (kGated ? 2 : 1); ++i) {
      const int which = kGated ? i : unit.weight;
      copy_box(to + kStage.weights + i * kBoxTiles * kTileBytes, &p.weight_maps[which], 0, turn * kTurnLines, unit.tile,
               &s.full[slot]);
      if constexpr (kStage.spans > 0) {
        copy_box(to + kStage.scales + i * kStage.scale_bytes, &p.scale_maps[which], 0, turn / kSpanTurns, unit.tile,
                 &s.full[slot]);
      }
    }
  });
}

__device__ __forceinline__ float gate_activation(float gate) { return EPILOGUE == 3 ? silu(gate) : gelu_tanh(gate); }

/// A warpgroup's sums to y, by way of shared memory, so that neighbouring threads write neighbouring columns.
__device__ __forceinline__ void write_outputs(const WgmmaTilesParams& p, const Unit& unit, float (&d)[kSums],
                                              char* piece) {
  const int warp = threadIdx.x / 32;  // of the block
  const int member = threadIdx.x % 128;
  const int lane = threadIdx.x % 32;
  const int group = lane / 4, quad = lane % 4;
  const MmaRowsWeight& weight = p.weights[unit.weight];
  const std::int64_t origin = std::int64_t{unit.tile} * 16;
  // Of the thread's two rows of weights.
  float bias[2] = {}, row_scale[2] = {1, 1};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    constexpr bool kHalves = kGated && !kPairs;
    const int which = kHalves ? i : kPairs ? warp % 2 : unit.weight;
    const std::int64_t row = origin + (kHalves ? warp * 8 : (kPairs ? warp / 2 : warp) * 16 + i * 8) + group;
    if (row >= weight.n) continue;
    const float* from = p.weights[which].bias;
    if (from != nullptr && unit.slice == 0) bias[i] = from[row];
    if constexpr (kRowScales) {
      constexpr Coding kE4m3 = quant::FP8_E4M3::kCoding;
      const auto* codes = static_cast<const char*>(p.weights[which].data);
      const std::int64_t at = mma_codes_scales_offset(kE4m3, weight.n, p.k) + entry_offset(kE4m3, p.k, row, 0);
      row_scale[i] = *reinterpret_cast<const float*>(codes + at);
    }
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    if constexpr (kRowScales) d[i] *= row_scale[i % 4 / 2];
  }
  const auto sums = [&](int tile) {  // of 8 rows of x: rows of weights × the thread's two rows of x, with bias
    const float* from = d + tile * 4;
    float scale[2] = {1, 1};
    if constexpr (kHalf) scale[0] = scale[1] = p.output_factor;
    if constexpr (Source::kSumFactor != 1) scale[0] *= Source::kSumFactor, scale[1] *= Source::kSumFactor;
    if constexpr (kFp8) {
      const std::int64_t token = std::int64_t{unit.token} + tile * 8 + quad * 2;
      if (token < p.m) scale[0] = p.input_scales[token];
      if (token + 1 < p.m) scale[1] = p.input_scales[token + 1];
    }
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      y[i] = kScaledSums ? fmaf(from[i], scale[i % 2], bias[i / 2]) : from[i] + bias[i / 2];
    }
    return float4{y[0], y[1], y[2], y[3]};
  };
  // Which 16 bytes of a row of y this thread writes.
  constexpr int kChunk = 16 / kElementBytes;
  constexpr int kChunks = kRun / kChunk;  // of a row: 8, 4 or 16
  constexpr int kRowsAtOnce = 128 / kChunks;
  const int column = member % kChunks * kChunk;  // within the run
  const std::int64_t n = origin + warp / 4 * kRun + column;
  const bool whole = n + kChunk <= weight.n && weight.output_stride % kChunk == 0 &&
                     reinterpret_cast<std::uint64_t>(weight.output) % 16 == 0 &&
                     (EPILOGUE != 1 || p.split_stride % kChunk == 0);
  // What a residual unit adds to, a piece ahead where there are registers for it.
  constexpr int kFetched = kRaise ? 2 : 1;
  constexpr int kRowsOfThread = (kPieceTokens + kRowsAtOnce - 1) / kRowsAtOnce;
  float4 before[kFetched][kRowsOfThread];
  const auto fetch = [&](int first) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const int row = i * kRowsAtOnce + member / kChunks;
      const std::int64_t token = std::int64_t{unit.token} + first + row;
      if (!whole || row >= kPieceTokens || token >= p.m) continue;
      const float* from = static_cast<const float*>(weight.output) + token * weight.output_stride + n;
      before[first / kPieceTokens % kFetched][i] = *reinterpret_cast<const float4*>(from);
    }
  };
  if constexpr (EPILOGUE == 2 && kFetched > 1) fetch(0);
#pragma unroll
  for (int first = 0; first < BLOCK_TOKENS; first += kPieceTokens) {
    if (unit.token + first >= p.m) break;
    constexpr int kLater = (kFetched - 1) * kPieceTokens;
    if (EPILOGUE == 2 && first + kLater < BLOCK_TOKENS) fetch(first + kLater);
    __syncwarp();
    sync_threads(1 + warp / 4, 128);  // the piece before has left
    if constexpr (kFloat || kPairs) {
      // Of pairs all columns of gate, then all of up.
      const int place = (kPairs ? warp % 2 * 32 + warp % 4 / 2 * 16 : warp % 4 * 16) + group;
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; ++t) {
        const float4 y = sums(first / 8 + t);
        float* row = reinterpret_cast<float*>(piece + (t * 8 + quad * 2) * kPieceStride) + place;
        row[0] = y.x, row[8] = y.z;
        row += kPieceStride / 4;
        row[0] = y.y, row[8] = y.w;
      }
    } else if constexpr (kGated) {
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; t += 2) {
        // Two registers of 8 columns of y × 8 rows: as a pair of tiles, of which stmatrix takes four or two.
        std::uint32_t tile[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float4 y = sums(first / 8 + t + i);
          tile[i] = pack_bf16(gate_activation(y.x) * y.z, gate_activation(y.y) * y.w);
        }
        char* row = piece + (t * 8 + lane % 16) * kPieceStride + warp % 4 * 16;
        store_matrix_x2_transposed(row, tile[0], tile[1]);
      }
    } else {
#pragma unroll
      for (int t = 0; t < kPieceTokens / 8; t += 2) {
        std::uint32_t tile[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {  // upper and lower 8 columns of y, of two times 8 rows
          const float4 y = sums(first / 8 + t + i);
          tile[2 * i] = pack_bf16(y.x, y.y);
          tile[2 * i + 1] = pack_bf16(y.z, y.w);
        }
        char* row = piece + ((t + lane / 16) * 8 + lane % 8) * kPieceStride + warp % 4 * 32 + lane / 8 % 2 * 16;
        store_matrix_x4_transposed(row, tile);
      }
    }
    sync_threads(1 + warp / 4, 128);
    if (n >= weight.n) continue;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const int row = i * kRowsAtOnce + member / kChunks;
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
            y = before[first / kPieceTokens % kFetched][i];
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
        Vec16 v;
        if constexpr (kPairs) {
          const float* gate = reinterpret_cast<const float*>(piece + row * kPieceStride) + column;
#pragma unroll
          for (int e = 0; e < 4; e += 2) {
            const float4 g = *reinterpret_cast<const float4*>(gate + 2 * e);
            const float4 up = *reinterpret_cast<const float4*>(gate + 32 + 2 * e);
            v.word[e] = pack_bf16(gate_activation(g.x) * up.x, gate_activation(g.y) * up.y);
            v.word[e + 1] = pack_bf16(gate_activation(g.z) * up.z, gate_activation(g.w) * up.w);
          }
        } else {
          v = load_vec16(from);
        }
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
__device__ __forceinline__ void consume(const WgmmaTilesParams& p, const Schedule<kUnit>& schedule, RingBarriers& s,
                                        char* ring, char* pieces, int warp) {
  const int lane = threadIdx.x % 32;
  const Source source(ring, warp, lane);
  const std::uint64_t input = operand(shared_address(ring), 16);
  const std::uint32_t full = kept(shared_address(s.full)), empty = kept(shared_address(s.empty));
  float d[kSums];
  Cursor at{0, 0};
  int before = -1;  // the slot whose products may still run
  const auto leave = [&](int slot) { leave_slot<kUnit>(empty + slot * sizeof(Barrier)); };
  for (int index = cluster_index<kUnit>(); index < schedule.units; index += num_clusters<kUnit>()) {
    const Unit unit = schedule.unit(p, index);
#if WEIGHTS == 2 && BLOCK_TOKENS <= 64
    // Codes are loaded a turn ahead, and weights made in one set of registers while products read the other.
    constexpr int kAtOnce = Source::kSteps / 2;  // steps of 16 columns whose products start together
    Source::Raw raw, next;
    std::uint32_t even[kAtOnce][4], odd[kAtOnce][4];
    int stage = 0;
    // Where scales wait, turns that share one have sums of their own.
    constexpr bool kLate = Source::kLateTurns > 0;
    constexpr int kPartTurns = kLate ? Source::kLateTurns : 1;
    float part[kLate ? kSums : 1], factor[2];
    float* const sums = kLate ? part : d;
    const auto add_part = [&] {
      wait_products<0>();
      hold(part);
#pragma unroll
      for (int i = 0; i < (kLate ? kSums : 0); ++i) d[i] = fmaf(part[i], factor[i % 4 / 2], d[i]);
    };
#pragma unroll
    for (int i = 0; i < (kLate ? kSums : 0); ++i) d[i] = 0;
    const auto fetch = [&](const Cursor& from, int turn) {  // `turn` counts from the stage's first, into the next one
      if (turn % STAGE_TURNS == 0) wait_barrier(full + from.slot * sizeof(Barrier), from.parity);
      source.load_raw(next, from.slot * kStage.bytes, turn % STAGE_TURNS, unit.begin + stage * STAGE_TURNS + turn,
                      turn % STAGE_TURNS > 0);
    };
    const auto enter = [&](int turn) {
      raw = next;
      if (turn + 1 < STAGE_TURNS) {
        fetch(at, turn + 1);
      } else if (stage + 1 < unit.stages) {
        Cursor after = at;
        after.advance(p.stages);
        fetch(after, turn + 1);
      }
    };
    const auto multiply = [&](std::uint32_t(&a)[kAtOnce][4], int turn, int first) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) Source::make(a[j], raw, first + j);
      const bool begins = kLate && turn % kPartTurns == 0 && first == 0;
      if (begins) {
        if (stage + turn > 0) add_part();
        Source::late(factor, raw);
      }
      begin_products();
      const std::uint64_t b = input + at.slot * kStage.bytes / 16 + turn * (kBoxBytes / 16) + first * 2;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        multiply_add<BLOCK_TOKENS>(sums, a[j], b + j * 2, (kLate ? !begins : stage + turn + first > 0) || j > 0);
      }
      commit_products();
      wait_products<1>();
    };
    if (unit.stages > 0) fetch(at, 0);
    for (; stage < unit.stages; ++stage) {
#pragma unroll
      for (int turn = 0; turn < STAGE_TURNS; ++turn) {
        enter(turn);
        multiply(even, turn, 0);
        if (turn == 0 && before >= 0) leave(before);
        multiply(odd, turn, kAtOnce);
      }
      before = at.slot;
      at.advance(p.stages);
    }
    if (kLate && unit.stages > 0) add_part();
    wait_products<0>();
    hold(d);
    if (before >= 0) leave(before);
#else
    const auto load = [&](Source::Turn(&a)[STAGE_TURNS], int stage) {
      wait_barrier(full + at.slot * sizeof(Barrier), at.parity);
#pragma unroll
      for (int i = 0; i < STAGE_TURNS; ++i) {
        source.load(a[i], at.slot * kStage.bytes, i, unit.begin + stage * STAGE_TURNS + i);
      }
    };
    const auto multiply = [&](float* sums, const Source::Turn(&a)[STAGE_TURNS], bool add) {
      begin_products();
      const std::uint64_t b = input + at.slot * kStage.bytes / 16;
#pragma unroll
      for (int i = 0; i < STAGE_TURNS; ++i) {
#pragma unroll
        for (int j = 0; j < Source::kSteps; ++j) {
          constexpr int kBoxSteps = 4;
          const int number = i * Source::kSteps + j;
          const std::uint64_t columns = b + number / kBoxSteps * (kBoxBytes / 16) + number % kBoxSteps * 2;
          Source::multiply<BLOCK_TOKENS>(sums, a[i][j], columns, add || number > 0);
        }
      }
      commit_products();
    };
    Source::Turn even[STAGE_TURNS], odd[STAGE_TURNS];
    int stage = 0;
#if WEIGHTS == 1
    {
      float part[kSums], scales[2][2];
#pragma unroll
      for (int i = 0; i < kSums; ++i) d[i] = 0;
      const auto fold = [&](const float(&scale)[2]) {
        wait_products<0>();
        hold(part);
        if (before < 0) return;
        leave(before);
#pragma unroll
        for (int i = 0; i < kSums; ++i) d[i] = fmaf(part[i], scale[i % 4 / 2], d[i]);
      };
      const auto step = [&](Source::Turn(&a)[STAGE_TURNS], int number, float(&scale)[2], const float(&last)[2]) {
        load(a, number);
        source.load_scales(scale, at.slot * kStage.bytes);
        fold(last);
        multiply(part, a, false);
        before = at.slot;
        at.advance(p.stages);
      };
      for (; stage + 1 < unit.stages; stage += 2) {
        step(even, stage, scales[0], scales[1]);
        step(odd, stage + 1, scales[1], scales[0]);
      }
      if (stage < unit.stages) {
        step(even, stage, scales[0], scales[1]);
        fold(scales[0]);
      } else {
        fold(scales[1]);
      }
    }
#else
    {
      const auto step = [&](Source::Turn(&a)[STAGE_TURNS], int number) {
        load(a, number);
        multiply(d, a, number > 0);
        wait_products<1>();
        if (before >= 0) leave(before);
        before = at.slot;
        at.advance(p.stages);
      };
      for (; stage + 1 < unit.stages; stage += 2) {
        step(even, stage);
        step(odd, stage + 1);
      }
      if (stage < unit.stages) step(even, stage);
      wait_products<0>();
      hold(d);
      if (before >= 0) leave(before);
    }
#endif
#endif
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
  __shared__ RingBarriers s;
  const std::uint32_t padding = (1024 - shared_address(shared) % 1024) % 1024;
  char* const ring = shared + padding;
  if (threadIdx.x == 0) init_ring<kUnit>(s, p.stages, kWarps);
  release_consumers();
  sync_cluster<CLUSTER>();
  const Schedule<kUnit> schedule(p);
  // From this the compiler sees that it is the same for all lanes, and makes descriptors in uniform registers.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0);
  if (warp >= kWarps) {
    if constexpr (kRaise) drop_registers<40>();
    if (threadIdx.x == kWarps * 32) feed_block(p, schedule, s, shared_address(ring));
    __syncwarp();
    wait_for_producers();
  } else {
    if constexpr (kRaise) raise_registers<232>();
    wait_for_producers();
    consume(p, schedule, s, ring, ring + p.stages * kStage.bytes, warp);
  }
  if constexpr (CLUSTER > 1) sync_cluster<CLUSTER>();  // others of the cluster may still write here
}
