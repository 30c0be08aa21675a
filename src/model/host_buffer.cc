#include "model/host_buffer.h"

#include <sys/mman.h>

#include <unistd.h>

#include "base/checked.h"

namespace pagoda::model {
namespace {

/// Bytes of memory this machine has; 0 if it does not say.
std::int64_t physical_bytes() {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

}  // namespace

Result<HostBuffer> HostBuffer::allocate(std::int64_t bytes, const char* purpose, bool huge) {
  HostBuffer buffer;
  if (bytes <= 0) return buffer;
  // The address space would take far more, and the first who fills it would be killed.
  if (const std::int64_t most = physical_bytes(); most > 0 && bytes > most) {
    return fail(ErrorCode::kOutOfMemory, "{} would take {} bytes of memory, and this machine has {}", purpose, bytes,
                most);
  }
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kOutOfMemory, "the system has no {} bytes of memory for {}", bytes, purpose);
  }
  // Only advice: without large pages everything works, a little slower.
  (void)madvise(memory, static_cast<std::size_t>(bytes), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.bytes_ = bytes;
  return buffer;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace pagoda::model
