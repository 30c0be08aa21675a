#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/group_config.h"
#include "kv/prefix_key.h"

namespace pagoda::kv {

/// The kept prefixes of all groups: one entry for each block's worth of tokens, found by its key and verified by its
/// ids. An entry names a block in every group that still has one. A full group's block is part of every hit that passes
/// through the entry, so losing it ends the entry; a windowed group's block is needed only near a hit's end, so it may
/// go alone. All memory is taken at construction.
class PrefixCache {
 public:
  static constexpr std::int32_t kNoEntry = -1;

  explicit PrefixCache(std::span<const GroupConfig> groups);

  std::int64_t size() const { return size_; }

  /// The entry of this key if its own ids and its parent's key are these too; else kNoEntry.
  std::int32_t find(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens) const;

  /// The entry's block in a group; kNoBlock if that was evicted.
  BlockId block(std::int32_t entry, std::size_t group) const;

  /// Keeps a full block of a sequence: `blocks` has one id a group, kNoBlock where the sequence holds none. Takes one
  /// reference of each. Where the entry had another block, that one loses its entry and one reference.
  void publish(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens,
               std::span<const BlockId> blocks, std::span<BlockPool> pools);

  /// Gives up the block of `group` that has been idle longest; there must be one. Returns how many blocks of all groups
  /// lost their place in the cache.
  std::int64_t evict_longest_idle(std::size_t group, std::span<BlockPool> pools);

  /// Aborts unless entries and pools name each other. For tests and debug builds.
  void verify(std::span<const BlockPool> pools) const;

 private:
  struct Entry {
    Digest key{};
    Digest parent{};
    std::int32_t next = kNoEntry;  // in its bucket, or in the list of unused entries
    bool used = false;
  };

  std::int32_t lookup(const Digest& key) const;
  std::int32_t insert(const Digest& key, const Digest& parent, std::span<const std::int32_t> tokens);
  void drop_block(std::int32_t entry, std::size_t group, std::span<BlockPool> pools);
  void erase(std::int32_t entry);
  std::size_t bucket_of(const Digest& key) const;
  std::span<BlockId> blocks_of(std::int32_t entry);
  std::span<const BlockId> blocks_of(std::int32_t entry) const;
  std::span<const std::int32_t> tokens_of(std::int32_t entry) const;

  std::size_t num_groups_ = 0;
  std::size_t block_size_ = 0;
  std::vector<bool> windowed_;         // one a group
  std::vector<Entry> entries_;         // as many as could ever be in use
  std::vector<BlockId> blocks_;        // (entries, groups)
  std::vector<std::int32_t> tokens_;   // (entries, block size)
  std::vector<std::int32_t> buckets_;  // first entry of each; a power of two of them
  std::int32_t unused_ = kNoEntry;
  std::int64_t size_ = 0;
};

}  // namespace pagoda::kv
