// Each token's keys and values into its slot, rounded to the cache's type: to nearest, ties to even.
// A unit is a token. 16 elements are narrowed at a time; a value's go to neighbouring places, a key's to every G-th
// (the layout keeps the same element of G keys together), so pieces of tokens are whole groups to keep threads off each
// other's cache lines. Reads 4 bytes an element, writes the cache's size. Chosen on every CPU.
#pragma once

#include "kernels/kv_store/cpu_params.h"

namespace pagoda::kernels {
namespace {

template <class Element>
inline void store_token(const KvStoreParams& p, std::int64_t token, std::int64_t write_slot) {
  const KvLayout& layout = p.layout;
  auto* page = reinterpret_cast<Element*>(p.pages + write_slot / layout.block_size * p.block_stride);
  const std::int64_t slot = write_slot % layout.block_size;
  const float* key = p.key + token * p.key_stride;
  const float* value = p.value + token * p.value_stride;
  for (std::int64_t head = 0; head < layout.kv_heads; ++head, key += layout.key_dim, value += layout.value_dim) {
    Element narrow[16];
    Element* to = page + layout.key_offset(head, slot, 0);
    for (std::int64_t dim = 0; dim < layout.key_dim; dim += 16) {
      const std::int64_t count = layout.key_dim - dim < 16 ? layout.key_dim - dim : 16;
      store(narrow, load_first(key + dim, count));
      for (std::int64_t i = 0; i < count; ++i) to[(dim + i) * layout.group()] = narrow[i];
    }
    to = page + layout.value_offset(head, slot, 0);
    for (std::int64_t dim = 0; dim < layout.value_dim; dim += 16) {
      const std::int64_t count = layout.value_dim - dim < 16 ? layout.value_dim - dim : 16;
      store(narrow, load_first(value + dim, count));
      for (std::int64_t i = 0; i < count; ++i) to[dim + i] = narrow[i];
    }
  }
}

inline void kv_store_tokens(const KvStoreParams& p, device::HostRange range) {
  for (std::int64_t token = range.begin; token < range.end; ++token) {
    const std::int64_t slot = p.write_slots[token];
    if (slot < 0) continue;
    if (p.layout.dtype == tensor::DType::kF16) store_token<Half>(p, token, slot);
    if (p.layout.dtype == tensor::DType::kBf16) store_token<Brain>(p, token, slot);
    if (p.layout.dtype == tensor::DType::kF32) store_token<float>(p, token, slot);
  }
}

}  // namespace
}  // namespace pagoda::kernels
