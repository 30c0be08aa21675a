// Device and pinned host memory. Sizes are checked; nothing here waits for the device unless it says so.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/checked.h"
#include "device/cuda/stream.h"

namespace pagoda::device::cuda {

struct PoolStats {
  std::int64_t reserved_bytes = 0;  ///< taken from the card
  std::int64_t used_bytes = 0;
};

/// Memory that is allocated and freed in a stream's order, for work that comes and goes. No captured graph may hold an
/// address of it: these live in an AddressRange.
class MemoryPool {
 public:
  /// Up to `release_threshold` bytes are kept when free.
  MemoryPool(ContextPtr context, std::int64_t release_threshold);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// `bytes` > 0. Error: kDeviceMemory with what was asked for and what is free.
  Result<DeviceAddress> allocate(std::int64_t bytes, const CudaStream& stream);
  void free(DeviceAddress address, const CudaStream& stream) noexcept;

  PoolStats stats() const;
  void trim(std::int64_t bytes_to_keep);

 private:
  ContextPtr context_;
  MemoryPoolHandle handle_ = nullptr;
};

/// `count` elements in a pool, freed in the order of the stream they were made on. Pool and stream must outlive it.
template <class T>
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> create(MemoryPool& pool, const CudaStream& stream, std::int64_t count) {
    const auto bytes = checked_mul(count, static_cast<std::int64_t>(sizeof(T)));
    if (count <= 0 || !bytes) return fail(ErrorCode::kInvalidArgument, "a device buffer of {} elements", count);
    return DeviceBuffer(pool, stream, PAGODA_TRY(pool.allocate(*bytes, stream)), count);
  }

  DeviceBuffer(DeviceBuffer&& other) noexcept
      : pool_(other.pool_), stream_(other.stream_), address_(std::exchange(other.address_, 0)), count_(other.count_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(stream_, other.stream_);
    std::swap(address_, other.address_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() {
    if (address_ != 0) pool_->free(address_, *stream_);
  }

  T* data() const { return reinterpret_cast<T*>(address_); }
  std::int64_t count() const { return count_; }

 private:
  DeviceBuffer(MemoryPool& pool, const CudaStream& stream, DeviceAddress address, std::int64_t count)
      : pool_(&pool), stream_(&stream), address_(address), count_(count) {}

  MemoryPool* pool_;
  const CudaStream* stream_;
  DeviceAddress address_ = 0;
  std::int64_t count_ = 0;
};

/// Addresses reserved once, of which a growing prefix has memory behind it: what graphs and tensor maps may hold.
class AddressRange {
 public:
  /// Reserves addresses only. Error: kDeviceMemory.
  static Result<AddressRange> reserve(ContextPtr context, std::int64_t bytes);

  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  ~AddressRange();

  /// Puts memory behind the first `bytes` of it, rounded up; what is there already stays. Error: kDeviceMemory, with
  /// what was asked for and what is free; then nothing has changed.
  Status map(std::int64_t bytes);

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  std::int64_t reserved_bytes() const { return reserved_; }
  std::int64_t mapped_bytes() const { return mapped_; }

 private:
  struct Piece {
    MemoryHandle handle;
    std::int64_t bytes;
  };

  AddressRange() = default;

  ContextPtr context_;
  DeviceAddress address_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t mapped_ = 0;
  std::int64_t granularity_ = 0;
  std::vector<Piece> pieces_;
};

/// Host memory that the device reads and writes directly, zeroed. The host's own access waits for the transfers that
/// were started on it.
class PinnedBytes {
 public:
  static Result<PinnedBytes> create(ContextPtr context, std::int64_t bytes);

  PinnedBytes(PinnedBytes&& other) noexcept;
  PinnedBytes& operator=(PinnedBytes&& other) noexcept;
  ~PinnedBytes();

  /// Waits until no transfer started below is under way.
  std::byte* host();
  std::int64_t bytes() const { return bytes_; }

  /// Starts a copy of bytes [offset, offset + bytes).
  void upload(std::int64_t offset, std::int64_t bytes, void* device, CudaStream& stream);
  void download(std::int64_t offset, std::int64_t bytes, const void* device, CudaStream& stream);

 private:
  PinnedBytes() = default;
  void check_range(std::int64_t offset, std::int64_t bytes) const;
  void note_transfer(CudaStream& stream);

  ContextPtr context_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::unique_ptr<Event> last_;
  bool busy_ = false;
};

/// The same, of elements.
template <class T>
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> create(ContextPtr context, std::int64_t count) {
    const auto bytes = checked_mul(count, static_cast<std::int64_t>(sizeof(T)));
    if (count <= 0 || !bytes) return fail(ErrorCode::kInvalidArgument, "a pinned buffer of {} elements", count);
    return PinnedBuffer(PAGODA_TRY(PinnedBytes::create(std::move(context), *bytes)));
  }

  std::span<T> host() { return {reinterpret_cast<T*>(bytes_.host()), static_cast<std::size_t>(count())}; }
  std::int64_t count() const { return bytes_.bytes() / static_cast<std::int64_t>(sizeof(T)); }
  void upload(std::int64_t first, std::int64_t count, T* device, CudaStream& stream) {
    bytes_.upload(first * kSize, count * kSize, device, stream);
  }
  void download(std::int64_t first, std::int64_t count, const T* device, CudaStream& stream) {
    bytes_.download(first * kSize, count * kSize, device, stream);
  }

 private:
  static constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  explicit PinnedBuffer(PinnedBytes bytes) : bytes_(std::move(bytes)) {}

  PinnedBytes bytes_;
};

}  // namespace pagoda::device::cuda
