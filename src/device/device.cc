#include "device/device.h"

#include <sys/mman.h>

#include <cstring>

#include <unistd.h>

#include "base/checked.h"

namespace pagoda::device {
namespace {

/// Bytes of memory this machine has; 0 if it does not say.
std::int64_t physical_bytes() {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

}  // namespace

Result<Memory> HostDevice::allocate(std::int64_t bytes, const char* purpose, Use use) {
  if (bytes <= 0) return Memory();
  // The address space would take far more, and the first who fills it would be killed.
  if (const std::int64_t most = physical_bytes(); most > 0 && bytes > most) {
    return fail(ErrorCode::kOutOfMemory, "{} would take {} bytes of memory, and this machine has {}", purpose, bytes,
                most);
  }
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kOutOfMemory, "the system has no {} bytes of memory for {}", bytes, purpose);
  }
  // Only advice: without large pages everything works, a little slower.
  (void)madvise(memory, size, use == Use::kOften ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return Memory(static_cast<std::byte*>(memory), bytes, [memory, size] { munmap(memory, size); });
}

void HostDevice::upload(std::byte* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace pagoda::device
