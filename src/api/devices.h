// Where a model runs: from the name in ModelOptions::device to a device that is ready to be planned for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/describe.h"
#include "device/device.h"
#include "runtime/host_runner.h"

namespace pagoda::api {

/// A device, and the plan of the model for it.
struct PlannedDevice {
  std::unique_ptr<device::Device> device;
  model::Plan plan;
};

/// "auto" is the first GPU that holds the model, else the CPU, with a line in the log that says why. Errors:
/// kInvalidArgument (no such word), kDeviceMissing and kDeviceUnfit (a GPU was asked for), those of plan_for.
Result<PlannedDevice> choose_device(const Library::State& library, const DescribedFile& described,
                                    const ModelOptions& options);

/// What a model takes of a GPU's memory, with what is left free there.
std::int64_t gpu_bytes(const model::Plan& plan, const runtime::RunnerMemory& memory);

/// What a plan may be made for without the device: a GPU's `caps_name` (see device::gpu_caps), or the CPU or the
/// reference. With neither it is the device itself, which has to be there.
Result<device::DeviceCaps> choose_caps(const Library::State& library, const std::string& device,
                                       const std::string& caps_name);

/// The GPUs that the driver shows, fit or not; none without a driver. Opens none of them.
std::vector<DeviceInfo> gpus(const Library::State& library);

/// The compiler of device code, with what is kept in the library's cache folder. One for all models.
std::shared_ptr<device::cuda::Compiler> compiler_of(const Library::State& library);

}  // namespace pagoda::api
