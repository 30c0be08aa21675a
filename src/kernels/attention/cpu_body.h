// Attention on sixteen lanes. For a partition of 128 keys: S = Q·Kᵀ (a lane is a key, summed over d in order), then
// m = max S, P = 2^(S - m), l = sum P, O = P·V (a lane is an element of v, summed over keys in order). Partitions are
// computed from scratch and merged in key order, so a row's bits depend on neither chunk, tile, batch nor pages.
// Tiles (several tokens): K and V of a partition are widened to float once for all query rows of a tile. Partitions
// (one token): K and V are read from the pages once for all heads of a group, widened in registers. Both run the same
// register-blocked outer products: kMaxTileRows query rows × kMaxTileVectors vectors.
// Bytes: the pages once a tile or token. Work: 2 · keys · (dk + dv) / 16 vector operations a row, and about 20 a
// 16 scores. Keys outside a row's range are never multiplied with V; their scores are replaced before use.
#pragma once

#include "kernels/attention/cpu_params.h"
#include "kernels/cpu/lanes_math.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kG = KvLayout::kGroup;

/// C (rows, vectors · 16) += A (rows, count) · B (count, vectors · 16), in order over `count`.
template <class Element>
struct Product {
  const float* a;
  const Element* b[kMaxTileVectors];  // one pointer a vector of columns
  float* c;
  std::int64_t a_stride, b_stride, c_stride, count;
  bool fresh;  // C begins at zero
};

template <int rows, int vectors, class Element>
[[gnu::noinline]] void multiply(const Product<Element>& x) {
  Lanes sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = x.fresh ? broadcast(0.0f) : load(x.c + r * x.c_stride + v * kG);
  }
  const Element* b[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) b[v] = x.b[v];
  const float* a = x.a;
  for (std::int64_t k = 0; k < x.count; ++k, ++a) {
    Lanes column[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      column[v] = load(b[v]);
      b[v] += x.b_stride;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const Lanes factor = broadcast(a[r * x.a_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = fma(factor, column[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(x.c + r * x.c_stride + v * kG, sums[r][v]);
  }
}

template <class Element, int rows = kMaxTileRows, int vectors = kMaxTileVectors>
[[gnu::always_inline]] inline void multiply_block(std::int64_t num_rows, std::int64_t num_vectors,
                                                  const Product<Element>& x) {
  if constexpr (rows > 1) {
    if (num_rows < rows) return multiply_block<Element, rows - 1, vectors>(num_rows, num_vectors, x);
  }
  if constexpr (vectors > 1) {
    if (num_vectors < vectors) return multiply_block<Element, rows, vectors - 1>(num_rows, num_vectors, x);
  }
  multiply<rows, vectors>(x);
}

/// The keys and values of one partition and kv head: a pointer for each group of 16, as far as they are visible.
template <class Element>
struct KvTile {
  const Element* keys[kPartitionGroups];    // (dk, 16) each
  const Element* values[kPartitionGroups];  // (16, value_stride) each
  std::int64_t value_stride;
};

/// Query rows of one kv head: tokens × heads, all of one sequence.
struct QueryRows {
  const float* queries;  // (rows, key_floats), scaled
  float* scores;         // (rows of a block, kPartitionKeys)
  float* accumulators;   // (rows, accumulator_stride)
  float* maxima;         // (rows) elements maxima_stride apart
  float* denominators;
  std::int64_t accumulator_stride, scalar_stride;
  std::int64_t num_rows, heads;  // heads: rows of one token
  std::int64_t first_key;        // key number of the first token
};

struct KeyRange {
  std::int64_t begin, end;  // inside the partition
  bool empty() const { return begin >= end; }
};

[[gnu::always_inline]] inline std::int64_t clamp_key(std::int64_t key) {
  return key < 0 ? 0 : key > kPartitionKeys ? kPartitionKeys : key;
}

/// What the query at `key` sees of a partition that begins at `start`.
[[gnu::always_inline]] inline KeyRange visible(std::int64_t key, std::int64_t window, std::int64_t start) {
  const std::int64_t first = window > 0 ? key - window + 1 : 0;
  return {clamp_key(first - start), clamp_key(key + 1 - start)};
}

/// Scores of one row into weights; returns through `maximum` and `denominator`.
inline void soft_max(const AttentionParams& p, float* scores, KeyRange range, float& maximum, float& denominator) {
  const std::int64_t first = range.begin / kG * kG;
  Lanes largest_lanes = broadcast(-__builtin_inff());
  for (std::int64_t i = first; i < range.end; i += kG) {
    Lanes s = load(scores + i);
    if (p.inverse_softcap != 0) {
      s = mul(hyperbolic_tangent(mul(s, broadcast(p.inverse_softcap))), broadcast(p.softcap_log2));
      store(scores + i, s);
    }
    if (i < range.begin || i + kG > range.end) {
      s = select(lanes_between(range.begin - i, range.end - i), s, broadcast(-__builtin_inff()));
      store(scores + i, s);
    }
    largest_lanes = max(s, largest_lanes);
  }
  maximum = largest(largest_lanes);
  const Lanes base = broadcast(maximum);
  Lanes total = broadcast(0.0f);
  for (std::int64_t i = first; i < range.end; i += kG) {
    const Lanes weight = exp2_nonpositive(sub(load(scores + i), base));
    store(scores + i, weight);
    total = add(total, weight);
  }
  denominator = sum(total);
}

/// accumulators += weights · V for `rows` neighbouring rows and the keys of `range`, in key order.
template <class Element>
inline void add_values(const float* weights, const KvTile<Element>& tile, KeyRange range, std::int64_t rows,
                       float* accumulators, std::int64_t stride, std::int64_t value_floats) {
  Product<Element> x;
  x.a_stride = kPartitionKeys;
  x.b_stride = tile.value_stride;
  x.c_stride = stride;
  x.fresh = false;
  for (std::int64_t key = range.begin; key < range.end;) {
    // As many keys as lie one after the other.
    std::int64_t end = (key / kG + 1) * kG;
    while (end < range.end && tile.values[end / kG] == tile.values[end / kG - 1] + kG * tile.value_stride) end += kG;
    if (end > range.end) end = range.end;
    x.a = weights + key;
    x.count = end - key;
    const Element* values = tile.values[key / kG] + key % kG * tile.value_stride;
    for (std::int64_t dim = 0; dim < value_floats; dim += kMaxTileVectors * kG) {
      const std::int64_t vectors =
          (value_floats - dim) / kG < kMaxTileVectors ? (value_floats - dim) / kG : kMaxTileVectors;
      for (int v = 0; v < kMaxTileVectors; ++v) x.b[v] = values + dim + v * kG;
      x.c = accumulators + dim;
      multiply_block(rows, vectors, x);
    }
    key = end;
  }
}

/// One block of at most kMaxTileRows rows against one partition.
template <class Element>
inline void attend_block(const AttentionParams& p, const QueryRows& q, const KvTile<Element>& tile, std::int64_t start,
                         std::int64_t row, std::int64_t rows) {
  const auto range_of = [&](std::int64_t r) { return visible(q.first_key + r / q.heads, p.window, start); };
  const KeyRange first = range_of(row);
  const KeyRange last = range_of(row + rows - 1);
  if (last.end <= first.begin) return;
  Product<Element> x;
  x.a = q.queries + row * p.scratch.key_floats;
  x.a_stride = p.scratch.key_floats;
  x.b_stride = kG;
  x.c_stride = kPartitionKeys;
  x.count = p.layout.key_dim;
  x.fresh = true;
  const std::int64_t end_group = (last.end + kG - 1) / kG;
  for (std::int64_t group = first.begin / kG; group < end_group; group += kMaxTileVectors) {
    const std::int64_t vectors = end_group - group < kMaxTileVectors ? end_group - group : kMaxTileVectors;
    for (int v = 0; v < vectors; ++v) x.b[v] = tile.keys[group + v];
    x.c = q.scores + group * kG;
    multiply_block(rows, vectors, x);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const KeyRange range = range_of(row + r);
    float* sums = q.accumulators + (row + r) * q.accumulator_stride;
    for (std::int64_t dim = 0; dim < p.scratch.value_floats; dim += kG) store(sums + dim, broadcast(0.0f));
    if (range.empty()) continue;
    soft_max(p, q.scores + r * kPartitionKeys, range, q.maxima[(row + r) * q.scalar_stride],
             q.denominators[(row + r) * q.scalar_stride]);
  }
  // Keys that some rows see and others do not are done token by token, before and after those that all see.
  const bool shared = last.begin < first.end;
  const auto each_token = [&](const auto& part_of) {
    for (std::int64_t r = 0; r < rows;) {
      const std::int64_t next = ((row + r) / q.heads + 1) * q.heads - row;
      const std::int64_t count = (next < rows ? next : rows) - r;
      add_values(q.scores + r * kPartitionKeys, tile, part_of(range_of(row + r)), count,
                 q.accumulators + (row + r) * q.accumulator_stride, q.accumulator_stride, p.scratch.value_floats);
      r += count;
    }
  };
  each_token([&](KeyRange range) { return shared ? KeyRange{range.begin, last.begin} : range; });
  if (!shared) return;
  add_values(q.scores, tile, {last.begin, first.end}, rows, q.accumulators + row * q.accumulator_stride,
             q.accumulator_stride, p.scratch.value_floats);
  each_token([&](KeyRange range) { return KeyRange{first.end, range.end}; });
}

template <class Element>
inline void attend(const AttentionParams& p, const QueryRows& q, const KvTile<Element>& tile, std::int64_t start) {
  for (std::int64_t row = 0; row < q.num_rows; row += kMaxTileRows) {
    const std::int64_t rows = q.num_rows - row < kMaxTileRows ? q.num_rows - row : kMaxTileRows;
    attend_block(p, q, tile, start, row, rows);
  }
}

/// A row's result so far: sum, its maximum and denominator. Adds one partition's.
inline void merge(float* sums, Lanes& maximum, Lanes& denominator, const float* part, float part_maximum,
                  float part_denominator, std::int64_t value_floats) {
  const Lanes both = max(broadcast(part_maximum), maximum);
  const Lanes keep = exp2_nonpositive(sub(maximum, both));
  const Lanes take = exp2_nonpositive(sub(broadcast(part_maximum), both));
  maximum = both;
  denominator = fma(broadcast(part_denominator), take, mul(denominator, keep));
  for (std::int64_t dim = 0; dim < value_floats; dim += kG) {
    store(sums + dim, fma(load(part + dim), take, mul(load(sums + dim), keep)));
  }
}

struct RowState {
  Lanes maximum, denominator;
};

inline RowState initial_state(const AttentionParams& p, std::int64_t head) {
  if (p.sinks == nullptr) return {broadcast(-__builtin_inff()), broadcast(0.0f)};
  return {broadcast(p.sinks[head] * 1.44269504088896f), broadcast(1.0f)};
}

inline void write_output(const AttentionParams& p, const float* sums, Lanes denominator, std::int64_t token,
                         std::int64_t head) {
  float* out = p.output + token * p.output_stride + head * p.layout.value_dim;
  for (std::int64_t dim = 0; dim < p.layout.value_dim; dim += kG) {
    store_first(out + dim, div(load(sums + dim), denominator), p.layout.value_dim - dim);
  }
}

/// The parts of one worker's scratch.
struct Worker {
  float* queries;
  float* scores;
  float* accumulators;
  float* sums;
  float* scalars;  // (rows, 4): maximum and denominator of a partition, then of all so far
  float* keys;     // (groups, dk, 16)
  float* values;   // (kPartitionKeys, value_floats)
};

inline Worker worker_of(const AttentionParams& p, int index) {
  const HostScratch& s = p.scratch;
  Worker w;
  w.queries = p.worker_scratch + index * s.worker_floats;
  w.scores = w.queries + s.tile_rows * s.key_floats;
  w.accumulators = w.scores + kMaxTileRows * kPartitionKeys;
  w.sums = w.accumulators + s.tile_rows * s.value_floats;
  w.scalars = w.sums + s.tile_rows * s.value_floats;
  w.keys = w.scalars + (s.tile_rows * 4 + 15) / 16 * 16;
  w.values = w.keys + kPartitionKeys * p.layout.key_dim;
  return w;
}

template <class Element>
inline const Element* page_of(const AttentionParams& p, std::int64_t row, std::int64_t key) {
  const std::int32_t block = p.group.block_tables[row * p.group.max_blocks + key / p.layout.block_size];
  return reinterpret_cast<const Element*>(p.pages + block * p.block_stride);
}

/// Pointers into the pages for the groups that hold keys [begin, end) of a partition.
template <class Element>
inline KvTile<Element> tile_of_pages(const AttentionParams& p, std::int64_t row, std::int64_t kv_head,
                                     std::int64_t start, KeyRange range) {
  KvTile<Element> tile;
  tile.value_stride = p.layout.value_dim;
  for (std::int64_t group = range.begin / kG; group * kG < range.end; ++group) {
    const std::int64_t key = start + group * kG;
    const Element* page = page_of<Element>(p, row, key);
    tile.keys[group] = page + p.layout.key_offset(kv_head, key % p.layout.block_size, 0);
    tile.values[group] = page + p.layout.value_offset(kv_head, key % p.layout.block_size, 0);
  }
  return tile;
}

/// The same groups widened to float in the worker's scratch. Slots outside `range` may hold anything: their keys give
/// scores that are replaced, their values are not read.
template <class Element>
inline KvTile<float> tile_of_floats(const AttentionParams& p, const Worker& w, std::int64_t row, std::int64_t kv_head,
                                    std::int64_t start, KeyRange range) {
  KvTile<float> tile;
  tile.value_stride = p.scratch.value_floats;
  const std::int64_t part = p.layout.group();  // slots of a page's key group: 16, or 8 in pages of 8
  for (std::int64_t group = range.begin / kG; group * kG < range.end; ++group) {
    float* keys = w.keys + group * kG * p.layout.key_dim;
    float* values = w.values + group * kG * p.scratch.value_floats;
    tile.keys[group] = keys;
    tile.values[group] = values;
    for (std::int64_t lane = 0; lane < kG; lane += part) {
      const std::int64_t key = group * kG + lane;
      if (key + part <= range.begin || key >= range.end) continue;
      const std::int64_t slot = (start + key) % p.layout.block_size;
      const Element* page = page_of<Element>(p, row, start + key);
      const Element* from = page + p.layout.key_offset(kv_head, slot, 0);
      for (std::int64_t dim = 0; dim < p.layout.key_dim; ++dim) {
        store_first(keys + dim * kG + lane, load_first(from + dim * part, part), part);
      }
      for (std::int64_t i = 0; i < part; ++i) {
        if (key + i < range.begin || key + i >= range.end) continue;
        from = page + p.layout.value_offset(kv_head, slot + i, 0);
        for (std::int64_t dim = 0; dim < p.layout.value_dim; dim += kG) {
          store(values + (lane + i) * p.scratch.value_floats + dim, load_first(from + dim, p.layout.value_dim - dim));
        }
      }
    }
  }
  return tile;
}

inline void copy_queries(const AttentionParams& p, float* to, std::int64_t token, std::int64_t kv_head,
                         std::int64_t heads) {
  const float* from = p.query + token * p.query_stride + kv_head * heads * p.layout.key_dim;
  const Lanes scale = broadcast(p.scale);
  for (std::int64_t head = 0; head < heads; ++head, from += p.layout.key_dim, to += p.scratch.key_floats) {
    for (std::int64_t dim = 0; dim < p.layout.key_dim; dim += kG) {
      store(to + dim, mul(load_first(from + dim, p.layout.key_dim - dim), scale));
    }
  }
}

/// A tile of tokens [token, token + count) of one row, for one kv head.
template <class Element>
inline void attend_tile(const AttentionParams& p, const Worker& w, std::int64_t row, std::int64_t kv_head,
                        std::int64_t token, std::int64_t count) {
  const std::int64_t heads = p.num_heads / p.layout.kv_heads;
  const std::int64_t first_key = p.step.row_starts[row] + token - p.step.row_offsets[row];
  const std::int64_t last_key = first_key + count - 1;
  QueryRows q{w.queries, w.scores,      w.accumulators, w.scalars, w.scalars + 1, p.scratch.value_floats,
              4,         count * heads, heads,          first_key};
  for (std::int64_t i = 0; i < count; ++i) {
    copy_queries(p, w.queries + i * heads * p.scratch.key_floats, token + i, kv_head, heads);
  }
  const std::int64_t all = count * heads;
  for (std::int64_t r = 0; r < all; ++r) {
    const RowState state = initial_state(p, kv_head * heads + r % heads);
    store_first(w.scalars + r * 4 + 2, state.maximum, 1);
    store_first(w.scalars + r * 4 + 3, state.denominator, 1);
    for (std::int64_t dim = 0; dim < p.scratch.value_floats; dim += kG) {
      store(w.sums + r * p.scratch.value_floats + dim, broadcast(0.0f));
    }
  }
  const std::int64_t lowest = p.window > 0 && first_key >= p.window ? first_key - p.window + 1 : 0;
  for (std::int64_t start = lowest / kPartitionKeys * kPartitionKeys; start <= last_key; start += kPartitionKeys) {
    const KeyRange range{clamp_key(lowest - start), clamp_key(last_key + 1 - start)};
    const KvTile<float> tile = tile_of_floats<Element>(p, w, row, kv_head, start, range);
    attend(p, q, tile, start);
    for (std::int64_t r = 0; r < all; ++r) {
      if (visible(first_key + r / heads, p.window, start).empty()) continue;
      float* scalars = w.scalars + r * 4;
      RowState state{broadcast(scalars[2]), broadcast(scalars[3])};
      merge(w.sums + r * p.scratch.value_floats, state.maximum, state.denominator,
            w.accumulators + r * p.scratch.value_floats, scalars[0], scalars[1], p.scratch.value_floats);
      store_first(scalars + 2, state.maximum, 1);
      store_first(scalars + 3, state.denominator, 1);
    }
  }
  for (std::int64_t r = 0; r < all; ++r) {
    write_output(p, w.sums + r * p.scratch.value_floats, broadcast(w.scalars[r * 4 + 3]), token + r / heads,
                 kv_head * heads + r % heads);
  }
}

/// One partition of one token's keys, for one kv head; the result goes to `partials`.
template <class Element>
inline void attend_partition(const AttentionParams& p, const Worker& w, std::int64_t row, std::int64_t kv_head,
                             std::int64_t index, std::int64_t first_partition) {
  const std::int64_t heads = p.num_heads / p.layout.kv_heads;
  const std::int64_t key = p.step.row_starts[row];
  const std::int64_t start = (first_partition + index) * kPartitionKeys;
  const std::int64_t stride = p.scratch.max_partitions * p.scratch.partial_floats;
  float* partial = p.partials + (row * p.num_heads + kv_head * heads) * stride + index * p.scratch.partial_floats;
  copy_queries(p, w.queries, p.step.row_offsets[row], kv_head, heads);
  const QueryRows q{w.queries,
                    w.scores,
                    partial,
                    partial + p.scratch.value_floats,
                    partial + p.scratch.value_floats + 1,
                    stride,
                    stride,
                    heads,
                    heads,
                    key};
  const KeyRange range = visible(key, p.window, start);
  if (p.layout.block_size >= kG && p.layout.value_dim % kG == 0) {
    attend(p, q, tile_of_pages<Element>(p, row, kv_head, start, range), start);
  } else {
    attend(p, q, tile_of_floats<Element>(p, w, row, kv_head, start, range), start);
  }
}

struct PartitionSpan {
  std::int64_t first, count;
};

/// The partitions that the only token of a row sees; none if the row has another number of tokens.
inline PartitionSpan partitions_of(const AttentionParams& p, std::int64_t row) {
  if (p.step.row_offsets[row + 1] - p.step.row_offsets[row] != 1) return {0, 0};
  const std::int64_t key = p.step.row_starts[row];
  const std::int64_t lowest = p.window > 0 && key >= p.window ? key - p.window + 1 : 0;
  return {lowest / kPartitionKeys, key / kPartitionKeys - lowest / kPartitionKeys + 1};
}

template <class Element>
inline void run_tiles(const AttentionParams& p, device::HostRange range) {
  const Worker w = worker_of(p, range.worker);
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    const std::int64_t kv_head = unit % p.layout.kv_heads;
    std::int64_t tile = unit / p.layout.kv_heads;
    for (std::int64_t row = 0; row < p.step.num_rows; ++row) {
      const std::int64_t begin = p.step.row_offsets[row];
      const std::int64_t tokens = p.step.row_offsets[row + 1] - begin;
      if (tokens == 1) continue;
      const std::int64_t tiles = (tokens + p.scratch.tile_tokens - 1) / p.scratch.tile_tokens;
      if (tile >= tiles) {
        tile -= tiles;
        continue;
      }
      // The last tile sees most keys: it goes first, so that the end of the launch is made of small pieces.
      const std::int64_t first = (tiles - 1 - tile) * p.scratch.tile_tokens;
      const std::int64_t left = tokens - first;
      attend_tile<Element>(p, w, row, kv_head, begin + first,
                           left < p.scratch.tile_tokens ? left : p.scratch.tile_tokens);
      break;
    }
  }
}

template <class Element>
inline void run_partitions(const AttentionParams& p, std::int64_t units, device::HostRange range) {
  const Worker w = worker_of(p, range.worker);
  std::int64_t items = 0;
  for (std::int64_t row = 0; row < p.step.num_rows; ++row) items += partitions_of(p, row).count * p.layout.kv_heads;
  const std::int64_t begin = items * range.begin / units;
  const std::int64_t end = items * range.end / units;
  std::int64_t first_item = 0;
  for (std::int64_t row = 0; row < p.step.num_rows && first_item < end; ++row) {
    const PartitionSpan span = partitions_of(p, row);
    const std::int64_t row_items = span.count * p.layout.kv_heads;
    const std::int64_t from = begin > first_item ? begin - first_item : 0;
    const std::int64_t to = end - first_item < row_items ? end - first_item : row_items;
    for (std::int64_t item = from; item < to; ++item) {
      attend_partition<Element>(p, w, row, item / span.count, item % span.count, span.first);
    }
    first_item += row_items;
  }
}

inline void clear_padding(const AttentionParams& p) {
  for (std::int64_t token = p.step.row_offsets[p.step.num_rows]; token < p.step.num_tokens; ++token) {
    float* out = p.output + token * p.output_stride;
    for (std::int64_t i = 0; i < p.num_heads * p.layout.value_dim; ++i) out[i] = 0;
  }
}

inline void attention_tiles(const AttentionTileParams& params, device::HostRange range) {
  const AttentionParams& p = params.p;
  if (p.layout.dtype == tensor::DType::kF16) run_tiles<Half>(p, range);
  if (p.layout.dtype == tensor::DType::kBf16) run_tiles<Brain>(p, range);
  if (p.layout.dtype == tensor::DType::kF32) run_tiles<float>(p, range);
}

inline void attention_partitions(const AttentionPartitionParams& params, device::HostRange range) {
  const AttentionParams& p = params.p;
  if (p.layout.dtype == tensor::DType::kF16) run_partitions<Half>(p, params.units, range);
  if (p.layout.dtype == tensor::DType::kBf16) run_partitions<Brain>(p, params.units, range);
  if (p.layout.dtype == tensor::DType::kF32) run_partitions<float>(p, params.units, range);
}

inline void attention_merge(const AttentionMergeParams& params, device::HostRange range) {
  const AttentionParams& p = params.p;
  const Worker w = worker_of(p, range.worker);
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    const std::int64_t row = unit / p.num_heads;
    if (row == p.step.num_rows) {
      clear_padding(p);
      continue;
    }
    const PartitionSpan span = partitions_of(p, row);
    if (span.count == 0) continue;
    RowState state = initial_state(p, unit % p.num_heads);
    for (std::int64_t dim = 0; dim < p.scratch.value_floats; dim += kG) store(w.sums + dim, broadcast(0.0f));
    const float* partial = p.partials + unit * p.scratch.max_partitions * p.scratch.partial_floats;
    for (std::int64_t i = 0; i < span.count; ++i, partial += p.scratch.partial_floats) {
      merge(w.sums, state.maximum, state.denominator, partial, partial[p.scratch.value_floats],
            partial[p.scratch.value_floats + 1], p.scratch.value_floats);
    }
    write_output(p, w.sums, state.denominator, p.step.row_offsets[row], unit % p.num_heads);
  }
}

}  // namespace
}  // namespace pagoda::kernels
