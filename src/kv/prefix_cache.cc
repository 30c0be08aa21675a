#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace pagoda::kv {

namespace {

/// Each entry holds a block of every full group, so the smallest of them bounds the entries; without one, all blocks
/// do.
std::size_t most_entries(std::span<const GroupConfig> groups) {
  std::int64_t all = 0, full = 0;
  for (const GroupConfig& group : groups) {
    all += group.block_count;
    if (!group.windowed()) full = full == 0 ? group.block_count : std::min(full, group.block_count);
  }
  return static_cast<std::size_t>(full > 0 ? full : all);
}

}  // namespace

PrefixCache::PrefixCache(std::span<const GroupConfig> groups)
    : num_groups_(groups.size()), block_size_(static_cast<std::size_t>(groups.front().block_size)) {
  for (const GroupConfig& group : groups) windowed_.push_back(group.windowed());
  entries_.resize(most_entries(groups));
  blocks_.resize(entries_.size() * num_groups_, kNoBlock);
  tokens_.resize(entries_.size() * block_size_);
  buckets_.resize(std::bit_ceil(entries_.size()), kNoEntry);
  for (std::size_t i = entries_.size(); i-- > 0;) {
    entries_[i].next = unused_;
    unused_ = static_cast<std::int32_t>(i);
  }
}

/// The key is a hash already: any of its bits will do.
std::size_t PrefixCache::bucket_of(const Digest& key) const {
  std::uint64_t bits = 0;
  std::memcpy(&bits, key.data(), sizeof bits);
  return bits & (buckets_.size() - 1);
}

std::span<BlockId> PrefixCache::blocks_of(std::int32_t entry) {
  return std::span(blocks_).subspan(static_cast<std::size_t>(entry) * num_groups_, num_groups_);
}

std::span<const BlockId> PrefixCache::blocks_of(std::int32_t entry) const {
  return std::span(blocks_).subspan(static_cast<std::size_t>(entry) * num_groups_, num_groups_);
}

std::span<const std::int32_t> PrefixCache::tokens_of(std::int32_t entry) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(entry) * block_size_, block_size_);
}

std::int32_t PrefixCache::lookup(const Digest& key) const {
  std::int32_t entry = buckets_[bucket_of(key)];
  while (entry != kNoEntry && entries_[static_cast<std::size_t>(entry)].key != key) {
    entry = entries_[static_cast<std::size_t>(entry)].next;
  }
  return entry;
}

std::int32_t PrefixCache::find(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens) const {
  const std::int32_t entry = lookup(key);
  if (entry == kNoEntry) return kNoEntry;
  const bool same =
      entries_[static_cast<std::size_t>(entry)].parent == parent && std::ranges::equal(tokens_of(entry), tokens);
  return same ? entry : kNoEntry;
}

BlockId PrefixCache::block(std::int32_t entry, std::size_t group) const { return blocks_of(entry)[group]; }

std::int32_t PrefixCache::insert(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens) {
  const std::int32_t entry = unused_;
  PAGODA_CHECK(entry != kNoEntry && tokens.size() == block_size_, "{} of {} entries, {} tokens", size_, entries_.size(),
               tokens.size());
  Entry& record = entries_[static_cast<std::size_t>(entry)];
  unused_ = record.next;
  record = Entry{.key = key, .parent = parent, .next = buckets_[bucket_of(key)], .used = true};
  buckets_[bucket_of(key)] = entry;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(entry) * std::ssize(tokens));
  ++size_;
  return entry;
}

void PrefixCache::publish(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens,
                          std::span<const BlockId> blocks, std::span<BlockPool> pools) {
  std::int32_t entry = find(key, parent, tokens);
  if (entry == kNoEntry && lookup(key) != kNoEntry) return;  // two contents under one key: the first keeps it
  if (entry == kNoEntry) entry = insert(key, parent, tokens);
  for (std::size_t group = 0; group < num_groups_; ++group) {
    BlockId& kept = blocks_of(entry)[group];
    if (blocks[group] == kNoBlock || blocks[group] == kept) continue;
    if (kept != kNoBlock) pools[group].remove_from_prefix_cache(kept);
    kept = blocks[group];
    pools[group].add_to_prefix_cache(kept, entry);
  }
}

std::int64_t PrefixCache::evict_longest_idle(std::size_t group, std::span<BlockPool> pools) {
  const BlockId block = pools[group].longest_idle();
  PAGODA_CHECK(block != kNoBlock, "group {} has no idle block", group);
  const std::int32_t entry = pools[group].entry_of(block);
  drop_block(entry, group, pools);
  std::int64_t dropped = 1;
  const auto missing = [](BlockId kept) { return kept == kNoBlock; };
  if (windowed_[group] && !std::ranges::all_of(blocks_of(entry), missing)) return dropped;
  for (std::size_t g = 0; g < num_groups_; ++g) {
    if (missing(blocks_of(entry)[g])) continue;
    drop_block(entry, g, pools);
    ++dropped;
  }
  erase(entry);
  return dropped;
}

void PrefixCache::drop_block(std::int32_t entry, std::size_t group, std::span<BlockPool> pools) {
  BlockId& kept = blocks_of(entry)[group];
  pools[group].remove_from_prefix_cache(kept);
  kept = kNoBlock;
}

void PrefixCache::erase(std::int32_t entry) {
  Entry& record = entries_[static_cast<std::size_t>(entry)];
  std::int32_t* link = &buckets_[bucket_of(record.key)];
  while (*link != entry) link = &entries_[static_cast<std::size_t>(*link)].next;
  *link = record.next;
  record = Entry{.key = {}, .parent = {}, .next = unused_, .used = false};
  unused_ = entry;
  --size_;
}

void PrefixCache::verify(std::span<const BlockPool> pools) const {
  std::int64_t used = 0;
  std::vector<std::int64_t> named(num_groups_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto entry = static_cast<std::int32_t>(i);
    if (!entries_[i].used) continue;
    ++used;
    PAGODA_CHECK(lookup(entries_[i].key) == entry, "entry {} is not found by its key", entry);
    for (std::size_t group = 0; group < num_groups_; ++group) {
      const BlockId block = blocks_of(entry)[group];
      PAGODA_CHECK(block != kNoBlock || windowed_[group], "entry {} lacks a block of full group {}", entry, group);
      if (block == kNoBlock) continue;
      ++named[group];
      PAGODA_CHECK(pools[group].entry_of(block) == entry, "block {} is of entry {}, not {}", block,
                   pools[group].entry_of(block), entry);
    }
  }
  PAGODA_CHECK(used == size_, "{} entries in use, {} counted", used, size_);
  for (std::size_t group = 0; group < num_groups_; ++group) {
    PAGODA_CHECK(named[group] == pools[group].in_prefix_cache(), "group {}: {} blocks in entries, {} counted", group,
                 named[group], pools[group].in_prefix_cache());
  }
}

}  // namespace pagoda::kv
