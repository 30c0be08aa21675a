// A device that work can be prepared for: what it can do, and its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"
#include "device/caps.h"

namespace pagoda::device {

/// Memory of a device, given back when this is destroyed. Its address never changes.
class Memory {
 public:
  Memory() = default;
  Memory(std::byte* data, std::int64_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        release_(std::exchange(other.release_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Memory() {
    if (release_) release_();
  }

  std::byte* data() const { return data_; }  ///< an address of the device
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::function<void()> release_;
};

/// How memory is going to be used.
enum class Use : std::uint8_t {
  kOnce,   ///< written and read in order
  kOften,  ///< read again and again: large pages help
};

/// What plans are prepared for. Owned by whoever opens a model; outlives all that was prepared with it.
class Device {
 public:
  virtual ~Device() = default;

  const DeviceCaps& caps() const { return caps_; }

  /// Aligned to 256 bytes. Zeroed on a host, where it becomes real page by page as it is first written. Nothing for 0
  /// bytes. Error: kOutOfMemory or kDeviceMemory, naming `purpose`, what was asked for and what there is.
  virtual Result<Memory> allocate(std::int64_t bytes, const char* purpose, Use use = Use::kOnce) = 0;

  /// Copies host memory to memory of the device and waits for it: for the little that is made while preparing.
  virtual void upload(std::byte* to, const void* from, std::int64_t bytes) = 0;

 protected:
  explicit Device(DeviceCaps caps) : caps_(std::move(caps)) {}

 private:
  DeviceCaps caps_;
};

/// The CPU, or the reference on it.
class HostDevice final : public Device {
 public:
  explicit HostDevice(DeviceCaps caps) : Device(std::move(caps)) {}
  Result<Memory> allocate(std::int64_t bytes, const char* purpose, Use use = Use::kOnce) override;
  void upload(std::byte* to, const void* from, std::int64_t bytes) override;
};

}  // namespace pagoda::device
