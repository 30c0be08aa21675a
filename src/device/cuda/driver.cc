#include "device/cuda/driver.h"

namespace pagoda::device::cuda {
namespace {

// Signatures of the table are those of this version, whatever the driver's own.
constexpr std::int32_t kApiVersion = 12040;

using GetProcAddress = Result32 (*)(const char* symbol, void** function, std::int32_t version, std::uint64_t flags,
                                    std::int32_t* status);

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::load() {
  auto library = SharedLibrary::open({"libcuda.so.1"});
  if (!library.ok()) {
    return fail(ErrorCode::kDeviceMissing, "no NVIDIA driver on this machine ({})", library.error().message);
  }
  std::shared_ptr<Driver> driver(new Driver(std::move(*library)));
  const auto get = reinterpret_cast<GetProcAddress>(driver->library_->symbol("cuGetProcAddress_v2"));
  if (get == nullptr) return fail(ErrorCode::kDeviceUnfit, "the NVIDIA driver is older than version 550 (CUDA 12.4)");
  const char* missing = nullptr;
  for_each_entry(driver->api_, [&](const char* name, auto& entry) {
    void* function = nullptr;
    std::int32_t status = 0;
    if (get(name, &function, kApiVersion, 0, &status) != kSuccess || function == nullptr) missing = name;
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(function);
  });
  if (missing != nullptr) {
    return fail(ErrorCode::kDeviceUnfit, "the NVIDIA driver lacks {}; version 550 (CUDA 12.4) or newer is needed",
                missing);
  }
  if (const Result32 result = driver->api_.init(0); result != kSuccess) {
    const char* text = nullptr;
    driver->api_.get_error_string(result, &text);
    return fail(ErrorCode::kDeviceMissing, "the NVIDIA driver finds no device it can use ({})",
                text != nullptr ? text : "no reason given");
  }
  driver->api_.driver_get_version(&driver->version_);
  return std::shared_ptr<const Driver>(std::move(driver));
}

Error Driver::error_of(Result32 result, std::string_view what) const {
  const char* name = nullptr;
  const char* text = nullptr;
  api_.get_error_name(result, &name);
  api_.get_error_string(result, &text);
  return fail(result == kOutOfMemory ? ErrorCode::kDeviceMemory : ErrorCode::kDeviceLost, "{} failed: {} ({})", what,
              text != nullptr ? text : "unknown error", name != nullptr ? name : "no name");
}

void Driver::raise(Result32 result, std::string_view what) const { throw DeviceError(error_of(result, what)); }

}  // namespace pagoda::device::cuda
