#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "device/cuda/cuda_device.h"
#include "model/plan.h"
#include "model/weights.h"
#include "runtime/cache_store.h"
#include "runtime/runner.h"

namespace pagoda::runtime {

/// Of a card: what stays free beside a cache of no given size, for others and for what the system takes later.
inline constexpr std::int64_t kMemoryReserve = std::int64_t{512} << 20;

/// A runner on a GPU. Two steps may be in flight: ids stay on the device and feed the step after, while the host reads
/// those of the step before. All device memory is taken here; a cache of no given size takes what is left once all else
/// is there, but no more than fill_cache says. The device is lent. `never_drawn` as make_host_runner's. Errors: those
/// of size_cache and Decoder::prepare; kDeviceMemory.
Result<std::unique_ptr<Runner>> make_cuda_runner(model::Plan plan, model::Weights weights,
                                                 device::cuda::CudaDevice& device, const CacheSize& cache = {},
                                                 std::vector<std::int32_t> never_drawn = {});

/// All device code that such a runner needs.
std::vector<device::CompileUnit> cuda_runner_units(const model::Plan& plan);

}  // namespace pagoda::runtime
