// How keys and values of one layer lie in cache pages. A page (block) of `block_size` slots is, for each kv head:
//
//   keys    groups of G = min(16, block_size) slots, each [key_dim][G]: one vector of lanes is one element of G keys
//   values  [block_size][value_dim]: one vector of lanes is neighbouring elements of one value
//
// The layout's name is "lanes16". Elements are double, float, binary16 or bfloat16. Offsets are 64-bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace pagoda::kernels {

struct KvLayout {
  static constexpr std::string_view kName = "lanes16";
  static constexpr std::int64_t kGroup = 16;

  tensor::DType dtype = tensor::DType::kF16;
  std::int64_t block_size = 16;  ///< slots; a power of two from 8 to 256
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;

  bool operator==(const KvLayout&) const = default;

  constexpr std::int64_t group() const { return block_size < kGroup ? block_size : kGroup; }
  constexpr std::int64_t head_elements() const { return block_size * (key_dim + value_dim); }
  constexpr std::int64_t block_elements() const { return kv_heads * head_elements(); }
  constexpr std::int64_t block_bytes() const { return block_elements() * tensor::size_of(dtype); }

  /// Element offset inside a page of element `dim` of the key in `slot`; slots of a group are neighbours.
  constexpr std::int64_t key_offset(std::int64_t head, std::int64_t slot, std::int64_t dim) const {
    return head * head_elements() + slot / group() * group() * key_dim + dim * group() + slot % group();
  }
  /// Element offset inside a page of element `dim` of the value in `slot`; elements of a value are neighbours.
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
};

}  // namespace pagoda::kernels
