#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/caps.h"
#include "device/cuda/driver.h"

namespace pagoda::device::cuda {

/// A GPU's primary context, retained as long as this lives.
class Context {
 public:
  /// Errors: kDeviceMissing if there is no such device, kDeviceUnfit below compute capability 8.0.
  static Result<std::shared_ptr<const Context>> create(std::shared_ptr<const Driver> driver, std::int32_t ordinal);

  static Result<std::int32_t> device_count(const Driver& driver);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  const DriverApi& api() const { return driver_->api(); }
  const GpuCaps& caps() const { return caps_; }
  const std::string& name() const { return name_; }
  std::int32_t ordinal() const { return ordinal_; }

  /// Makes it the calling thread's; every thread that uses the GPU does so once.
  void make_current() const;

  std::int64_t free_bytes() const;  ///< of the whole card, now
  std::int64_t total_bytes() const;

 private:
  Context(std::shared_ptr<const Driver> driver, std::int32_t ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}

  std::shared_ptr<const Driver> driver_;
  std::int32_t ordinal_;
  DeviceOrdinal device_ = 0;
  ContextHandle handle_ = nullptr;
  GpuCaps caps_;
  std::string name_;
};

using ContextPtr = std::shared_ptr<const Context>;

}  // namespace pagoda::device::cuda
