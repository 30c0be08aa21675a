#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/kv_store/kv_layout.h"

namespace pagoda::kernels {

struct KvStoreParams {
  const float* key;
  const float* value;
  const std::int64_t* write_slots;
  std::byte* pages;
  std::int64_t block_stride, key_stride, value_stride;
  KvLayout layout;
};

/// Units are tokens.
void kv_store_portable(const KvStoreParams& params, device::HostRange range);
void kv_store_avx2(const KvStoreParams& params, device::HostRange range);
void kv_store_avx512(const KvStoreParams& params, device::HostRange range);

}  // namespace pagoda::kernels
