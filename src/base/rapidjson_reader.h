// RapidJSON's reader with memory whose lack is an exception. Its own allocator returns null then, and it writes there.
#pragma once

#include <rapidjson/reader.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace pagoda {

/// An allocator as RapidJSON wants one.
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

using JsonReader = rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, CheckedMemory>;

}  // namespace pagoda
