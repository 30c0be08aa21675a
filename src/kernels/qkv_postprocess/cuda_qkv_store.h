// Parameters of cuda_qkv_store.cu, shared by host and device.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct CudaQkvStoreParams {
  const void* query;        ///< (tokens, num_heads · KEY_DIM): bf16 or float, as the unit says, as the next two
  const void* key;          ///< (tokens, num_kv_heads · KEY_DIM)
  const void* value;        ///< (tokens, num_kv_heads · VALUE_DIM)
  const float* query_bias;  ///< one an element of a row, or null; as the next two
  const float* key_bias;
  const float* value_bias;
  const float* query_norm;          ///< (KEY_DIM), with a norm
  const float* key_norm;            ///< (KEY_DIM), with a norm
  const float* rope;                ///< (positions, num_pairs, 2): cosine and sine, times the attention factor; or null
  const std::int64_t* positions;    ///< (tokens)
  const std::int64_t* write_slots;  ///< (tokens) page id · block size + slot; -1 writes nothing
  void* query_out;                  ///< (tokens, num_heads · KEY_DIM) bf16; may be a bf16 query itself
  void* pages;  ///< page: for each kv head the keys [slot][KEY_DIM], then the values [slot][VALUE_DIM]
  std::int64_t query_stride, key_stride, value_stride, query_out_stride;  ///< elements
  std::int64_t block_stride;                                              ///< bytes
  std::int64_t tokens;
  std::int32_t num_heads, num_kv_heads;
  std::int32_t key_dim, value_dim;  ///< KEY_DIM and VALUE_DIM, if these are not 0
  std::int32_t block_size;
  std::int32_t num_pairs;    ///< of the rotation
  std::int32_t pairing_dim;  ///< elements that pairs are formed from
  float epsilon;
  float weight_shift;
  float key_scale, value_scale;  ///< what is stored is divided by it
  std::int32_t wide;             ///< 1: a lane takes 8 elements of a head, see qkv_store_heads
};

/// Heads of one token that a warp takes at once if `wide`: where keys and values have the same dims and the rotation,
/// if there is one, is of all of them, in halves; rows then begin at multiples of four elements. 0: not possible.
PAGODA_SHARED constexpr int qkv_store_heads(std::int64_t key_dim, std::int64_t value_dim, bool interleaved) {
  const bool fits = key_dim == value_dim && !interleaved && (key_dim == 64 || key_dim == 128 || key_dim == 256);
  return fits ? static_cast<int>(256 / key_dim) : 0;
}

}  // namespace pagoda::kernels
