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

/// A runner on a GPU. Two steps may be in flight: ids stay on the device and feed the step after, while the host reads
/// those of the step before. All device memory is taken here. The device is lent. Errors: those of size_cache and
/// Decoder::prepare; kDeviceMemory.
Result<std::unique_ptr<Runner>> make_cuda_runner(model::Plan plan, model::Weights weights,
                                                 device::cuda::CudaDevice& device, const CacheSize& cache = {});

/// All device code that such a runner needs.
std::vector<device::CompileUnit> cuda_runner_units(const model::Plan& plan);

}  // namespace pagoda::runtime
