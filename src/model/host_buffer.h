#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace pagoda::model {

/// Memory of the host that becomes real page by page, when it is first written. Aligned to a page, zero at first.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// `huge`: it is read often, so pages may be large, real in larger pieces. Error: kOutOfMemory, naming `purpose`.
  static Result<HostBuffer> allocate(std::int64_t bytes, const char* purpose, bool huge = false);

  HostBuffer(HostBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostBuffer();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace pagoda::model
