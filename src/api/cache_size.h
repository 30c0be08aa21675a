// How large the KV cache of a model is to be, and why.
#pragma once

#include <string>

#include "device/device.h"
#include "model/plan.h"
#include "pagoda/model.h"
#include "runtime/cache_store.h"

namespace pagoda::api {

/// Of a device, as it is now.
struct DeviceMemory {
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  ///< of a host: available
};
DeviceMemory device_memory(device::Device& device);

/// What the options ask for. If they leave it open: on a GPU nothing is said, and the runner takes what is left; on a
/// host a context for each sequence that may run, as far as half of `free_bytes` goes, and one at least. Error: that of
/// size_cache.
Result<runtime::CacheSize> cache_size(const ModelOptions& options, const model::Plan& plan, std::int64_t free_bytes);

/// What set the size of a model's cache, in words.
std::string cache_reason(const ModelOptions& options, device::DeviceKind kind, const ModelInfo& info);

}  // namespace pagoda::api
