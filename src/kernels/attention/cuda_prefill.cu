// Attention of a chunk's tokens over pages, the chunk's own keys among them, on any tensor cores (mma.sync).
// A block's tile is WARPS · ROW_TILES · 16 query vectors: neighbouring tokens × the heads of one group, so that a tile
// of KEYS keys and values serves the whole group. Keys and values of the next tile are copied while this one is worked
// on; scores, weights and outputs stay in registers, with a running maximum and sum a row. Rows of shared memory are 16
// bytes longer than their data, so that eight neighbouring rows lie in different banks. Keys and values in e4m3 are
// widened to bf16, exactly, each piece by the thread that copied it.
//
// Constants: HEAD_DIM_K, HEAD_DIM_V (multiples of 16), GROUP, ELEMENT (0 bf16, 1 e4m3), WARPS, ROW_TILES, KEYS, SOFTCAP
// (0, 1), BLOCKS (of a multiprocessor). H200, 2026-11-30, 32/8 heads × 128, causal, 4,096 tokens: 304 TFLOP/s with
// WARPS, ROW_TILES, KEYS, BLOCKS 4, 2, 64, 2, and 314 with 8, 2, 64, 1; chunks of few tokens prefer 8, 1, 64, 1.
#include "kernels/attention/cuda_prefill.h"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/vector.cuh"

namespace pagoda::kernels {

constexpr int kThreads = WARPS * 32;
constexpr int kRows = WARPS * ROW_TILES * 16;
constexpr int kKeyStride = HEAD_DIM_K * 2 + 16;  // bytes
constexpr int kValueStride = HEAD_DIM_V * 2 + 16;
constexpr bool kFp8 = ELEMENT == 1;
constexpr int kKeyBytes = HEAD_DIM_K * (kFp8 ? 1 : 2);  // in a page
constexpr int kValueBytes = HEAD_DIM_V * (kFp8 ? 1 : 2);
constexpr int kKeyPieces = kKeyBytes / 16;
constexpr int kValuePieces = kValueBytes / 16;
constexpr int kStageBytes = KEYS * (kKeyStride + kValueStride);
constexpr int kKeyTiles = KEYS / 8;
constexpr int kDimTiles = HEAD_DIM_V / 8;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kNone = __builtin_bit_cast(float, 0xff800000u);  // -∞

/// Sixteen e4m3 as bf16.
__device__ __forceinline__ void store_widened(char* to, Vec16 v) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Vec16 wide;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t pair = f16_of_e4m3(v.word[half * 2 + i / 2] >> (i % 2 * 16));
      wide.word[i] =
          pack_bf16(from_f16(static_cast<std::uint16_t>(pair)), from_f16(static_cast<std::uint16_t>(pair >> 16)));
    }
    store_vec16(to + half * 16, wide);
  }
}

/// The block's tile and where its keys lie.
struct Tile {
  const PrefillParams& p;
  const PrefillItem& item;
  const char* head;           // of the first page
  const std::int32_t* table;  // of the row
  int begin, end;             // keys that any token of the tile sees
  int (*pages)[KEYS / 8];     // page ids of a tile of keys, by its number's last two bits

  /// Of a token, counted from the item's first.
  __device__ __forceinline__ int last_key(int token) const {
    return p.last_keys != nullptr ? p.last_keys[item.token + token] : item.position + token;
  }

  __device__ __forceinline__ void fetch_pages(int tile) const {
    const int block = (tile * KEYS >> p.block_shift) + threadIdx.x;
    if (block > (tile * KEYS + KEYS - 1) >> p.block_shift || block > (end - 1) >> p.block_shift) return;
    copy_async4(&pages[tile % 4][threadIdx.x], table + block);
  }

  /// use(row of a tile, piece of 16 bytes) for this thread's share of a tile's pieces.
  template <int kPieces, class Use>
  static __device__ __forceinline__ void for_each_piece(Use use) {
#pragma unroll
    for (int i = 0; i < KEYS * kPieces; i += kThreads) {
      const int index = i + threadIdx.x, row = index / kPieces;
      if (KEYS * kPieces % kThreads == 0 || row < KEYS) use(row, index % kPieces);
    }
  }

  /// Where a key's page and slot are; null if no token sees it.
  struct Place {
    const char* page;
    int slot, bytes;  // 16, or 0 to read nothing
  };
  __device__ __forceinline__ Place place(int tile, int row) const {
    const int key = tile * KEYS + row;
    const bool seen = key >= begin && key < end;
    const int page = seen ? pages[tile % 4][(key >> p.block_shift) - (tile * KEYS >> p.block_shift)] : 0;
    return {head + page * p.block_stride, key & ((1 << p.block_shift) - 1), seen ? 16 : 0};
  }

  /// Starts the copies of a tile's keys and values, with so many bytes from row to row: zeros for keys that no token
  /// sees, whatever their slots hold.
  __device__ __forceinline__ void fetch(int tile, char* keys, int key_stride, char* values, int value_stride) const {
    const std::int64_t offset = static_cast<std::int64_t>(kKeyBytes) << p.block_shift;
    const auto copy_key = [&](int row, int piece, Place from) {
      copy_async16(keys + row * key_stride + piece * 16, from.page + from.slot * kKeyBytes + piece * 16, from.bytes);
    };
    const auto copy_value = [&](int row, int piece, Place from) {
      copy_async16(values + row * value_stride + piece * 16, from.page + offset + from.slot * kValueBytes + piece * 16,
                   from.bytes);
    };
    if constexpr (HEAD_DIM_K == HEAD_DIM_V) {
      for_each_piece<kKeyPieces>([&](int row, int piece) {
        const Place from = place(tile, row);
        copy_key(row, piece, from);
        copy_value(row, piece, from);
      });
    } else {
      for_each_piece<kKeyPieces>([&](int row, int piece) { copy_key(row, piece, place(tile, row)); });
      for_each_piece<kValuePieces>([&](int row, int piece) { copy_value(row, piece, place(tile, row)); });
    }
  }
  /// To the place that the products read, or to `raw` if they have to be widened first.
  __device__ __forceinline__ void fetch(int tile, char* stage, char* raw) const {
    if constexpr (kFp8) {
      fetch(tile, raw, kKeyBytes, raw + KEYS * kKeyBytes, kValueBytes);
    } else {
      fetch(tile, stage, kKeyStride, stage + KEYS * kKeyStride, kValueStride);
    }
  }

  /// The pieces that this thread has copied to `raw`, as bf16 to `stage`.
  static __device__ __forceinline__ void widen(const char* raw, char* stage) {
    for_each_piece<kKeyPieces>([&](int row, int piece) {
      store_widened(stage + row * kKeyStride + piece * 32, load_vec16(raw + row * kKeyBytes + piece * 16));
    });
    for_each_piece<kValuePieces>([&](int row, int piece) {
      store_widened(stage + KEYS * kKeyStride + row * kValueStride + piece * 32,
                    load_vec16(raw + KEYS * kKeyBytes + row * kValueBytes + piece * 16));
    });
  }

  __device__ __forceinline__ void fetch_queries(char* to) const {
    constexpr int kPieces = HEAD_DIM_K / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      const bool used = row / GROUP < item.count;
      const char* from = static_cast<const char*>(p.query) +
                         (item.token + (used ? row / GROUP : 0)) * p.query_stride * 2 +
                         static_cast<std::int64_t>(blockIdx.x * GROUP + row % GROUP) * (HEAD_DIM_K * 2) + piece * 16;
      copy_async16(to + row * kKeyStride + piece * 16, from, used ? 16 : 0);
    }
  }
};

/// A warp's 16 · ROW_TILES rows: lane (g, t) has rows g and g + 8 of each tile of 16, at columns 2t, 2t + 1 of 8.
struct Running {
  float maximum[ROW_TILES][2];  // in units of log 2
  float sum[ROW_TILES][2];      // this lane's keys only
  float out[ROW_TILES][kDimTiles][4];
};
using Scores = float[ROW_TILES][kKeyTiles][4];

__device__ __forceinline__ void score(Scores& s, const char* queries, const char* keys) {
  const int lane = threadIdx.x % 32;
  const char* q = queries + lane % 16 * kKeyStride + lane / 16 * 16;
  const char* k = keys + (lane / 16 * 8 + lane % 8) * kKeyStride + lane / 8 % 2 * 16;
#pragma unroll
  for (int dim = 0; dim < HEAD_DIM_K; dim += 16) {
    std::uint32_t a[ROW_TILES][4];
#pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) load_matrix_x4(a[r], q + r * 16 * kKeyStride + dim * 2);
#pragma unroll
    for (int n = 0; n < kKeyTiles; n += 2) {
      std::uint32_t b[4];
      load_matrix_x4(b, k + n * 8 * kKeyStride + dim * 2);
#pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) {
        mma_bf16(s[r][n], a[r], {b[0], b[1]});
        mma_bf16(s[r][n + 1], a[r], {b[2], b[3]});
      }
    }
  }
}

/// Hides the keys that a row does not see.
__device__ __forceinline__ void mask(Scores& s, const Tile& tile, int key) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (threadIdx.x / 32 * ROW_TILES + r) * 16 + half * 8 + g;
      const int token = min(row / GROUP, tile.item.count - 1);
      const int last = tile.last_key(token) - key;
      const int first = tile.p.window > 0 ? tile.item.position + token - tile.p.window + 1 - key : -key;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int at = n * 8 + t * 2 + i;
          if (at > last || at < first) s[r][n][half * 2 + i] = kNone;
        }
      }
    }
  }
}

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/// Scores become weights; `factor` brings scores to units of log 2. The base of a row's weights is raised only when
/// they would grow beyond 2^8: the quotient in the end is the same, and outputs are seldom scaled.
__device__ __forceinline__ void weigh(Scores& s, Running& state, float factor) {
  float shrink[ROW_TILES][2];
  bool raised = false;
#pragma unroll
  for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = kNone;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) largest = fmaxf(largest, fmaxf(s[r][n][half * 2], s[r][n][half * 2 + 1]));
      largest = quad_max(largest) * factor;
      float& maximum = state.maximum[r][half];
      const float before = maximum;
      if (largest > maximum + 8.0f) maximum = largest;
      const float base = maximum == kNone ? 0.0f : maximum;
      shrink[r][half] = exp2_fast(before - base);
      raised |= maximum != before;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[r][n][half * 2 + i];
          x = exp2_fast(fmaf(x, factor, -base));
          sum += x;
        }
      }
      state.sum[r][half] = fmaf(state.sum[r][half], shrink[r][half], sum);
    }
  }
  if (!__any_sync(0xffffffffu, raised)) return;
#pragma unroll
  for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.out[r][d][i] *= shrink[r][i / 2];
    }
  }
}

__device__ __forceinline__ void add_values(Running& state, const Scores& s, const char* values) {
  const int lane = threadIdx.x % 32;
  const char* v = values + lane % 16 * kValueStride + lane / 16 * 16;
#pragma unroll
  for (int k = 0; k < kKeyTiles; k += 2) {
    std::uint32_t a[ROW_TILES][4];
#pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[r][i] = pack_bf16(s[r][k + i / 2][i % 2 * 2], s[r][k + i / 2][i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int d = 0; d < kDimTiles; d += 2) {
      std::uint32_t b[4];
      load_matrix_x4_transposed(b, v + k * 8 * kValueStride + d * 16);
#pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) {
        mma_bf16(state.out[r][d], a[r], {b[0], b[1]});
        mma_bf16(state.out[r][d + 1], a[r], {b[2], b[3]});
      }
    }
  }
}

__device__ __forceinline__ void finish(const Running& state, const Tile& tile) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const PrefillParams& p = tile.p;
#pragma unroll
  for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (threadIdx.x / 32 * ROW_TILES + r) * 16 + half * 8 + g;
      float sum = quad_sum(state.sum[r][half]), factor = 1;
      if (row / GROUP >= tile.item.count) continue;
      const int head = blockIdx.x * GROUP + row % GROUP;
      if (p.sinks != nullptr) {
        const float sink = p.sinks[head] * kLog2e;
        const float maximum = fmaxf(sink, state.maximum[r][half]);
        factor = exp2_fast(state.maximum[r][half] - maximum);
        sum = fmaf(sum, factor, exp2_fast(sink - maximum));
      }
      factor *= p.value_scale / sum;
      auto* out = static_cast<std::uint16_t*>(p.output) + (tile.item.token + row / GROUP) * p.output_stride +
                  head * HEAD_DIM_V + t * 2;
#pragma unroll
      for (int d = 0; d < kDimTiles; ++d) {
        const float a = state.out[r][d][half * 2], b = state.out[r][d][half * 2 + 1];
        *reinterpret_cast<std::uint32_t*>(out + d * 8) = pack_bf16(a * factor, b * factor);
      }
    }
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS) prefill(const __grid_constant__ PrefillParams p) {
  extern __shared__ __align__(128) char shared[];  // queries, then stages of keys and values: two, or one and raw bytes
  __shared__ int pages[4][KEYS / 8];
  wait_for_producers();
  release_consumers();
  const PrefillItem item = p.items[blockIdx.y];
  const std::int64_t head_bytes = static_cast<std::int64_t>(kKeyBytes + kValueBytes) << p.block_shift;
  const int first = p.window > 0 ? max(item.position - p.window + 1, 0) : 0;
  Tile tile{p,
            item,
            static_cast<const char*>(p.pages) + blockIdx.x * head_bytes,
            p.block_tables + item.row * p.max_blocks,
            first,
            0,
            pages};
  tile.end = tile.last_key(item.count - 1) + 1;
  char* const stages = shared + kRows * kKeyStride;
  char* const raw = stages + kStageBytes;  // if kFp8
  int now = tile.begin / KEYS;
  const int last = (tile.end - 1) / KEYS;
  tile.fetch_pages(now);
  tile.fetch_queries(shared);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  tile.fetch_pages(now + 1);
  tile.fetch(now, stages, raw);
  commit_copies();

  Running state = {};
#pragma unroll
  for (int i = 0; i < ROW_TILES * 2; ++i) (&state.maximum[0][0])[i] = kNone;
  const char* queries = shared + threadIdx.x / 32 * (ROW_TILES * 16 * kKeyStride);
  const float factor = SOFTCAP ? kLog2e : p.scale * kLog2e;
  for (int stage = 0; now <= last; ++now, stage ^= 1) {
    // After the barrier this tile has arrived for all warps and none still reads the one before it.
    wait_copies<0>();
    __syncthreads();
    char* const keys = stages + (kFp8 ? 0 : stage * kStageBytes);
    if constexpr (kFp8) Tile::widen(raw, keys);
    if (now < last) {
      tile.fetch_pages(now + 2);
      tile.fetch(now + 1, stages + (stage ^ 1) * kStageBytes, raw);
      commit_copies();
    }
    if constexpr (kFp8) __syncthreads();
    Scores s = {};
    score(s, queries, keys);
    if constexpr (SOFTCAP) {
#pragma unroll
      for (int i = 0; i < ROW_TILES * kKeyTiles * 4; ++i) {
        float& x = (&s[0][0][0])[i];
        x = soft_cap(x * p.scale, p.softcap);
      }
    }
    const int key = now * KEYS;
    const bool late = key + KEYS - 1 > item.position;
    const bool early = p.window > 0 && key <= item.position + item.count - 1 - p.window;
    if (late || early) mask(s, tile, key);
    weigh(s, state, factor);
    add_values(state, s, keys + KEYS * kKeyStride);
  }
  finish(state, tile);
}
