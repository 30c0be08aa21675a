// Decode attention over pages: the rows' few tokens against their keys, each key and value read once for its group.
// Scores are S = K·Q' with 16 keys as the rows of m16n8k16 and the group's heads as its 8 columns; O' = V'·P' likewise.
// A warp takes tiles of 16 keys in turn, copied STAGES tiles ahead into its own part of shared memory, 512 neighbouring
// bytes a copy, so the loop needs no barrier of the block. The order of dims and keys inside a product is permuted so
// that 16-byte pieces are fragments: lane (g, t) reads keys g, g + 8 at dims 8t …, and values 2t, 2t + 1, 2t + 8, 2t +
// 9 at dims 8g … (16 dims for 8 if they are e4m3, widened to binary16); pieces of a row are swapped to spread over
// banks. Blocks take (partition, kv head) in turn; copies run on into the next piece of work while one's results are
// put together. A row's last arriver merges its partitions in key order. With CLUSTER > 1 partitions are whole rows, a
// cluster of blocks takes one, and merges what its blocks came to through their shared memory. In a programmatic launch
// keys of earlier steps and the schedule are read before the wait (docs/decisions/0101).
//
// Bytes: K and V once. Constants: HEAD_DIM_K, HEAD_DIM_V (multiples of 16), GROUP, TOKENS (most of a row), ELEMENT
// (0 bf16, 1 e4m3), WARPS, STAGES, BLOCKS (of a multiprocessor), CLUSTER (1 or 8 blocks). H200, 2026-11-30, 32/8 heads
// × 128: 4.38 TB/s at batch 64 and 8,192 keys; batch 1 and 2,048 keys 7.0 µs, as a cluster for each kv head 5.3 µs; of
// WARPS, STAGES, BLOCKS 8, 3, 1 and 4, 2, 2 are the best.
#include "kernels/attention/cuda_decode.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/vector.cuh"

namespace pagoda::kernels {

constexpr bool kFp8 = ELEMENT == 1;
constexpr int kElementBytes = kFp8 ? 1 : 2;
constexpr int kPiece = 16 / kElementBytes;  // elements of 16 bytes
constexpr int kKeyChunks = (HEAD_DIM_K + 4 * kPiece - 1) / (4 * kPiece);
constexpr int kValueGroups = (HEAD_DIM_V + 8 * kPiece - 1) / (8 * kPiece);
constexpr int kKeyPieces = HEAD_DIM_K / kPiece;  // of a key
constexpr int kValuePieces = HEAD_DIM_V / kPiece;
constexpr int kKeyRow = (kKeyPieces + 7) / 8 * 128;  // bytes in shared memory
constexpr int kValueRow = (kValuePieces + 7) / 8 * 128;
constexpr int kTileBytes = 16 * (kKeyRow + kValueRow);
constexpr int kWords = kPiece / 2;  // pairs of 16-bit elements in a piece
constexpr int kThreads = WARPS * 32;
constexpr int kTeamWarps = CLUSTER * WARPS;
constexpr int kColumns = GROUP * TOKENS;  // query vectors of one kv head
constexpr int kColumnTiles = (kColumns + 7) / 8;
constexpr int kRingBytes = STAGES * kTileBytes;  // of a warp
constexpr int kOutBytes = kColumnTiles * 8 * HEAD_DIM_V * 4;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kNone = __builtin_bit_cast(float, 0xff800000u);  // -∞

struct Words {
  std::uint32_t word[kWords];
};

/// A lane's piece of a key as pairs of 16-bit elements.
__device__ __forceinline__ Words widen(Vec16 v) {
  Words w;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kFp8) {
      w.word[2 * i] = f16_of_e4m3(v.word[i]);
      w.word[2 * i + 1] = f16_of_e4m3(v.word[i] >> 16);
    } else {
      w.word[i] = v.word[i];
    }
  }
  return w;
}

__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  if constexpr (kFp8) {
    mma_f16(c, a, b);
  } else {
    mma_bf16(c, a, b);
  }
}

/// Product `w` of a group of values: dims 2w and 2w + 1 of the lane's pieces of four keys.
__device__ __forceinline__ void value_fragment(std::uint32_t (&a)[4], const Vec16 (&v)[4], int w) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const Vec16 &first = v[2 * pair], &second = v[2 * pair + 1];
    if constexpr (kFp8) {
      const std::uint32_t bytes = __byte_perm(first.word[w / 2], second.word[w / 2], w % 2 == 0 ? 0x5140 : 0x7362);
      a[2 * pair] = f16_of_e4m3(bytes);
      a[2 * pair + 1] = f16_of_e4m3(bytes >> 16);
    } else {
      a[2 * pair] = __byte_perm(first.word[w], second.word[w], 0x5410);
      a[2 * pair + 1] = __byte_perm(first.word[w], second.word[w], 0x7632);
    }
  }
}

/// The maximum over the keys of a tile: lanes of equal t.
__device__ __forceinline__ float key_max(float value) {
#pragma unroll
  for (int offset = 4; offset < 32; offset <<= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}
__device__ __forceinline__ float key_sum(float value) {
#pragma unroll
  for (int offset = 4; offset < 32; offset <<= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

/// A team takes a piece of work: the blocks of a cluster, or one block alone.
__device__ __forceinline__ int team() { return static_cast<int>(blockIdx.x) / CLUSTER; }
__device__ __forceinline__ int teams() { return static_cast<int>(gridDim.x) / CLUSTER; }
__device__ __forceinline__ int rank_in_team() { return static_cast<int>(blockIdx.x) % CLUSTER; }

/// The piece of work that this team takes in its `wave`-th turn, of those in the order of their size: turns go to and
/// fro, so that who had the longest piece has the shortest next.
__device__ __forceinline__ int work_of(int wave) {
  return wave * teams() + (wave % 2 == 0 ? team() : teams() - 1 - team());
}

/// This warp's tiles of a piece of work's keys: one in kTeamWarps, `count` of them from tile `first` of 16 keys.
struct Turns {
  int first, count;

  __device__ __forceinline__ Turns(int begin, int end)
      : first(begin / 16 + rank_in_team() * WARPS + static_cast<int>(threadIdx.x / 32)),
        count(((end + 15) / 16 - first + kTeamWarps - 1) / kTeamWarps) {}
  __device__ __forceinline__ int key(int turn) const { return (first + turn * kTeamWarps) * 16; }
};

/// The stream of one warp's copies: tile after tile of one piece of work after another.
struct TileStream {
  struct Keys {
    int row, begin, end;
    int start;  // from here on keys are new in this step
  };

  const DecodeParams& p;
  char* const ring;  // this warp's
  const int works;
  int wave = -1;
  int work = 0;  // at hand
  Keys keys{}, upcoming{};
  Turns turns{0, 0};
  int turn = 0;
  const char* head = nullptr;         // of page 0
  int page_low = -1, page_high = -1;  // lane i: of turn i of 32

  __device__ __forceinline__ TileStream(const DecodeParams& params, char* warp_ring, int num_works)
      : p(params), ring(warp_ring), works(num_works) {
    look_ahead();
    next_work();
  }

  __device__ __forceinline__ void look_ahead() {
    const int next = work_of(wave + 1);
    if (next >= works) return;
    const DecodeItem& item = p.items[next / p.kv_heads];
    upcoming = {item.row, item.begin, item.end, item.start};
  }

  /// The next piece of work in which this warp has tiles.
  __device__ __forceinline__ void next_work() {
    do {
      work = work_of(++wave);
      if (work >= works) return;
      keys = upcoming;
      look_ahead();
      turns = Turns(keys.begin, keys.end);
    } while (turns.count <= 0);
    const int head_bytes = (HEAD_DIM_K + HEAD_DIM_V) * kElementBytes;
    head = static_cast<const char*>(p.pages) +
           (static_cast<std::int64_t>(work % p.kv_heads * head_bytes) << p.block_shift);
    turn = 0;
    fetch_pages();
  }

  /// Page ids of the turns [turn, turn + 32).
  __device__ __forceinline__ void fetch_pages() {
    const std::int32_t* table = p.block_tables + static_cast<std::int64_t>(keys.row) * p.max_blocks;
    const int key = turns.key(turn + static_cast<int>(threadIdx.x % 32));
    page_low = page_high = -1;
    if (key >= keys.end) return;
    page_low = table[key >> p.block_shift];
    page_high = page_low;
    if (p.block_shift == 3) page_high = key + 8 < keys.end ? table[(key + 8) >> 3] : -1;
  }

  /// Starts the copies of one tile's keys or values: rows 0 … 7 from `low`, the others 8 rows on from `high`. Rows that
  /// are not seen become zeros, whatever their slots hold.
  template <int kRowPieces, int kRow, bool kIsKey>
  __device__ __forceinline__ void fetch_rows(char* to, const char* low, const char* high, int key) const {
#pragma unroll
    for (int i = 0; i < kRowPieces * 16; i += 32) {
      const int index = i + threadIdx.x % 32, row = index / kRowPieces, piece = index % kRowPieces;
      if (kRowPieces * 16 % 32 != 0 && row >= 16) continue;
      const bool seen = key + row >= keys.begin && key + row < keys.end;
      const int place = kIsKey ? piece ^ (row % 2 * 4) : piece ^ (row / 2 % 4 * 2);
      copy_async16(to + row * kRow + place * 16, (row < 8 ? low : high) + index * 16, seen ? 16 : 0);
    }
  }

  /// Whether all of the next tile was written in earlier steps.
  __device__ __forceinline__ bool next_is_old() const { return work < works && turns.key(turn) + 16 <= keys.start; }

  /// Starts the copies of the next tile into a stage, and closes a group of copies, be it empty.
  __device__ __forceinline__ void fetch(int stage) {
    if (work < works) {
      const int key = turns.key(turn);
      const int low = max(__shfl_sync(0xffffffffu, page_low, turn % 32), 0);
      const int high = max(__shfl_sync(0xffffffffu, page_high, turn % 32), 0);
      const int mask = (1 << p.block_shift) - 1;
      const int slot_low = key & mask, slot_high = ((key + 8) & mask) - 8;
      const char *from_low = head + low * p.block_stride, *from_high = head + high * p.block_stride;
      char* to = ring + stage * kTileBytes;
      constexpr int kKeyBytes = HEAD_DIM_K * kElementBytes, kValueBytes = HEAD_DIM_V * kElementBytes;
      fetch_rows<kKeyPieces, kKeyRow, true>(to, from_low + slot_low * kKeyBytes, from_high + slot_high * kKeyBytes,
                                            key);
      const std::int64_t values = static_cast<std::int64_t>(kKeyBytes) << p.block_shift;
      fetch_rows<kValuePieces, kValueRow, false>(to + 16 * kKeyRow, from_low + values + slot_low * kValueBytes,
                                                 from_high + values + slot_high * kValueBytes, key);
      if (++turn == turns.count) {
        next_work();
      } else if (turn % 32 == 0) {
        fetch_pages();
      }
    }
    commit_copies();
  }
};

/// The state of a warp's columns: lane (g, t) has columns 2t and 2t + 1 of each tile of 8.
struct Running {
  float maximum[kColumnTiles][2];
  float sum[kColumnTiles][2];  // this lane's keys only
  float out[kColumnTiles][kValueGroups][kWords][4];
};

/// The query vectors as B fragments, and the factor of each of the lane's columns of scores.
struct Queries {
  Words words[kColumnTiles][kKeyChunks];
  float factor[kColumnTiles][2];
};

/// e4m3 keys meet queries in binary16: each vector is scaled by a power of two so that none overflows.
__device__ __forceinline__ float to_halves(Words (&words)[kKeyChunks]) {
  float largest = 0;
#pragma unroll
  for (int chunk = 0; chunk < kKeyChunks; ++chunk) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const std::uint32_t pair = words[chunk].word[i];
      largest = fmaxf(largest, fmaxf(fabsf(bf16_low(pair)), fabsf(bf16_high(pair))));
    }
  }
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  const std::uint32_t exponent = min(max(__float_as_uint(largest) >> 23, 1u), 253u);
  const float down = __uint_as_float((254u - exponent) << 23);
#pragma unroll
  for (int chunk = 0; chunk < kKeyChunks; ++chunk) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const std::uint32_t pair = words[chunk].word[i];
      words[chunk].word[i] = pack_f16(bf16_low(pair) * down, bf16_high(pair) * down);
    }
  }
  return __uint_as_float(exponent << 23);
}

__device__ __forceinline__ void load_queries(Queries& q, const DecodeParams& p, const DecodeItem& item, int kv_head) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    const int column = c * 8 + g;
    const bool used = column < kColumns && column / GROUP < item.num_tokens;
    const char* row = static_cast<const char*>(p.query) + (item.token + column / GROUP) * p.query_stride * 2 +
                      static_cast<std::int64_t>(kv_head * GROUP + column % GROUP) * (HEAD_DIM_K * 2);
#pragma unroll
    for (int chunk = 0; chunk < kKeyChunks; ++chunk) {
      const bool inside = used && chunk * 4 + t < kKeyPieces;
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        const Vec16 v = inside ? load_vec16(row + (chunk * 4 + t) * (kPiece * 2) + i * 4) : Vec16{};
#pragma unroll
        for (int j = 0; j < 4; ++j) q.words[c][chunk].word[i + j] = v.word[j];
      }
    }
    const float up = kFp8 ? to_halves(q.words[c]) : 1.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float factor = kFp8 ? __shfl_sync(0xffffffffu, up, (t * 2 + i) * 4) : 1.0f;
      q.factor[c][i] = factor * p.scale * (p.softcap > 0 ? 1.0f : kLog2e);
    }
  }
}

__device__ __forceinline__ bool sees(const DecodeParams& p, const DecodeItem& item, int column, int key) {
  if (key < item.begin || key >= item.end) return false;
  if constexpr (TOKENS == 1) return true;
  const int position = item.start + column / GROUP;
  return key <= position && (p.window == 0 || key > position - p.window);
}

/// Scores of a tile in units of log 2, masked.
__device__ __forceinline__ void score(float (&s)[kColumnTiles][4], const Queries& q, const DecodeParams& p,
                                      const DecodeItem& item, const char* ring, int key) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float part[kColumnTiles][2][4] = {};
#pragma unroll
  for (int chunk = 0; chunk < kKeyChunks; ++chunk) {
    const bool inside = chunk * 4 + t < kKeyPieces;
    const char* at = ring + g * kKeyRow + ((chunk ^ (g % 2)) * 4 + t) * 16;
    const Words low = widen(inside ? load_vec16(at) : Vec16{});
    const Words high = widen(inside ? load_vec16(at + 8 * kKeyRow) : Vec16{});
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        const Words& w = q.words[c][chunk];
        multiply(part[c][i / 2 % 2], {low.word[i], high.word[i], low.word[i + 1], high.word[i + 1]},
                 {w.word[i], w.word[i + 1]});
      }
    }
  }
  const bool inner = TOKENS == 1 && key >= item.begin && key + 16 <= item.end;
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[c][i] = (part[c][0][i] + part[c][1][i]) * q.factor[c][i % 2];
      if (p.softcap > 0) s[c][i] = soft_cap(s[c][i], p.softcap) * kLog2e;
      if (!inner && !sees(p, item, c * 8 + t * 2 + i % 2, key + i / 2 * 8 + g)) s[c][i] = kNone;
    }
  }
}

/// Adds a tile to the state.
__device__ __forceinline__ void attend(Running& r, float (&s)[kColumnTiles][4], const char* ring) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  std::uint32_t weights[kColumnTiles][2];
  bool grown = false;
  float shrink[kColumnTiles][2];
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float maximum = fmaxf(r.maximum[c][i], key_max(fmaxf(s[c][i], s[c][i + 2])));
      const float base = maximum == kNone ? 0.0f : maximum;
      shrink[c][i] = exp2_fast(r.maximum[c][i] - base);
      grown |= maximum != r.maximum[c][i];
      r.maximum[c][i] = maximum;
      s[c][i] = exp2_fast(s[c][i] - base);
      s[c][i + 2] = exp2_fast(s[c][i + 2] - base);
      r.sum[c][i] = fmaf(r.sum[c][i], shrink[c][i], s[c][i] + s[c][i + 2]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float a = s[c][half * 2], b = s[c][half * 2 + 1];
      weights[c][half] = transpose_tile(kFp8 ? pack_f16(a, b) : pack_bf16(a, b));
    }
  }
  if (__any_sync(0xffffffffu, grown)) {
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
      for (int i = 0; i < kValueGroups * kWords * 4; ++i) (&r.out[c][0][0][0])[i] *= shrink[c][i % 2];
    }
  }
#pragma unroll
  for (int group = 0; group < kValueGroups; ++group) {
    Vec16 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const char* at = ring + 16 * kKeyRow + (i / 2 * 8 + 2 * t + i % 2) * kValueRow + (group * 8 + (g ^ (2 * t))) * 16;
      v[i] = group * 8 + g < kValuePieces ? load_vec16(at) : Vec16{};
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      std::uint32_t a[4];
      value_fragment(a, v, w);
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) multiply(r.out[c][group][w], a, weights[c]);
    }
  }
}

/// This warp's state into shared memory: out (columns, HEAD_DIM_V) and (maximum, sum) by column.
__device__ __forceinline__ void put_down(const Running& r, float* out, float2* stats) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = c * 8 + t * 2 + i;
      const float sum = key_sum(r.sum[c][i]);
      if (g == 0) stats[column] = {r.maximum[c][i], sum};
#pragma unroll
      for (int group = 0; group < kValueGroups; ++group) {
        if (group * 8 + g >= kValuePieces) continue;
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          const int dim = (group * 8 + g) * kPiece + 2 * w;
          *reinterpret_cast<float2*>(out + column * HEAD_DIM_V + dim) = {r.out[c][group][w][i],
                                                                         r.out[c][group][w][i + 2]};
        }
      }
    }
  }
}

/// Several parts of a softmax as one, added in their order. `maximum` is theirs.
struct Merged {
  float maximum;
  float sum = 0;
  float4 out = {0, 0, 0, 0};

  __device__ __forceinline__ void add(float2 stats, float4 part) {
    const float factor = exp2_fast(stats.x - (maximum == kNone ? 0.0f : maximum));
    sum = fmaf(stats.y, factor, sum);
    out.x = fmaf(part.x, factor, out.x);
    out.y = fmaf(part.y, factor, out.y);
    out.z = fmaf(part.z, factor, out.z);
    out.w = fmaf(part.w, factor, out.w);
  }
};

__device__ __forceinline__ void finish(const DecodeParams& p, const DecodeItem& item, int kv_head, int column, int dim,
                                       Merged m) {
  if (column / GROUP >= item.num_tokens) return;
  const int head = kv_head * GROUP + column % GROUP;
  float up = p.value_scale;
  if (p.sinks != nullptr) {
    const float sink = p.sinks[head] * kLog2e;
    const float maximum = fmaxf(sink, m.maximum);
    const float shrink = exp2_fast(m.maximum - maximum);
    m.sum = fmaf(m.sum, shrink, exp2_fast(sink - maximum));
    up *= shrink;
  }
  const float factor = up / m.sum;
  auto* row = static_cast<std::uint16_t*>(p.output) + (item.token + column / GROUP) * p.output_stride;
  const uint2 packed = {pack_bf16(m.out.x * factor, m.out.y * factor), pack_bf16(m.out.z * factor, m.out.w * factor)};
  *reinterpret_cast<uint2*>(row + head * HEAD_DIM_V + dim) = packed;
}

/// What the row's partitions came to, merged in key order by its last arriver.
__device__ __forceinline__ void merge_row(const DecodeParams& p, const DecodeItem& item, int kv_head) {
  const std::int64_t stride = static_cast<std::int64_t>(p.kv_heads) * kColumns;
  for (int i = threadIdx.x; i < kColumns * (HEAD_DIM_V / 4); i += kThreads) {
    const int column = i / (HEAD_DIM_V / 4), dim = i % (HEAD_DIM_V / 4) * 4;
    const std::int64_t at = (static_cast<std::int64_t>(item.first_place) * p.kv_heads + kv_head) * kColumns + column;
    const auto* stats = reinterpret_cast<const float2*>(p.stats) + at;
    const float* partial = p.partial + at * HEAD_DIM_V + dim;
    Merged m{kNone};
#pragma unroll 16
    for (int part = 0; part < item.count; ++part) m.maximum = fmaxf(m.maximum, __ldcg(&stats[part * stride]).x);
#pragma unroll 8
    for (int part = 0; part < item.count; ++part) {
      m.add(__ldcg(&stats[part * stride]),
            __ldcg(reinterpret_cast<const float4*>(partial + part * stride * HEAD_DIM_V)));
    }
    finish(p, item, kv_head, column, dim, m);
  }
}

/// A block's state for the others of its cluster: (maximum, sum) by column; out lies where warp 0 put its own down.
using BlockStats = float2[kColumnTiles * 8];

/// The warps' states as one: to the output if the row has but one partition, else to where its merger finds it. Of a
/// block of a cluster, to where the others find it.
__device__ __forceinline__ void combine_warps(const DecodeParams& p, const DecodeItem& item, int kv_head, char* outputs,
                                              const float2 (*stats)[kColumnTiles * 8], BlockStats& block_stats) {
  for (int i = threadIdx.x; i < kColumns * (HEAD_DIM_V / 4); i += kThreads) {
    const int column = i / (HEAD_DIM_V / 4), dim = i % (HEAD_DIM_V / 4) * 4;
    Merged m{kNone};
#pragma unroll
    for (int w = 0; w < WARPS; ++w) m.maximum = fmaxf(m.maximum, stats[w][column].x);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const auto* out = reinterpret_cast<const float*>(outputs + w * kOutBytes);
      m.add(stats[w][column], *reinterpret_cast<const float4*>(out + column * HEAD_DIM_V + dim));
    }
    if constexpr (CLUSTER > 1) {
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(outputs) + column * HEAD_DIM_V + dim) = m.out;
      if (dim == 0) block_stats[column] = {m.maximum, m.sum};
      continue;
    }
    if (item.count == 1) {
      finish(p, item, kv_head, column, dim, m);
      continue;
    }
    const std::int64_t place = item.first_place + item.part;
    const std::int64_t at = (place * p.kv_heads + kv_head) * kColumns + column;
    *reinterpret_cast<float4*>(p.partial + at * HEAD_DIM_V + dim) = m.out;
    if (dim == 0) *reinterpret_cast<float2*>(p.stats + at * 2) = {m.maximum, m.sum};
  }
}

/// The states of the cluster's blocks as one, in the order of their ranks.
__device__ __forceinline__ void combine_blocks(const DecodeParams& p, const DecodeItem& item, int kv_head,
                                               const char* outputs, const BlockStats& block_stats) {
  for (int i = rank_in_team() * kThreads + threadIdx.x; i < kColumns * (HEAD_DIM_V / 4); i += CLUSTER * kThreads) {
    const int column = i / (HEAD_DIM_V / 4), dim = i % (HEAD_DIM_V / 4) * 4;
    const float* out = reinterpret_cast<const float*>(outputs) + column * HEAD_DIM_V + dim;
    float2 parts[CLUSTER];
    Merged m{kNone};
#pragma unroll
    for (int rank = 0; rank < CLUSTER; ++rank) {
      parts[rank] = read_in_cluster2(&block_stats[column], rank);
      m.maximum = fmaxf(m.maximum, parts[rank].x);
    }
#pragma unroll
    for (int rank = 0; rank < CLUSTER; ++rank) {
      m.add(parts[rank], read_in_cluster4(reinterpret_cast<const float4*>(out), rank));
    }
    finish(p, item, kv_head, column, dim, m);
  }
}

/// Tokens that belong to no row.
__device__ __forceinline__ void clear_padding(const DecodeParams& p, int used) {
  const std::int64_t pairs = static_cast<std::int64_t>(p.kv_heads) * GROUP * HEAD_DIM_V / 2;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < (p.num_tokens - used) * pairs;
       i += gridDim.x * kThreads) {
    auto* row = static_cast<std::uint16_t*>(p.output) + (used + i / pairs) * p.output_stride;
    reinterpret_cast<std::uint32_t*>(row)[i % pairs] = 0;
  }
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS) decode(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(128) char shared[];  // the warps' rings, then their outputs
  __shared__ float2 stats[WARPS][kColumnTiles * 8];
  __shared__ BlockStats block_stats;
  __shared__ int arrived;
  const int warp = threadIdx.x / 32;
  char* const outputs = shared + WARPS * kRingBytes;
  // The kernel before writes queries and the step's new keys and values. No kernel between the schedule and this one
  // could start before it had ended, and older keys were there before the step: both may be read at once.
  const DecodeSchedule schedule = *p.schedule;
  const int works = schedule.num_items * p.kv_heads;
  TileStream stream(p, shared + warp * kRingBytes, works);
  int early = 0;
#pragma unroll 1
  for (; early < STAGES && stream.next_is_old(); ++early) stream.fetch(early);
  wait_for_producers();
  release_consumers();
#pragma unroll 1
  for (int i = early; i < STAGES; ++i) stream.fetch(i);
  if (schedule.used_tokens < p.num_tokens) clear_padding(p, schedule.used_tokens);
  int stage = 0;
  if constexpr (CLUSTER > 1) arrive_cluster_done();
  for (int wave = 0;; ++wave) {
    const int work = work_of(wave);
    if (work >= works) break;
    const int kv_head = work % p.kv_heads;
    const DecodeItem item = p.items[work / p.kv_heads];
    const Turns turns(item.begin, item.end);
    Queries queries;
    load_queries(queries, p, item, kv_head);

    Running running = {};
#pragma unroll
    for (int i = 0; i < kColumnTiles * 2; ++i) (&running.maximum[0][0])[i] = kNone;
    for (int turn = 0; turn < turns.count; ++turn) {
      wait_copies<STAGES - 1>();
      __syncwarp();
      const char* ring = stream.ring + stage * kTileBytes;
      float s[kColumnTiles][4];
      score(s, queries, p, item, ring, turns.key(turn));
      attend(running, s, ring);
      __syncwarp();
      stream.fetch(stage);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    if constexpr (CLUSTER > 1) wait_cluster();  // others have read what the work before came to
    put_down(running, reinterpret_cast<float*>(outputs + warp * kOutBytes), stats[warp]);
    __syncthreads();
    combine_warps(p, item, kv_head, outputs, stats, block_stats);
    if constexpr (CLUSTER > 1) {
      arrive_cluster();
      wait_cluster();
      combine_blocks(p, item, kv_head, outputs, block_stats);
      arrive_cluster_done();
      continue;
    }
    if (item.count > 1) {
      std::int32_t* counter = p.counters + static_cast<std::int64_t>(item.row) * p.kv_heads + kv_head;
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) arrived = atomicAdd(counter, 1);
      __syncthreads();
      if (arrived == item.count - 1) {
        __threadfence();
        merge_row(p, item, kv_head);
        if (threadIdx.x == 0) *counter = 0;
      }
    }
    __syncthreads();
  }
  if constexpr (CLUSTER > 1) wait_cluster();  // others may still read here
}
