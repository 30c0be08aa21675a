// How keys and values of one layer lie in cache pages. A page (block) of `block_size` slots is, for each kv head, its
// keys and then its values, [block_size][value_dim]. Of the keys there are two orders:
//
//   lanes16  groups of G = min(16, block_size) slots, each [key_dim][G]: one vector of lanes is one element of G keys.
//            On hosts; elements are double, float, binary16 or bfloat16
//   heads    [block_size][key_dim]. On GPUs; elements are bfloat16 or e4m3
//
// Offsets are 64-bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace pagoda::kernels {

enum class KvOrder : std::uint8_t { kLanes16, kHeads };

constexpr std::string_view to_string(KvOrder order) { return order == KvOrder::kLanes16 ? "lanes16" : "heads"; }

struct KvLayout {
  static constexpr std::int64_t kGroup = 16;

  tensor::DType dtype = tensor::DType::kF16;
  std::int64_t block_size = 16;  ///< slots; a power of two from 8 to 256
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  KvOrder order = KvOrder::kLanes16;
  float key_scale = 1;  ///< of e4m3: an element stands for itself times this
  float value_scale = 1;

  bool operator==(const KvLayout&) const = default;

  constexpr std::int64_t group() const { return block_size < kGroup ? block_size : kGroup; }
  constexpr std::int64_t head_elements() const { return block_size * (key_dim + value_dim); }
  constexpr std::int64_t block_elements() const { return kv_heads * head_elements(); }
  constexpr std::int64_t block_bytes() const { return block_elements() * tensor::size_of(dtype); }

  // Element offsets inside a page of element `dim` of the key or value in `slot`.
  constexpr std::int64_t key_offset(std::int64_t head, std::int64_t slot, std::int64_t dim) const {
    if (order == KvOrder::kHeads) return head * head_elements() + slot * key_dim + dim;
    return head * head_elements() + slot / group() * group() * key_dim + dim * group() + slot % group();
  }
  constexpr std::int64_t value_offset(std::int64_t head, std::int64_t slot, std::int64_t dim) const {
    return head * head_elements() + block_size * key_dim + slot * value_dim + dim;
  }
};

/// Bytes one block takes in one layer.
constexpr std::int64_t kv_bytes_per_block(const KvLayout& layout) { return layout.block_bytes(); }

/// One layer's pages in a device's memory: page `id` begins at data + id · block_stride bytes.
struct KvPages {
  std::byte* data = nullptr;
  std::int64_t block_stride = 0;  ///< bytes; at least block_bytes, a multiple of 64
  std::int64_t num_blocks = 0;    ///< for GPUs, which have to know where the pages end
};

}  // namespace pagoda::kernels
