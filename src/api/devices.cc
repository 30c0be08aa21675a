#include "api/devices.h"

#include <charconv>

#include "device/cuda/cuda_device.h"
#include "kernels/cuda/embedded.h"
#include "runtime/cuda_runner.h"
#include "runtime/host_runner.h"

namespace pagoda::api {
namespace {

using device::cuda::Context;
using device::cuda::CudaDevice;
using device::cuda::Driver;

/// The number of "cuda:3"; 0 of "cuda"; -1 if it is neither.
std::int32_t ordinal_of(const std::string& device) {
  if (device == "cuda") return 0;
  if (!device.starts_with("cuda:")) return -1;
  std::int32_t ordinal = -1;
  const char* const end = device.data() + device.size();
  const auto read = std::from_chars(device.data() + 5, end, ordinal);
  return read.ec == std::errc() && read.ptr == end ? ordinal : -1;
}

Error unknown_device(const std::string& device) {
  return fail_param(ErrorCode::kInvalidArgument, "device",
                    "the device must be auto, cpu, cuda, cuda:N or reference, not \"{}\"", device);
}

Result<std::shared_ptr<const Driver>> driver_of(const Library::State& library) {
  const std::scoped_lock lock(library.mutex);
  if (!library.driver) library.driver = PAGODA_TRY(Driver::load());
  return library.driver;
}

Result<std::unique_ptr<CudaDevice>> open_gpu(const Library::State& library, std::int32_t ordinal) {
  const auto open = [&]() -> Result<std::unique_ptr<CudaDevice>> {
    return CudaDevice::open(PAGODA_TRY(driver_of(library)), ordinal, compiler_of(library));
  };
  auto device = open();
  if (device.ok()) return device;
  return fail_param(device.error().code, "device", "the device cuda:{} cannot be used: {}", ordinal,
                    device.error().message);
}

Result<PlannedDevice> on_host(const Library::State& library, const DescribedFile& described,
                              const ModelOptions& options, device::DeviceCaps caps) {
  model::Plan plan = PAGODA_TRY(plan_for(described.description, caps, options, library.threads));
  return PlannedDevice{std::make_unique<device::HostDevice>(std::move(caps)), std::move(plan)};
}

/// Where the CPU is not what was asked for: says why, once it is clear that it will do.
Result<PlannedDevice> on_host_because(std::string_view reason, const Library::State& library,
                                      const DescribedFile& described, const ModelOptions& options) {
  auto planned = on_host(library, described, options, library.cpu);
  if (planned.ok()) library.log(LogLevel::kInfo, pagoda::format("running on the CPU: {}", reason));
  return planned;
}

/// A GPU with the plan for it, if it holds that.
Result<PlannedDevice> on_gpu(const Library::State& library, const DescribedFile& described, const ModelOptions& options,
                             std::int32_t ordinal) {
  auto device = PAGODA_TRY(open_gpu(library, ordinal));
  model::Plan plan = PAGODA_TRY(plan_for(described.description, device->caps(), options, library.threads));
  if (!device->compiler().can_make(runtime::cuda_runner_units(plan))) {
    model::Plan slower = PAGODA_TRY(plan_for(described.description, device->caps(), options, library.threads, true));
    if (device->compiler().can_make(runtime::cuda_runner_units(slower))) {
      library.log(LogLevel::kWarning,
                  "NVRTC is not there to compile kernels for this model's sizes, and none are packed: slower ones that "
                  "take any sizes are used");
      plan = std::move(slower);
    }
  }
  const runtime::CacheSize size{.tokens = options.kv_tokens.value_or(0), .bytes = options.kv_bytes.value_or(0)};
  const runtime::RunnerMemory memory = PAGODA_TRY(runtime::runner_memory(plan, size));
  const std::int64_t needed = gpu_bytes(plan, memory);
  if (const std::int64_t free = device->context()->free_bytes(); needed > free) {
    return fail(ErrorCode::kDeviceMemory,
                "{} has {} bytes free, and the model needs {}: {} of weights, {} of KV cache, {} of workspace; --ctx "
                "and --kv-tokens make the cache smaller",
                device->caps().name, free, needed, plan.weight_bytes, memory.cache_bytes, memory.workspace_bytes);
  }
  return PlannedDevice{std::move(device), std::move(plan)};
}

Result<PlannedDevice> automatic(const Library::State& library, const DescribedFile& described,
                                const ModelOptions& options) {
  if (options.precision == Precision::kHigh) {
    return on_host_because("--precision high is the CPU's", library, described, options);
  }
  const auto driver = driver_of(library);
  std::string reason = driver.ok() ? "" : driver.error().message;
  const Result<std::int32_t> count = driver.ok() ? Context::device_count(**driver) : Result<std::int32_t>(0);
  for (std::int32_t ordinal = 0; count.ok() && ordinal < *count; ++ordinal) {
    Result<PlannedDevice> planned = on_gpu(library, described, options, ordinal);
    if (planned.ok() || kind_of(planned.error().code) == ErrorKind::kUsage) return planned;
    reason = planned.error().message;
  }
  return on_host_because(reason, library, described, options);
}

}  // namespace

std::int64_t gpu_bytes(const model::Plan& plan, const runtime::RunnerMemory& memory) {
  return plan.weight_bytes + memory.cache_bytes + memory.workspace_bytes + runtime::kMemoryReserve;
}

Result<PlannedDevice> choose_device(const Library::State& library, const DescribedFile& described,
                                    const ModelOptions& options) {
  if (options.device == "cpu") return on_host(library, described, options, library.cpu);
  if (options.device == "reference") return on_host(library, described, options, device::reference_caps());
  if (options.device == "auto") return automatic(library, described, options);
  const std::int32_t ordinal = ordinal_of(options.device);
  if (ordinal < 0) return unknown_device(options.device);
  return on_gpu(library, described, options, ordinal);
}

Result<device::DeviceCaps> choose_caps(const Library::State& library, const std::string& device,
                                       const std::string& caps_name) {
  if (!caps_name.empty() && (device == "cpu" || device == "reference")) {
    return fail_param(ErrorCode::kInvalidArgument, "caps", "the GPU {} is named, but the device is {}; cuda is wanted",
                      caps_name, device);
  }
  if (device == "cpu") return library.cpu;
  if (device == "reference") return device::reference_caps();
  const std::int32_t ordinal = device == "auto" ? 0 : ordinal_of(device);
  if (ordinal < 0) return unknown_device(device);
  if (!caps_name.empty()) return device::gpu_caps(caps_name);
  const auto gpu = open_gpu(library, ordinal);
  if (gpu.ok()) return (*gpu)->caps();
  if (device == "auto") return library.cpu;
  return gpu.error();
}

std::vector<DeviceInfo> gpus(const Library::State& library) {
  std::vector<DeviceInfo> found;
  const auto driver = driver_of(library);
  if (!driver.ok()) return found;
  const device::cuda::DriverApi& api = (*driver)->api();
  const Result<std::int32_t> count = Context::device_count(**driver);
  for (std::int32_t ordinal = 0; count.ok() && ordinal < *count; ++ordinal) {
    device::cuda::DeviceOrdinal device = 0;
    char name[256] = {};
    std::size_t bytes = 0;
    const bool told = api.device_get(&device, ordinal) == device::cuda::kSuccess &&
                      api.device_get_name(name, sizeof name, device) == device::cuda::kSuccess &&
                      api.device_total_memory(&bytes, device) == device::cuda::kSuccess;
    if (!told) continue;  // a card that has just been lost
    found.push_back({.id = pagoda::format("cuda:{}", ordinal),
                     .name = name,
                     .instructions = {},
                     .memory_bytes = static_cast<std::int64_t>(bytes)});
  }
  return found;
}

std::shared_ptr<device::cuda::Compiler> compiler_of(const Library::State& library) {
  const std::scoped_lock lock(library.mutex);
  if (library.compiler) return library.compiler;
  // Without NVRTC what is kept or packed still serves.
  auto nvrtc = device::cuda::Nvrtc::load();
  std::shared_ptr<const device::cuda::KernelPack> pack;
  if (!library.options.kernel_pack.empty()) {
    auto opened = device::cuda::KernelPack::open(library.options.kernel_pack);
    if (opened.ok()) pack = *std::move(opened);
    if (!opened.ok()) library.log(LogLevel::kWarning, opened.error().message + ": kernels are compiled instead");
  }
  library.compiler = std::make_shared<device::cuda::Compiler>(
      device::cuda::CompilerOptions{.cache_folder = library.options.cache_folder,
                                    .sources = kernels::embedded_sources(),
                                    .pack = std::move(pack),
                                    .nvrtc = nvrtc.ok() ? *nvrtc : nullptr,
                                    .num_threads = library.threads});
  return library.compiler;
}

}  // namespace pagoda::api
