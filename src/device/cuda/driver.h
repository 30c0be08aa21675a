// The CUDA driver: found at run time, asked through one table, its failures turned into DeviceError.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/result.h"
#include "device/cuda/driver_api.h"
#include "device/cuda/shared_library.h"

namespace pagoda::device::cuda {

/// A device that failed in the middle of work. Thrown where a Result would have to cross code that cannot fail
/// otherwise; caught at three places: opening a model, the engine's loop, the server's handler.
class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

class Driver {
 public:
  /// Opens libcuda and starts it. Error: kDeviceMissing, one sentence that says what is missing: the library, an entry
  /// point (a driver older than 550), or a device.
  static Result<std::shared_ptr<const Driver>> load();

  /// A driver of the caller's own making, for tests.
  explicit Driver(const DriverApi& api) : api_(api) {}

  const DriverApi& api() const { return api_; }
  std::int32_t version() const { return version_; }  ///< as 13000 for 13.0

  /// Throws DeviceError if `result` is a failure; `what` says what was tried: "copying 4096 bytes to the device".
  void check(Result32 result, std::string_view what) const {
    if (result != kSuccess) [[unlikely]]
      raise(result, what);
  }

  /// The error a failed call stands for: kDeviceMemory for want of memory, else kDeviceLost.
  Error error_of(Result32 result, std::string_view what) const;

 private:
  explicit Driver(SharedLibrary library) : api_{}, library_(std::move(library)) {}
  [[noreturn]] void raise(Result32 result, std::string_view what) const;

  DriverApi api_;
  std::optional<SharedLibrary> library_;
  std::int32_t version_ = 0;
};

}  // namespace pagoda::device::cuda
