#include "allocation_meter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace pagoda::io {
namespace {

std::atomic<std::size_t> alive{0};
std::atomic<std::size_t> peak{0};

void* count_in(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const std::size_t now = alive += malloc_usable_size(block);
  std::size_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return block;
}

void count_out(void* block) {
  alive -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

AllocationMeter::AllocationMeter() : before_(alive) { peak = before_; }
std::size_t AllocationMeter::peak_bytes() const { return peak - before_; }

}  // namespace pagoda::io

void* operator new(std::size_t bytes) { return pagoda::io::count_in(std::malloc(bytes)); }
void operator delete(void* block) noexcept { pagoda::io::count_out(block); }
void operator delete(void* block, std::size_t) noexcept { pagoda::io::count_out(block); }
