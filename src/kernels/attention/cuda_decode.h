// Parameters of cuda_decode.cu, shared by host and device, and the work list that its two kernels share.
//
// Pages have the layout "heads": for each kv head the keys [slot][key_dim], then the values [slot][value_dim].
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

/// One partition of one row's keys; each kv head of it is one piece of work.
struct alignas(16) DecodeItem {
  std::int32_t row;
  std::int32_t first_place;  ///< of the row's partial results; partition i has the i-th from there
  std::uint16_t part;        ///< this partition's number
  std::uint16_t count;       ///< of the row's partitions
  std::int32_t begin, end;   ///< keys
  std::int32_t token;        ///< the row's first
  std::int32_t num_tokens;   ///< the row's, 1 … TOKENS
  std::int32_t start;        ///< key number of the row's first token
};

/// A partition that no row exceeds.
inline constexpr std::int32_t kWholeRows = 1 << 30;

struct DecodeSchedule {
  std::int32_t num_items;
  std::int32_t partition;    ///< keys; partitions begin at its multiples
  std::int32_t used_tokens;  ///< tokens from here on are padding
  std::int32_t unused;
};

/// Once a step and window: cuts all rows of at most `max_tokens` tokens into partitions. One block of 256 threads.
struct DecodeScheduleParams {
  const std::int64_t* row_offsets;  ///< (rows + 1)
  const std::int64_t* row_starts;   ///< (rows)
  DecodeSchedule* schedule;
  DecodeItem* items;     ///< (capacity), long ones first if blocks take several
  std::int32_t* prefix;  ///< (rows + 1) scratch
  std::int64_t num_rows;
  std::int64_t window;           ///< keys seen; 0: all
  std::int32_t max_tokens;       ///< rows of more tokens are another kernel's
  std::int32_t kv_heads;         ///< pieces of work of one item
  std::int32_t blocks;           ///< of the attention kernel's grid
  std::int32_t fixed_partition;  ///< not 0: this partition, so that a row's bits do not depend on its neighbours
  std::int32_t capacity;         ///< items: at least the rows; a partition grows until its items fit
};

struct DecodeParams {
  const void* query = nullptr;  ///< (tokens, kv_heads · GROUP · key_dim) bf16
  void* output = nullptr;       ///< (tokens, kv_heads · GROUP · value_dim) bf16
  const void* pages = nullptr;
  const std::int32_t* block_tables;  ///< (rows, max_blocks)
  const DecodeSchedule* schedule;
  const DecodeItem* items;
  float* partial;                            ///< (items, kv_heads, columns, value_dim)
  float* stats;                              ///< (items, kv_heads, columns, 2): maximum, sum
  std::int32_t* counters;                    ///< (rows, kv_heads): zeros before and after
  const float* sinks = nullptr;              ///< (heads), or null
  std::int64_t query_stride, output_stride;  ///< elements
  std::int64_t block_stride;                 ///< bytes
  std::int64_t max_blocks;
  std::int64_t num_tokens;  ///< padding included
  std::int32_t kv_heads;
  std::int32_t block_shift;  ///< log2 of the block size, 3 … 8
  std::int32_t window;       ///< 0: none
  float scale;               ///< of the scores; times the keys' scale for fp8
  float softcap;             ///< 0: none
  float value_scale;         ///< of fp8 values; 1 else
};

/// Dynamic shared memory of a block: the warps' rings and outputs. `columns`: GROUP · TOKENS.
PAGODA_SHARED std::int64_t decode_shared_bytes(std::int64_t key_dim, std::int64_t value_dim, std::int64_t columns,
                                               std::int64_t element_bytes, std::int64_t warps, std::int64_t stages) {
  const std::int64_t key_row = (key_dim * element_bytes + 127) / 128 * 128;
  const std::int64_t value_row = (value_dim * element_bytes + 127) / 128 * 128;
  const std::int64_t ring = stages * 16 * (key_row + value_row);
  const std::int64_t out = (columns + 7) / 8 * 8 * value_dim * 4;
  return warps * (ring + out);
}

}  // namespace pagoda::kernels
