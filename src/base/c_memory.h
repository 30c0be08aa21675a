// Memory of C for libraries that take an allocator and do not look at what it returns.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace pagoda {

/// An allocator as RapidJSON wants one. Its own returns null where memory has run out, and its reader writes there.
struct CheckedMemory {
  static constexpr bool kNeedFree = true;

  static void* Malloc(std::size_t bytes) { return Realloc(nullptr, 0, bytes); }
  static void* Realloc(void* block, std::size_t /*old_bytes*/, std::size_t bytes) {
    if (bytes == 0) {
      std::free(block);
      return nullptr;
    }
    void* const grown = std::realloc(block, bytes);
    if (grown == nullptr) throw std::bad_alloc();
    return grown;
  }
  static void Free(void* block) noexcept { std::free(block); }
};

}  // namespace pagoda
