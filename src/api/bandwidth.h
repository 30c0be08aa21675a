#pragma once

#include "base/result.h"
#include "device/cuda/cuda_device.h"

namespace pagoda::api {

/// Bytes a second that this many threads read together from memory far larger than the caches: the best of a few
/// short runs.
double measure_read_bandwidth(int threads);

/// Bytes a second that a GPU reads and writes together while it copies, far more than its caches hold: the best of a
/// few runs. Error: kDeviceMemory if it has no room for that.
Result<double> measure_copy_bandwidth(device::cuda::CudaDevice& device);

}  // namespace pagoda::api
