// A map from 64-bit keys in one flat table, for tables that are built once and looked into very often.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagoda::text {

/// A number that differs from run to run, so that no file can be made whose keys all collide.
std::uint64_t hash_seed();

/// Spreads the bits of `key` over all 64.
inline std::uint64_t mix(std::uint64_t key) {
  key ^= key >> 32;
  key *= 0x9E3779B97F4A7C15u;
  key ^= key >> 29;
  key *= 0xBF58476D1CE4E5B9u;
  return key ^ (key >> 32);
}

/// Open addressing with linear probing, at most three quarters full. The key ~0 must not be used.
template <class Value>
class FlatMap {
 public:
  explicit FlatMap(std::size_t expected = 0) : slots_(std::bit_ceil(expected + expected / 3 + 4)) {}

  /// Adds the pair unless the key is there already; returns whether it was added.
  bool insert(std::uint64_t key, const Value& value) {
    if (size_ + 1 > slots_.size() / 4 * 3) grow();
    Slot& slot = slots_[find_slot(key)];
    if (slot.key == key) return false;
    slot = {key, value};
    ++size_;
    return true;
  }

  /// Adds the pair, or gives the key that is there already a new value.
  void assign(std::uint64_t key, const Value& value) {
    if (!insert(key, value)) slots_[find_slot(key)].value = value;
  }

  /// The value, or null.
  const Value* find(std::uint64_t key) const {
    const Slot& slot = slots_[find_slot(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  std::size_t find_slot(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t index = mix(key + seed_) & mask;
    while (slots_[index].key != key && slots_[index].key != kFree) index = (index + 1) & mask;
    return index;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[find_slot(slot.key)] = slot;
    }
  }

  std::uint64_t seed_ = hash_seed();
  std::size_t size_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace pagoda::text
