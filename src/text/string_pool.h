// Many short strings in one block of memory, and the way back from a string to its index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

/// Strings by index, packed.
class StringPool {
 public:
  void reserve(std::size_t strings, std::size_t bytes);
  void add(std::string_view text);

  std::int32_t size() const { return static_cast<std::int32_t>(ends_.size()) - 1; }
  std::string_view operator[](std::int32_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_{0};  ///< string i is bytes [ends_[i], ends_[i + 1])
};

/// Finds the index of a string of a pool. The pool must outlive it and stay where it is.
class StringIndex {
 public:
  explicit StringIndex(const StringPool& pool);

  /// Adds string `index`; returns the index of an equal string that is there already, if any, and adds nothing then.
  std::optional<std::int32_t> insert(std::int32_t index);
  std::optional<std::int32_t> find(std::string_view text) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t index = -1;
  };
  std::size_t find_slot(std::string_view text, std::uint64_t hash) const;

  const StringPool* pool_;
  std::uint64_t seed_;
  std::vector<Slot> slots_;
};

}  // namespace pagoda::text
