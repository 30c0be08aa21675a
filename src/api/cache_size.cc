#include "api/cache_size.h"

#include <algorithm>

#include "device/cuda/cuda_device.h"
#include "device/host_memory.h"

namespace pagoda::api {

using device::DeviceKind;

DeviceMemory device_memory(device::Device& device) {
  if (device.caps().kind == DeviceKind::kCuda) {
    const device::cuda::Context& context = *device::cuda::cuda(device).context();
    return {.total_bytes = context.total_bytes(), .free_bytes = context.free_bytes()};
  }
  const device::HostMemory memory = device::host_memory();
  return {.total_bytes = memory.total_bytes, .free_bytes = memory.available_bytes};
}

Result<runtime::CacheSize> cache_size(const ModelOptions& options, const model::Plan& plan, std::int64_t free_bytes) {
  if (options.kv_tokens || options.kv_bytes || plan.caps.kind == DeviceKind::kCuda) {
    return runtime::CacheSize{.tokens = options.kv_tokens.value_or(0), .bytes = options.kv_bytes.value_or(0)};
  }
  const std::int64_t one = runtime::cache_bytes(PAGODA_TRY(runtime::size_cache(plan, {})));
  const std::int64_t workspace = plan.activation_bytes + plan.scratch_bytes;
  return runtime::CacheSize{.tokens = options.max_running * plan.options.context,
                            .bytes = std::max(one, (free_bytes - workspace) / 2)};
}

std::string cache_reason(const ModelOptions& options, DeviceKind kind, const ModelInfo& info) {
  if (options.kv_tokens || options.kv_bytes) return "as asked";
  if (info.kv_tokens >= options.max_running * info.context) {
    return pagoda::format("one context for each of {} sequences", options.max_running);
  }
  if (kind == DeviceKind::kCuda) return "what the GPU had left";
  return info.kv_tokens < info.context + info.block_size ? "one context" : "half of the memory that was available";
}

}  // namespace pagoda::api
