// Parameters of cuda_any_dims.cu, shared by host and device. Pages have the layout "heads", as in cuda_decode.h.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

inline constexpr int kAnyDimsMost = 512;  ///< elements of a key or value
inline constexpr int kAnyDimsWarps = 16;

/// Grid (heads, tokens, in turn), kAnyDimsWarps warps a block.
struct AnyDimsParams {
  const void* query = nullptr;  ///< (tokens, heads · key_dim) bf16
  void* output = nullptr;       ///< (tokens, heads · value_dim) bf16
  const void* pages = nullptr;
  const std::int32_t* block_tables;  ///< (rows, max_blocks)
  const std::int64_t* row_offsets;   ///< (rows + 1)
  const std::int64_t* row_starts;    ///< (rows)
  const float* sinks = nullptr;      ///< (heads), or null
  std::int64_t num_tokens, num_rows;
  std::int64_t query_stride, output_stride;  ///< elements
  std::int64_t block_stride;                 ///< bytes
  std::int64_t max_blocks;
  std::int32_t heads, kv_heads;
  std::int32_t key_dim, value_dim;  ///< even, at most kAnyDimsMost
  std::int32_t block_shift;         ///< log2 of the block size, 3 … 8
  std::int32_t window;              ///< 0: none
  float scale;                      ///< of the scores; times the keys' scale for e4m3
  float softcap;                    ///< 0: none
  float value_scale;                ///< of e4m3 values; 1 else
};

}  // namespace pagoda::kernels
