#include "device/cuda/context.h"

namespace pagoda::device::cuda {
namespace {

std::int32_t attribute(const Driver& driver, DeviceOrdinal device, std::int32_t which) {
  std::int32_t value = 0;
  driver.check(driver.api().device_get_attribute(&value, which, device), "asking for a device's attribute");
  return value;
}

struct MemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

MemoryInfo memory_info(const Driver& driver) {
  MemoryInfo info;
  driver.check(driver.api().memory_get_info(&info.free_bytes, &info.total_bytes), "asking for free memory");
  return info;
}

}  // namespace

Result<std::int32_t> Context::device_count(const Driver& driver) {
  std::int32_t count = 0;
  if (const Result32 result = driver.api().device_get_count(&count); result != kSuccess) {
    return driver.error_of(result, "counting devices");
  }
  return count;
}

Result<ContextPtr> Context::create(std::shared_ptr<const Driver> driver, std::int32_t ordinal) {
  const std::int32_t count = PAGODA_TRY(device_count(*driver));
  if (ordinal < 0 || ordinal >= count) {
    return fail_param(ErrorCode::kDeviceMissing, "device", "there is no device cuda:{}; this machine has {}", ordinal,
                      count);
  }
  std::shared_ptr<Context> context(new Context(std::move(driver), ordinal));
  const Driver& loaded = context->driver();
  const DriverApi& api = loaded.api();
  try {
    loaded.check(api.device_get(&context->device_, ordinal), "opening the device");
    char name[256] = {};
    loaded.check(api.device_get_name(name, sizeof name, context->device_), "asking for the device's name");
    context->name_ = name;
    std::size_t memory = 0;
    loaded.check(api.device_total_memory(&memory, context->device_), "asking for the device's memory");
    context->caps_ = {.compute_major = attribute(loaded, context->device_, kAttributeComputeMajor),
                      .compute_minor = attribute(loaded, context->device_, kAttributeComputeMinor),
                      .num_sms = attribute(loaded, context->device_, kAttributeNumSms),
                      .shared_bytes_per_block = attribute(loaded, context->device_, kAttributeMaxSharedPerBlockOptin),
                      .l2_bytes = attribute(loaded, context->device_, kAttributeL2Bytes),
                      .memory_bytes = static_cast<std::int64_t>(memory)};
    if (context->caps_.compute() < 80) {
      return fail_param(ErrorCode::kDeviceUnfit, "device", "{} has compute capability {}.{}; 8.0 or newer is needed",
                        context->name_, context->caps_.compute_major, context->caps_.compute_minor);
    }
    loaded.check(api.primary_context_retain(&context->handle_, context->device_), "opening the device's context");
    context->make_current();
  } catch (const DeviceError& error) {
    return error.error();
  }
  return ContextPtr(std::move(context));
}

Context::~Context() {
  if (handle_ != nullptr) api().primary_context_release(device_);
}

void Context::make_current() const { driver_->check(api().context_set_current(handle_), "using the device's context"); }

std::int64_t Context::free_bytes() const { return static_cast<std::int64_t>(memory_info(*driver_).free_bytes); }
std::int64_t Context::total_bytes() const { return static_cast<std::int64_t>(memory_info(*driver_).total_bytes); }

}  // namespace pagoda::device::cuda
