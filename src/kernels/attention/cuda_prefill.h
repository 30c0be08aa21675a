// Parameters of cuda_prefill.cu, shared by host and device. Pages have the layout "heads", as in cuda_decode.h.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

/// Neighbouring tokens of one row: at most as many as a block's tile holds for each head of a group.
struct alignas(16) PrefillItem {
  std::int32_t row;
  std::int32_t token;     ///< the first
  std::int32_t count;     ///< tokens
  std::int32_t position;  ///< key number of the first
};

/// Grid (kv_heads, items). Items with the most keys come first, so that the last wave is short.
struct PrefillParams {
  const void* query = nullptr;  ///< (tokens, kv_heads · GROUP · key_dim) bf16
  void* output = nullptr;       ///< (tokens, kv_heads · GROUP · value_dim) bf16
  const void* pages = nullptr;
  const std::int32_t* block_tables;  ///< (rows, max_blocks)
  const PrefillItem* items;
  const float* sinks = nullptr;  ///< (heads), or null
  /// (tokens), or null: number of the last key that a token sees, which never falls within a row and is in the pages;
  /// null: its own. For spans whose tokens see each other (SPEC 4.4). Windows begin where they do without.
  const std::int32_t* last_keys = nullptr;
  std::int64_t query_stride, output_stride;  ///< elements
  std::int64_t block_stride;                 ///< bytes
  std::int64_t max_blocks;
  std::int32_t block_shift;  ///< log2 of the block size, 3 … 8
  std::int32_t window;       ///< 0: none
  float scale;               ///< of the scores; times the keys' scale for e4m3
  float softcap;             ///< with SOFTCAP only
  float value_scale;         ///< of e4m3 values; 1 else
};

/// Dynamic shared memory of a block of `rows` query vectors.
PAGODA_SHARED std::int64_t prefill_shared_bytes(std::int64_t key_dim, std::int64_t value_dim,
                                                std::int64_t element_bytes, std::int64_t rows, std::int64_t keys) {
  const std::int64_t stage = keys * (key_dim * 2 + value_dim * 2 + 32);
  return rows * (key_dim * 2 + 16) + stage + (element_bytes == 1 ? keys * (key_dim + value_dim) : stage);
}

}  // namespace pagoda::kernels
