// Attention on sixteen lanes. For a partition of 128 keys: S = Q·Kᵀ (a lane is a key, summed over d in order), then
// m = max S, P = 2^(S - m), l = sum P, O = P·V (a lane is an element of v, summed over keys in order). Partitions are
// computed from scratch and merged in key order, so a row's bits depend on neither chunk, tile, batch nor pages.
// Tiles (several tokens): K and V of a partition are widened once for all query rows of a tile. Partitions (one token):
// K and V are read from the pages once for all heads of a group, widened in registers. Both run the same product, of
// kMaxTileRows query rows × kMaxTileVectors vectors, in float (products_f32.h) or in pairs (products_bf16.h).
// Bytes: the pages once a tile or token. Work: keys · (dk + dv) / 16 / kDepth vector operations a row, and about 25 a
// 16 scores. Keys outside a row's sight are never multiplied with V; their scores are replaced before use.
// Chosen on every CPU; pairs in standard precision only. Best measured (2 shared cores of an AMD EPYC, Zen 4,
// 2026-11-30), pairs: 0.28 Tflop/s in a prefill of 512, 26 GB/s of pages in a decode after 2,048.
#pragma once

#include "kernels/attention/cpu_tile.h"
#include "kernels/cpu/lanes_math.h"

namespace pagoda::kernels {
namespace {

/// Query rows of one kv head: tokens × heads, all of one sequence.
struct QueryRows {
  const Factor* queries;  // (rows, key_floats), scaled
  float* scores;          // (rows of a block, kPartitionKeys); then, in place, factors for V
  Wide* edge;             // (value_floats), for add_edge
  float* accumulators;    // (rows, accumulator_stride)
  float* maxima;          // (rows), scalar_stride apart
  float* denominators;
  std::int64_t accumulator_stride, scalar_stride;
  std::int64_t num_rows, heads;  // heads: rows of one token
  std::int64_t first_key;        // key number of the first token
};

[[gnu::always_inline]] inline std::int64_t clamp_key(std::int64_t key) {
  return key < 0 ? 0 : key > kPartitionKeys ? kPartitionKeys : key;
}

/// What the query at `key` sees of a partition that begins at `start`.
[[gnu::always_inline]] inline KeyRange visible(std::int64_t key, std::int64_t window, std::int64_t start) {
  const std::int64_t first = window > 0 ? key - window + 1 : 0;
  return {clamp_key(first - start), clamp_key(key + 1 - start)};
}

/// A row's weights take its scores' place: no factor is written before the scores there are read.
[[gnu::always_inline]] inline Factor* factors_of(float* scores) { return reinterpret_cast<Factor*>(scores); }

/// Scores of sixteen keys from `key` on, in units of log2, -infinity for those outside the range.
[[gnu::always_inline]] inline Lanes scores_at(const AttentionParams& p, const float* scores, std::int64_t key,
                                              KeyRange range) {
  Lanes s = load(scores + key);
  if (p.inverse_softcap != 0) {
    s = mul(hyperbolic_tangent(mul(s, broadcast(p.inverse_softcap))), broadcast(p.softcap_log2));
  }
  if (key >= range.begin && key + kG <= range.end) return s;
  return select(lanes_between(range.begin - key, range.end - key), s, broadcast(-__builtin_inff()));
}

/// Scores of one row into factors; gives the maximum and the denominator. Two groups at a time: factors come in pairs.
inline void soft_max(const AttentionParams& p, float* scores, KeyRange range, float& maximum, float& denominator) {
  const std::int64_t first = range.begin / (2 * kG) * (2 * kG);
  Lanes largest_lanes = broadcast(-__builtin_inff());
  for (std::int64_t key = first; key < range.end; key += kG) {
    const Lanes s = scores_at(p, scores, key, range);
    if (p.inverse_softcap != 0) store(scores + key, s);
    largest_lanes = max(s, largest_lanes);
  }
  maximum = largest(largest_lanes);
  const Lanes base = broadcast(maximum);
  Lanes total = broadcast(0.0f);
  const auto weights_at = [&](std::int64_t key) {
    const Lanes weight = weight_of(sub(load(scores + key), base));
    if (key >= range.begin && key + kG <= range.end) return weight;
    return select(lanes_between(range.begin - key, range.end - key), weight, broadcast(0.0f));
  };
  for (std::int64_t key = first; key < range.end; key += 2 * kG) {
    const Lanes low = weights_at(key);
    const Lanes high = weights_at(key + kG);
    total = store_weights(factors_of(scores) + key / kDepth, low, high, total);
  }
  denominator = sum(total);
}

/// Where factors · V goes: neighbouring rows.
struct ValueSums {
  float* scores;  // factors by now
  float* accumulators;
  Wide* edge;
  std::int64_t rows, stride, value_floats;
  bool fresh;  // they begin at zero, whatever is there
};

/// accumulators += factors · V for whole steps from `key` on, over all columns.
template <class Element>
inline void add_steps(ValueSums& to, const Element* values, const Element* ahead, std::int64_t b_stride,
                      std::int64_t key, std::int64_t steps) {
  Product<Element> x;
  x.a = factors_of(to.scores) + key / kDepth;
  x.a_stride = kPartitionKeys;
  x.b_stride = b_stride;
  x.c_stride = to.stride;
  x.steps = steps;
  x.fresh = to.fresh;
  for (std::int64_t dim = 0; dim < to.value_floats; dim += kMaxTileVectors * kG) {
    const std::int64_t left = (to.value_floats - dim) / kG;
    const std::int64_t vectors = left < kMaxTileVectors ? left : kMaxTileVectors;
    for (std::int64_t v = 0; v < vectors; ++v) {
      x.b[v] = values + dim + v * kG;
      x.ahead[v] = ahead + dim + v * kG;
    }
    x.c = to.accumulators + dim;
    multiply_block(to.rows, vectors, x);
  }
  to.fresh = false;
}

/// One key whose neighbour in the step is not seen, whatever that one's value is.
template <class Element>
inline void add_edge(ValueSums& to, const KvTile<Element>& tile, std::int64_t key) {
  const Element* values = tile.value_row(key / kDepth * kDepth);
  for (std::int64_t dim = 0; dim < to.value_floats; dim += kG) {
    store_column(to.edge + dim, keep_term(load_column(values + dim, tile.value_stride), key % kDepth));
  }
  add_steps<Wide>(to, to.edge, to.edge, to.value_floats, key / kDepth * kDepth, 1);
}

/// accumulators += factors · V for the keys of `range`, in key order. A range is cut inside a step only where the rows'
/// own sight ends.
template <class Element>
inline void add_values(ValueSums to, const KvTile<Element>& tile, KeyRange range) {
  if (range.empty()) return;
  if (range.begin % kDepth != 0) add_edge(to, tile, range.begin++);
  const std::int64_t whole_end = range.end / kDepth * kDepth;
  for (std::int64_t key = range.begin; key < whole_end;) {
    // A widened tile is one piece; in pages a group is.
    const std::int64_t group = key / kG;
    const std::int64_t piece_end = tile.contiguous ? whole_end : (group + 1) * kG;
    const std::int64_t end = piece_end < whole_end ? piece_end : whole_end;
    const Element* values = tile.value_row(key);
    const Element* ahead = values;
    if (group + kAheadGroups < tile.end_group) {
      ahead = tile.values[group + kAheadGroups];
    } else if (tile.next_keys[group % kAheadGroups] != nullptr) {
      ahead = tile.next_keys[group % kAheadGroups];
    }
    add_steps(to, values, ahead, tile.value_stride, key, (end - key) / kDepth);
    key = end;
  }
  if (whole_end < range.end && whole_end >= range.begin) add_edge(to, tile, whole_end);
}

/// Scores of a block of rows against the groups that hold `range`.
template <class Element>
inline void score_block(const AttentionParams& p, const QueryRows& q, const KvTile<Element>& tile, KeyRange range,
                        std::int64_t row, std::int64_t rows) {
  Product<Element> x;
  x.a = q.queries + row * p.scratch.key_floats;
  x.a_stride = p.scratch.key_floats;
  x.b_stride = kG;
  x.c_stride = kPartitionKeys;
  x.steps = (p.layout.key_dim + kDepth - 1) / kDepth;
  x.fresh = true;
  const std::int64_t begin_group = range.begin / kG;
  const std::int64_t end_group = (range.end + kG - 1) / kG;
  for (std::int64_t group = begin_group; group < end_group; group += kMaxTileVectors) {
    const std::int64_t left = end_group - group;
    const std::int64_t vectors = left < kMaxTileVectors ? left : kMaxTileVectors;
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t later = group + v + kMaxTileVectors;
      x.b[v] = tile.keys[group + v];
      x.ahead[v] = later < end_group ? tile.keys[later] : tile.values[begin_group + v];
    }
    x.c = q.scores + group * kG;
    multiply_block(rows, vectors, x);
  }
}

/// One block of at most kMaxTileRows rows against one partition.
template <class Element>
inline void attend_block(const AttentionParams& p, const QueryRows& q, const KvTile<Element>& tile, std::int64_t start,
                         std::int64_t row, std::int64_t rows) {
  const auto range_of = [&](std::int64_t r) { return visible(q.first_key + (row + r) / q.heads, p.window, start); };
  const KeyRange first = range_of(0);
  const KeyRange last = range_of(rows - 1);
  if (last.end <= first.begin) return;
  score_block(p, q, tile, {first.begin, last.end}, row, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const KeyRange range = range_of(r);
    if (range.empty()) continue;
    soft_max(p, q.scores + r * kPartitionKeys, range, q.maxima[(row + r) * q.scalar_stride],
             q.denominators[(row + r) * q.scalar_stride]);
  }
  // Keys that some rows see and others do not are done token by token, before and after those that all see.
  const KeyRange shared{(last.begin + kDepth - 1) / kDepth * kDepth, first.end / kDepth * kDepth};
  const auto sums_of = [&](std::int64_t r, std::int64_t count, bool fresh) {
    return ValueSums{.scores = q.scores + r * kPartitionKeys,
                     .accumulators = q.accumulators + (row + r) * q.accumulator_stride,
                     .edge = q.edge,
                     .rows = count,
                     .stride = q.accumulator_stride,
                     .value_floats = p.scratch.value_floats,
                     .fresh = fresh};
  };
  const auto each_token = [&](bool fresh, const auto& part_of) {
    for (std::int64_t r = 0; r < rows;) {
      const std::int64_t next = ((row + r) / q.heads + 1) * q.heads - row;
      const std::int64_t count = (next < rows ? next : rows) - r;
      add_values(sums_of(r, count, fresh), tile, part_of(range_of(r)));
      r += count;
    }
  };
  if (shared.empty()) {
    each_token(true, [](KeyRange range) { return range; });
    return;
  }
  // Without keys before the shared ones (no window begins here) those start the sums.
  const bool first_shared = first.begin == shared.begin;
  if (!first_shared) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* sums = q.accumulators + (row + r) * q.accumulator_stride;
      for (std::int64_t dim = 0; dim < p.scratch.value_floats; dim += kG) store(sums + dim, broadcast(0.0f));
    }
    each_token(false, [&](KeyRange range) { return KeyRange{range.begin, shared.begin}; });
  }
  add_values(sums_of(0, rows, first_shared), tile, shared);
  each_token(false, [&](KeyRange range) { return KeyRange{shared.end, range.end}; });
}

template <class Element>
inline void attend(const AttentionParams& p, const QueryRows& q, const KvTile<Element>& tile, std::int64_t start) {
  for (std::int64_t row = 0; row < q.num_rows; row += kMaxTileRows) {
    const std::int64_t rows = q.num_rows - row < kMaxTileRows ? q.num_rows - row : kMaxTileRows;
    attend_block(p, q, tile, start, row, rows);
  }
}

/// A row's result so far, beside its sums.
struct RowState {
  Lanes maximum, denominator;
};

inline RowState initial_state(const AttentionParams& p, std::int64_t head) {
  if (p.sinks == nullptr) return {broadcast(-__builtin_inff()), broadcast(0.0f)};
  return {broadcast(p.sinks[head] * 1.44269504088896f), broadcast(1.0f)};
}

/// What a row's sums so far and a partition's are multiplied with.
struct MergeFactors {
  Lanes keep, take;
};

/// Takes a partition's maximum and denominator into a row's; a lane is a row, or all are the same one.
inline MergeFactors merge_state(RowState& state, Lanes part_maximum, Lanes part_denominator) {
  const Lanes both = max(part_maximum, state.maximum);
  const MergeFactors factors{exp2_nonpositive(sub(state.maximum, both)), exp2_nonpositive(sub(part_maximum, both))};
  state.maximum = both;
  state.denominator = fma(part_denominator, factors.take, mul(state.denominator, factors.keep));
  return factors;
}

inline void merge_sums(float* sums, const float* part, MergeFactors factors, std::int64_t value_floats) {
  for (std::int64_t dim = 0; dim < value_floats; dim += kG) {
    store(sums + dim, fma(load(part + dim), factors.take, mul(load(sums + dim), factors.keep)));
  }
}

inline void write_output(const AttentionParams& p, const float* sums, Lanes denominator, std::int64_t token,
                         std::int64_t head) {
  float* out = p.output + token * p.output_stride + head * p.layout.value_dim;
  for (std::int64_t dim = 0; dim < p.layout.value_dim; dim += kG) {
    store_first(out + dim, div(load(sums + dim), denominator), p.layout.value_dim - dim);
  }
}

inline void copy_queries(const AttentionParams& p, Factor* to, std::int64_t token, std::int64_t kv_head,
                         std::int64_t heads) {
  const float* from = p.query + token * p.query_stride + kv_head * heads * p.layout.key_dim;
  const Lanes scale = broadcast(p.scale);
  for (std::int64_t head = 0; head < heads; ++head, from += p.layout.key_dim, to += p.scratch.key_floats) {
    for (std::int64_t dim = 0; dim < p.layout.key_dim; dim += kG) {
      store_factors(to + dim / kDepth, mul(load_first(from + dim, p.layout.key_dim - dim), scale));
    }
  }
}

/// Sets up the query rows of `count` tokens and their results so far.
inline QueryRows begin_tile(const AttentionParams& p, const Worker& w, std::int64_t kv_head, std::int64_t token,
                            std::int64_t count, std::int64_t first_key) {
  const std::int64_t heads = p.num_heads / p.layout.kv_heads;
  const std::int64_t width = p.scratch.value_floats;
  for (std::int64_t i = 0; i < count; ++i) {
    copy_queries(p, w.queries + i * heads * p.scratch.key_floats, token + i, kv_head, heads);
  }
  for (std::int64_t r = 0; r < count * heads; ++r) {
    const RowState state = initial_state(p, kv_head * heads + r % heads);
    store_first(w.maxima + r, state.maximum, 1);
    store_first(w.denominators + r, state.denominator, 1);
    for (std::int64_t dim = 0; dim < width; dim += kG) store(w.sums + r * width + dim, broadcast(0.0f));
  }
  return {.queries = w.queries,
          .scores = w.scores,
          .edge = w.edge,
          .accumulators = w.accumulators,
          .maxima = w.part_maxima,
          .denominators = w.part_denominators,
          .accumulator_stride = width,
          .scalar_stride = 1,
          .num_rows = count * heads,
          .heads = heads,
          .first_key = first_key};
}

/// Rows that see the partition at `start`: a run of them, as sight moves with the tokens.
inline KeyRange rows_that_see(const AttentionParams& p, const QueryRows& q, std::int64_t start) {
  KeyRange rows{0, q.num_rows};
  while (!rows.empty() && visible(q.first_key + rows.begin / q.heads, p.window, start).empty()) rows.begin += q.heads;
  while (!rows.empty() && visible(q.first_key + rows.end / q.heads - 1, p.window, start).empty()) rows.end -= q.heads;
  return rows;
}

inline void merge_tile(const AttentionParams& p, const Worker& w, const QueryRows& q, std::int64_t start) {
  const std::int64_t width = p.scratch.value_floats;
  const KeyRange rows = rows_that_see(p, q, start);
  for (std::int64_t first = rows.begin; first < rows.end; first += kG) {
    const std::int64_t count = rows.end - first < kG ? rows.end - first : kG;
    RowState state{load_first(w.maxima + first, count), load_first(w.denominators + first, count)};
    const MergeFactors factors =
        merge_state(state, load_first(w.part_maxima + first, count), load_first(w.part_denominators + first, count));
    store_first(w.maxima + first, state.maximum, count);
    store_first(w.denominators + first, state.denominator, count);
    float keep[kG];
    float take[kG];
    store(keep, factors.keep);
    store(take, factors.take);
    for (std::int64_t i = 0; i < count; ++i) {
      merge_sums(w.sums + (first + i) * width, w.accumulators + (first + i) * width,
                 {broadcast(keep[i]), broadcast(take[i])}, width);
    }
  }
}

/// A tile of tokens [token, token + count) of one row, for one kv head.
template <class Element>
inline void attend_tile(const AttentionParams& p, const Worker& w, std::int64_t row, std::int64_t kv_head,
                        std::int64_t token, std::int64_t count) {
  const std::int64_t first_key = p.step.row_starts[row] + token - p.step.row_offsets[row];
  const std::int64_t last_key = first_key + count - 1;
  const QueryRows q = begin_tile(p, w, kv_head, token, count, first_key);
  const std::int64_t lowest = p.window > 0 && first_key >= p.window ? first_key - p.window + 1 : 0;
  for (std::int64_t start = lowest / kPartitionKeys * kPartitionKeys; start <= last_key; start += kPartitionKeys) {
    const KeyRange range{clamp_key(lowest - start), clamp_key(last_key + 1 - start)};
    attend(p, q, widened_tile<Element>(p, w, row, kv_head, start, range), start);
    merge_tile(p, w, q, start);
  }
  for (std::int64_t r = 0; r < q.num_rows; ++r) {
    write_output(p, w.sums + r * p.scratch.value_floats, broadcast(w.denominators[r]), token + r / q.heads,
                 kv_head * q.heads + r % q.heads);
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
  const QueryRows q{.queries = w.queries,
                    .scores = w.scores,
                    .edge = w.edge,
                    .accumulators = partial,
                    .maxima = partial + p.scratch.value_floats,
                    .denominators = partial + p.scratch.value_floats + 1,
                    .accumulator_stride = stride,
                    .scalar_stride = stride,
                    .num_rows = heads,
                    .heads = heads,
                    .first_key = key};
  const KeyRange range = visible(key, p.window, start);
  if (!reads_pages(p)) return attend(p, q, widened_tile<Element>(p, w, row, kv_head, start, range), start);
  KvTile<Element> tile = tile_of_pages<Element>(p, row, kv_head, start, range);
  for (std::int64_t group = 0; group < kAheadGroups; ++group) {
    const std::int64_t next = start + kPartitionKeys + group * kG;
    if (next <= key) tile.next_keys[group] = key_address<Element>(p, row, kv_head, next);
  }
  attend(p, q, tile, start);
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
  const std::int64_t most = p.scratch.tile_tokens;
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    const std::int64_t kv_head = unit % p.layout.kv_heads;
    std::int64_t tile = unit / p.layout.kv_heads;
    for (std::int64_t row = 0; row < p.step.num_rows; ++row) {
      const std::int64_t begin = p.step.row_offsets[row];
      const std::int64_t tokens = p.step.row_offsets[row + 1] - begin;
      const std::int64_t tiles = tokens == 1 ? 0 : (tokens + most - 1) / most;
      if (tile < tiles) {
        // The last tile sees most keys: it goes first, so that the end of the launch is made of small pieces.
        const std::int64_t first = (tiles - 1 - tile) * most;
        const std::int64_t left = tokens - first;
        attend_tile<Element>(p, w, row, kv_head, begin + first, left < most ? left : most);
        break;
      }
      tile -= tiles;
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
      const MergeFactors factors = merge_state(state, broadcast(partial[p.scratch.value_floats]),
                                               broadcast(partial[p.scratch.value_floats + 1]));
      merge_sums(w.sums, partial, factors, p.scratch.value_floats);
    }
    write_output(p, w.sums, state.denominator, p.step.row_offsets[row], unit % p.num_heads);
  }
}

}  // namespace
}  // namespace pagoda::kernels
