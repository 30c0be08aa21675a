#include "device/cuda/memory.h"

#include <algorithm>
#include <cstring>

namespace pagoda::device::cuda {
namespace {

Error no_memory(const Context& context, std::int64_t bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  context.api().memory_get_info(&free_bytes, &total_bytes);
  return fail(ErrorCode::kDeviceMemory, "{} MiB of device memory were asked for, and {} MiB of {} are free",
              bytes >> 20, free_bytes >> 20, context.name());
}

MemoryLocation location_of(const Context& context) { return {.type = 1, .id = context.ordinal()}; }

MemoryAllocationProp allocation_prop(const Context& context) {
  MemoryAllocationProp prop{};
  prop.location = location_of(context);
  return prop;
}

}  // namespace

MemoryPool::MemoryPool(ContextPtr context, std::int64_t release_threshold) : context_(std::move(context)) {
  MemoryPoolProps props{};
  props.location = location_of(*context_);
  context_->driver().check(context_->api().pool_create(&handle_, &props), "making a memory pool");
  auto threshold = static_cast<std::uint64_t>(release_threshold);
  context_->driver().check(context_->api().pool_set_attribute(handle_, kPoolReleaseThreshold, &threshold),
                           "setting a memory pool's threshold");
}

MemoryPool::~MemoryPool() { context_->api().pool_destroy(handle_); }

Result<DeviceAddress> MemoryPool::allocate(std::int64_t bytes, const CudaStream& stream) {
  PAGODA_CHECK(bytes > 0, "bytes {}", bytes);
  DeviceAddress address = 0;
  const Result32 result =
      context_->api().pool_alloc_async(&address, static_cast<std::size_t>(bytes), handle_, stream.handle());
  if (result == kOutOfMemory) return no_memory(*context_, bytes);
  context_->driver().check(result, "allocating device memory");
  return address;
}

void MemoryPool::free(DeviceAddress address, const CudaStream& stream) noexcept {
  context_->api().free_async(address, stream.handle());
}

PoolStats MemoryPool::stats() const {
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  context_->driver().check(context_->api().pool_get_attribute(handle_, kPoolReservedBytes, &reserved), "asking a pool");
  context_->driver().check(context_->api().pool_get_attribute(handle_, kPoolUsedBytes, &used), "asking a pool");
  return {.reserved_bytes = static_cast<std::int64_t>(reserved), .used_bytes = static_cast<std::int64_t>(used)};
}

void MemoryPool::trim(std::int64_t bytes_to_keep) {
  context_->driver().check(context_->api().pool_trim(handle_, static_cast<std::size_t>(bytes_to_keep)),
                           "trimming a memory pool");
}

Result<AddressRange> AddressRange::reserve(ContextPtr context, std::int64_t bytes) {
  PAGODA_CHECK(bytes > 0, "bytes {}", bytes);
  AddressRange range;
  range.context_ = std::move(context);
  const DriverApi& api = range.context_->api();
  const MemoryAllocationProp prop = allocation_prop(*range.context_);
  std::size_t granularity = 0;
  range.context_->driver().check(api.allocation_granularity(&granularity, &prop, 0), "asking for the page size");
  range.granularity_ = static_cast<std::int64_t>(granularity);
  const std::int64_t rounded = round_up(bytes, range.granularity_);
  if (api.address_reserve(&range.address_, static_cast<std::size_t>(rounded), 0, 0, 0) != kSuccess) {
    range.address_ = 0;
    return fail(ErrorCode::kDeviceMemory, "addresses for {} MiB of device memory could not be reserved", bytes >> 20);
  }
  range.reserved_ = rounded;
  return range;
}

AddressRange::AddressRange(AddressRange&& other) noexcept { *this = std::move(other); }

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(reserved_, other.reserved_);
  std::swap(mapped_, other.mapped_);
  std::swap(granularity_, other.granularity_);
  std::swap(pieces_, other.pieces_);
  return *this;
}

AddressRange::~AddressRange() {
  if (address_ == 0) return;
  const DriverApi& api = context_->api();
  if (mapped_ > 0) api.memory_unmap(address_, static_cast<std::size_t>(mapped_));
  for (const Piece& piece : pieces_) api.memory_release(piece.handle);
  api.address_free(address_, static_cast<std::size_t>(reserved_));
}

Status AddressRange::map(std::int64_t bytes) {
  const std::int64_t target = round_up(bytes, granularity_);
  PAGODA_CHECK(target <= reserved_, "{} bytes of {} reserved", target, reserved_);
  if (target <= mapped_) return Ok{};
  const DriverApi& api = context_->api();
  const MemoryAllocationProp prop = allocation_prop(*context_);
  const std::int64_t more = target - mapped_;
  const auto size = static_cast<std::size_t>(more);
  MemoryHandle handle = 0;
  const Result32 created = api.memory_create(&handle, size, &prop, 0);
  if (created == kOutOfMemory) return no_memory(*context_, more);
  context_->driver().check(created, "allocating device memory");
  const DeviceAddress at = address_ + static_cast<DeviceAddress>(mapped_);
  const Result32 mapped = api.memory_map(at, size, 0, handle, 0);
  if (mapped != kSuccess) {
    api.memory_release(handle);
    context_->driver().check(mapped, "mapping device memory");
  }
  pieces_.push_back({handle, more});
  mapped_ = target;
  MemoryAccess access{};
  access.location = location_of(*context_);
  context_->driver().check(api.memory_set_access(at, size, &access, 1), "opening device memory");
  return Ok{};
}

Result<PinnedBytes> PinnedBytes::create(ContextPtr context, std::int64_t bytes) {
  PAGODA_CHECK(bytes > 0, "bytes {}", bytes);
  PinnedBytes buffer;
  buffer.context_ = std::move(context);
  void* data = nullptr;
  const Result32 result = buffer.context_->api().host_alloc(&data, static_cast<std::size_t>(bytes), 0);
  if (result == kOutOfMemory)
    return fail(ErrorCode::kOutOfMemory, "{} MiB of pinned host memory could not be had", bytes >> 20);
  buffer.context_->driver().check(result, "allocating pinned host memory");
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  buffer.last_ = std::make_unique<Event>(buffer.context_);
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  return buffer;
}

PinnedBytes::PinnedBytes(PinnedBytes&& other) noexcept { *this = std::move(other); }

PinnedBytes& PinnedBytes::operator=(PinnedBytes&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(last_, other.last_);
  std::swap(busy_, other.busy_);
  return *this;
}

PinnedBytes::~PinnedBytes() {
  if (data_ == nullptr) return;
  if (busy_) context_->api().event_synchronize(last_->handle());
  context_->api().host_free(data_);
}

std::byte* PinnedBytes::host() {
  if (std::exchange(busy_, false)) last_->synchronize();
  return data_;
}

void PinnedBytes::check_range(std::int64_t offset, std::int64_t bytes) const {
  PAGODA_CHECK(offset >= 0 && bytes >= 0 && offset <= bytes_ && bytes <= bytes_ - offset, "offset {} bytes {} of {}",
               offset, bytes, bytes_);
}

void PinnedBytes::note_transfer(CudaStream& stream) {
  try {
    last_->record(stream);
  } catch (const DeviceError&) {
    // A transfer that no event stands for has to be over before its memory goes.
    context_->api().stream_synchronize(stream.handle());
    throw;
  }
  busy_ = true;
}

void PinnedBytes::upload(std::int64_t offset, std::int64_t bytes, void* device, CudaStream& stream) {
  check_range(offset, bytes);
  context_->driver().check(context_->api().copy_to_device_async(reinterpret_cast<DeviceAddress>(device), data_ + offset,
                                                                static_cast<std::size_t>(bytes), stream.handle()),
                           "copying to the device");
  note_transfer(stream);
}

void PinnedBytes::download(std::int64_t offset, std::int64_t bytes, const void* device, CudaStream& stream) {
  check_range(offset, bytes);
  context_->driver().check(context_->api().copy_to_host_async(data_ + offset, reinterpret_cast<DeviceAddress>(device),
                                                              static_cast<std::size_t>(bytes), stream.handle()),
                           "copying from the device");
  note_transfer(stream);
}

}  // namespace pagoda::device::cuda
