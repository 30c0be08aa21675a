#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

namespace pagoda::device::cuda {
namespace {

constexpr std::int64_t kStagingBytes = std::int64_t{1} << 20;

}  // namespace

CudaDevice::CudaDevice(ContextPtr context, std::shared_ptr<Compiler> compiler, PinnedBytes staging)
    : Device({.kind = DeviceKind::kCuda, .isa = CpuIsa::kPortable, .name = context->name(), .gpu = context->caps()}),
      context_(context),
      compiler_(compiler),
      loader_(context, std::move(compiler)),
      stream_(std::move(context)),
      staging_(std::move(staging)) {}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(std::int32_t ordinal, std::shared_ptr<Compiler> compiler) {
  return open(PAGODA_TRY(Driver::load()), ordinal, std::move(compiler));
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(std::shared_ptr<const Driver> driver, std::int32_t ordinal,
                                                     std::shared_ptr<Compiler> compiler) {
  ContextPtr context = PAGODA_TRY(Context::create(std::move(driver), ordinal));
  PinnedBytes staging = PAGODA_TRY(PinnedBytes::create(context, kStagingBytes));
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(context), std::move(compiler), std::move(staging)));
}

Result<Memory> CudaDevice::allocate(std::int64_t bytes, const char* purpose, Use) {
  if (bytes <= 0) return Memory();
  auto range = std::make_shared<AddressRange>(PAGODA_TRY(reserve(bytes, purpose)));
  PAGODA_TRY(grow(*range, bytes, purpose));
  std::byte* data = range->data();
  return Memory(data, bytes, [range]() mutable { range.reset(); });
}

Result<AddressRange> CudaDevice::reserve(std::int64_t bytes, const char* purpose) {
  Result<AddressRange> range = AddressRange::reserve(context_, bytes);
  if (!range.ok()) return fail(range.error().code, "{}: {}", purpose, range.error().message);
  return range;
}

Status CudaDevice::grow(AddressRange& range, std::int64_t bytes, const char* purpose) {
  const std::int64_t before = range.mapped_bytes();
  if (const Status mapped = range.map(bytes); !mapped.ok()) {
    return fail(mapped.error().code, "{}: {}", purpose, mapped.error().message);
  }
  allocated_bytes_ += range.mapped_bytes() - before;
  return Ok{};
}

void CudaDevice::upload(std::byte* to, const void* from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kStagingBytes) {
    const std::int64_t part = std::min(kStagingBytes, bytes - at);
    std::memcpy(staging_.host(), static_cast<const std::byte*>(from) + at, static_cast<std::size_t>(part));
    staging_.upload(0, part, to + at, stream_);
  }
  stream_.synchronize();
}

void CudaDevice::download(void* to, const void* from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kStagingBytes) {
    const std::int64_t part = std::min(kStagingBytes, bytes - at);
    staging_.download(0, part, static_cast<const std::byte*>(from) + at, stream_);
    stream_.synchronize();
    std::memcpy(static_cast<std::byte*>(to) + at, staging_.host(), static_cast<std::size_t>(part));
  }
}

CudaDevice& cuda(Device& device) {
  PAGODA_CHECK(device.caps().kind == DeviceKind::kCuda, "{} is no GPU", device.caps().name);
  return static_cast<CudaDevice&>(device);
}

}  // namespace pagoda::device::cuda
