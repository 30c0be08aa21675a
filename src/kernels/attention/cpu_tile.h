// The keys and values of one partition and kv head, in the pages or widened in a worker's scratch.
#pragma once

#include "kernels/attention/cpu_params.h"
#include "kernels/attention/cpu_product.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kAheadGroups = 4;  // how far ahead values are fetched

/// Keys of a partition, counted from its start.
struct KeyRange {
  std::int64_t begin, end;
  bool empty() const { return begin >= end; }
};

/// A pointer for each group of 16 keys, as far as they are visible. In a widened tile a row is kDepth dimensions or
/// keys.
template <class Element>
struct KvTile {
  const Element* keys[kPartitionGroups];    // (dk, 16) each
  const Element* values[kPartitionGroups];  // (16, value_stride) each
  const Element* next_keys[kAheadGroups];   // what is read after this tile, to be fetched ahead; null: unknown
  std::int64_t value_stride;
  std::int64_t end_group;
  bool contiguous;  // values of neighbouring groups are neighbours

  const Element* value_row(std::int64_t key) const {
    return values[key / kG] + key % kG * kStepRows<Element> / kDepth * value_stride;
  }
};

/// The parts of one worker's scratch.
struct Worker {
  Factor* queries;           // (rows, key_floats)
  float* scores;             // (rows of a block, kPartitionKeys)
  float* accumulators;       // (rows, value_floats)
  float* sums;               // (rows, value_floats)
  float* part_maxima;        // (rows) of one partition
  float* part_denominators;  // (rows)
  float* maxima;             // (rows) of all so far
  float* denominators;       // (rows)
  Wide* edge;                // (value_floats)
  Wide* keys;                // (groups, dk, 16)
  Wide* values;              // (kPartitionKeys, value_floats)
};

inline Worker worker_of(const AttentionParams& p, int index) {
  const HostScratch& s = p.scratch;
  float* next = p.worker_scratch + index * s.worker_floats;
  const auto take = [&](std::int64_t floats) {
    float* out = next;
    next += (floats + 15) / 16 * 16;
    return out;
  };
  Worker w;
  w.queries = reinterpret_cast<Factor*>(take(s.tile_rows * s.key_floats));
  w.scores = take(kMaxTileRows * kPartitionKeys);
  w.accumulators = take(s.tile_rows * s.value_floats);
  w.sums = take(s.tile_rows * s.value_floats);
  w.part_maxima = take(s.tile_rows);
  w.part_denominators = take(s.tile_rows);
  w.maxima = take(s.tile_rows);
  w.denominators = take(s.tile_rows);
  w.edge = reinterpret_cast<Wide*>(take(s.value_floats));
  w.keys = reinterpret_cast<Wide*>(take(kPartitionKeys * s.key_floats));
  w.values = reinterpret_cast<Wide*>(take(kPartitionKeys * s.value_floats));
  return w;
}

template <class Element>
inline const Element* page_of(const AttentionParams& p, std::int64_t row, std::int64_t key) {
  const std::int32_t block = p.group.block_tables[row * p.group.max_blocks + key / p.layout.block_size];
  return reinterpret_cast<const Element*>(p.pages + block * p.block_stride);
}

template <class Element>
inline const Element* key_address(const AttentionParams& p, std::int64_t row, std::int64_t kv_head, std::int64_t key) {
  return page_of<Element>(p, row, key) + p.layout.key_offset(kv_head, key % p.layout.block_size, 0);
}

template <class Element>
inline const Element* value_address(const AttentionParams& p, std::int64_t row, std::int64_t kv_head,
                                    std::int64_t key) {
  return page_of<Element>(p, row, key) + p.layout.value_offset(kv_head, key % p.layout.block_size, 0);
}

/// Whether keys and values can be multiplied out of the pages, widened in registers.
inline bool reads_pages(const AttentionParams& p) {
  return p.layout.block_size >= kG && p.layout.value_dim % kG == 0 && p.layout.key_dim % kDepth == 0;
}

/// Pointers into the pages for the groups that hold a range of a partition.
template <class Element>
inline KvTile<Element> tile_of_pages(const AttentionParams& p, std::int64_t row, std::int64_t kv_head,
                                     std::int64_t start, KeyRange range) {
  KvTile<Element> tile;
  tile.value_stride = p.layout.value_dim;
  tile.contiguous = false;
  for (const Element*& next : tile.next_keys) next = nullptr;
  tile.end_group = (range.end + kG - 1) / kG;
  for (std::int64_t group = range.begin / kG; group < tile.end_group; ++group) {
    tile.keys[group] = key_address<Element>(p, row, kv_head, start + group * kG);
    tile.values[group] = value_address<Element>(p, row, kv_head, start + group * kG);
  }
  return tile;
}

/// Where the sixteen keys of a group lie: one place, or two in pages of eight slots.
template <class Element>
struct KeyGroup {
  const Element* low;
  const Element* high;  // null: `low` holds all sixteen

  Lanes row(std::int64_t dim) const {
    if (high == nullptr) return load(low + dim * kG);
    float both[kG];
    store_first(both, load_first(low + dim * 8, 8), 8);
    store_first(both + 8, load_first(high + dim * 8, 8), 8);
    return load(both);
  }
};

/// Half a group that no query sees may have no page: the other half stands in, its scores are replaced.
template <class Element>
inline KeyGroup<Element> key_group(const AttentionParams& p, std::int64_t row, std::int64_t kv_head, std::int64_t key,
                                   std::int64_t begin, std::int64_t end) {
  if (p.layout.block_size >= kG) return {key_address<Element>(p, row, kv_head, key), nullptr};
  return {key_address<Element>(p, row, kv_head, begin < key + 8 ? key : key + 8),
          key_address<Element>(p, row, kv_head, key + 8 < end ? key + 8 : key)};
}

/// The groups of `range` widened. Slots outside the range may hold anything: their keys give scores that are replaced,
/// their values are not multiplied.
template <class Element>
inline KvTile<Wide> widened_tile(const AttentionParams& p, const Worker& w, std::int64_t row, std::int64_t kv_head,
                                 std::int64_t start, KeyRange range) {
  KvTile<Wide> tile;
  tile.value_stride = p.scratch.value_floats;
  tile.contiguous = true;
  for (const Wide*& next : tile.next_keys) next = nullptr;
  tile.end_group = (range.end + kG - 1) / kG;
  for (std::int64_t group = range.begin / kG; group < tile.end_group; ++group) {
    Wide* keys = w.keys + group * kG / kDepth * p.scratch.key_floats;
    tile.keys[group] = keys;
    tile.values[group] = w.values + group * kG / kDepth * p.scratch.value_floats;
    const auto from = key_group<Element>(p, row, kv_head, start + group * kG, start + range.begin, start + range.end);
    for (std::int64_t dim = 0; dim < p.layout.key_dim; dim += kDepth, keys += kG) {
      const bool pair = kDepth > 1 && dim + 1 < p.layout.key_dim;
      store_column(keys, columns_of(from.row(dim), pair ? from.row(dim + 1) : broadcast(0.0f)));
    }
  }
  for (std::int64_t key = range.begin / kDepth * kDepth; key < range.end; key += kDepth) {
    const Element* from = value_address<Element>(p, row, kv_head, start + key);
    Wide* values = w.values + key / kDepth * p.scratch.value_floats;
    for (std::int64_t dim = 0; dim < p.layout.value_dim; dim += kG) {
      const std::int64_t left = p.layout.value_dim - dim;
      const Lanes even = load_first(from + dim, left);
      const Lanes odd = kDepth > 1 ? load_first(from + p.layout.value_dim + dim, left) : even;
      store_column(values + dim, columns_of(even, odd));
    }
  }
  return tile;
}

}  // namespace
}  // namespace pagoda::kernels
