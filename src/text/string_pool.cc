#include "text/string_pool.h"

#include <bit>
#include <cstring>
#include <random>

#include "text/flat_map.h"

namespace pagoda::text {

std::uint64_t hash_seed() {
  static const std::uint64_t seed = (std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
  return seed;
}

namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = mix(seed + text.size());
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash ^ word);
    text.remove_prefix(8);
  }
  std::uint64_t word = 0;
  if (!text.empty()) std::memcpy(&word, text.data(), text.size());
  return mix(hash ^ word);
}

}  // namespace

void StringPool::reserve(std::size_t strings, std::size_t bytes) {
  ends_.reserve(strings + 1);
  bytes_.reserve(bytes);
}

void StringPool::add(std::string_view text) {
  bytes_.append(text);
  ends_.push_back(bytes_.size());
}

StringIndex::StringIndex(const StringPool& pool)
    : pool_(&pool), seed_(hash_seed()), slots_(std::bit_ceil(static_cast<std::size_t>(pool.size()) * 2 + 2)) {}

std::size_t StringIndex::find_slot(std::string_view text, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  while (slots_[i].index >= 0) {
    if (slots_[i].hash == static_cast<std::uint32_t>(hash >> 32) && (*pool_)[slots_[i].index] == text) break;
    i = (i + 1) & mask;
  }
  return i;
}

std::optional<std::int32_t> StringIndex::insert(std::int32_t index) {
  const std::uint64_t hash = hash_of((*pool_)[index], seed_);
  Slot& slot = slots_[find_slot((*pool_)[index], hash)];
  if (slot.index >= 0) return slot.index;
  slot = {static_cast<std::uint32_t>(hash >> 32), index};
  return std::nullopt;
}

std::optional<std::int32_t> StringIndex::find(std::string_view text) const {
  const Slot& slot = slots_[find_slot(text, hash_of(text, seed_))];
  if (slot.index < 0) return std::nullopt;
  return slot.index;
}

}  // namespace pagoda::text
