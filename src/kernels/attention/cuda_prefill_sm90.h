// Parameters of cuda_prefill_sm90.cu, shared by host and device. Pages have the layout "heads", as in cuda_decode.h.
#pragma once

#include "kernels/attention/cuda_prefill.h"

namespace pagoda::kernels {

/// Where a box of keys or values is: a tensor map over (dim, slot, head, page), bf16, boxes of 64 × prefill_box_slots,
/// rows swizzled in 128 bytes, zeros past `dim`. Made by the driver; see prefill_sm90_plan.h.
struct alignas(64) PageMap {
  std::uint64_t opaque[16];
};

/// Grid: at most one block a multiprocessor; blocks take works from a list of num_items · kv_heads (heads within
/// items). Items with the most keys come first, so that blocks end together. The fields that PrefillParams has mean the
/// same.
struct PrefillSm90Params {
  PageMap keys = {}, values = {};
  const void* query = nullptr;
  void* output = nullptr;
  const std::int32_t* block_tables;
  const PrefillItem* items;
  const float* sinks = nullptr;
  const std::int32_t* last_keys = nullptr;
  std::int32_t* counters;  ///< (2) zeros, and zeros again when the launch ends; of one launch at a time
  std::int64_t query_stride, output_stride;
  std::int64_t max_blocks;
  std::int32_t num_items;
  std::int32_t kv_heads;
  std::int32_t block_shift;
  std::int32_t window;
  float scale;
  float softcap;
};

/// Slots of a page that one copy brings: a divisor of both the block size and the tile of keys.
PAGODA_SHARED std::int32_t prefill_box_slots(std::int32_t block_size, std::int32_t keys) {
  const std::int32_t divisor = keys & -keys;
  return block_size < divisor ? block_size : divisor;
}

/// Query tiles that a block holds: the next work's arrives while one is worked on, if there is room for it.
PAGODA_SHARED constexpr std::int32_t prefill_sm90_query_tiles(std::int64_t key_dim, std::int64_t value_dim,
                                                              std::int64_t rows, std::int64_t keys,
                                                              std::int64_t stages) {
  const std::int64_t key_slices = (key_dim + 63) / 64, value_slices = (value_dim + 63) / 64;
  const std::int64_t tiles = 128 * (2 * rows * key_slices + stages * keys * (key_slices + value_slices));
  return tiles + 640 <= 227 * 1024 ? 2 : 1;
}

/// Dynamic shared memory: query tiles, `stages` tiles of keys and of values in slices of 64 dims, works and barriers.
PAGODA_SHARED std::int64_t prefill_sm90_shared_bytes(std::int64_t key_dim, std::int64_t value_dim, std::int64_t rows,
                                                     std::int64_t keys, std::int64_t stages) {
  const std::int64_t key_slices = (key_dim + 63) / 64, value_slices = (value_dim + 63) / 64;
  const std::int64_t query_tiles = prefill_sm90_query_tiles(key_dim, value_dim, rows, keys, stages);
  return 128 * (query_tiles * rows * key_slices + stages * keys * (key_slices + value_slices)) + 640;
}

}  // namespace pagoda::kernels
