// The bookkeeping of all cache groups of a model: which sequence holds which block, and which prefixes are kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/group_config.h"
#include "kv/prefix_cache.h"
#include "kv/prefix_key.h"
#include "kv/stats.h"

namespace pagoda::kv {

struct CacheConfig {
  std::vector<GroupConfig> groups{};  ///< at least one; all of one block size today
  bool keep_prefixes = true;          ///< false: a block is free as soon as its sequences end
  std::string model_id{};             ///< part of every key
  std::string salt{};                 ///< of the keys; empty: random, this process's own. Set it in tests only
};

/// A sequence's blocks in every group. Filled and emptied by KvCache alone; it must be released before it dies.
class CachedSequence {
 public:
  CachedSequence() = default;
  CachedSequence(CachedSequence&& other) noexcept = default;   ///< leaves `other` not open
  CachedSequence& operator=(CachedSequence&& other) noexcept;  ///< this one must not be open
  ~CachedSequence();

  bool open() const { return !tables_.empty(); }
  const BlockTable& table(std::size_t group) const { return tables_[group]; }
  std::int64_t token_len() const { return token_len_; }          ///< tokens that have a place in every group
  std::int64_t cached_tokens() const { return cached_tokens_; }  ///< of these, found in the prefix cache at `open`

 private:
  friend class KvCache;

  std::vector<BlockTable> tables_;  // one a group
  std::int64_t token_len_ = 0;
  std::int64_t cached_tokens_ = 0;
  std::int64_t kept_blocks_ = 0;          // leading blocks that were offered to the prefix cache
  std::vector<std::int64_t> first_held_;  // one a group: table entries before it are returned
  Digest last_key_{};                     // of block kept_blocks_ - 1, or the chain's root
  bool publish_ = true;
};

/// How a sequence comes in.
struct OpenRequest {
  std::span<const std::int32_t> ids{};  ///< all ids known so far; at least one
  std::string_view cache_salt{};        ///< sequences under different salts share nothing
  bool reuse = true;                    ///< false: every token is computed, as prompt log-probabilities need
  bool publish = true;                  ///< false: its blocks are offered to nobody
  std::int64_t room_tokens = 1;         ///< tokens after `ids` that must have room now
  std::int64_t most_tokens = 0;         ///< how long it may grow: memory of its tables is taken for that many at once
  std::int64_t step_tokens = 1;  ///< most tokens of the sequence in flight at once: what windowed groups must hold
  std::span<const std::int64_t> headroom_blocks{};  ///< one a group: promised to others. Empty: none
};

/// Owns the blocks of every group as numbers. Admission, hits and eviction are over all groups at once: a sequence has
/// a place for a token in all of them or in none. Not thread-safe: the engine thread owns it.
///
/// Life of a sequence: open → (extend → the step runs → commit) … → release.
class KvCache {
 public:
  /// Error: kInvalidArgument (no group, a size out of range, block sizes that differ).
  static Result<KvCache> create(CacheConfig config);

  std::span<const GroupConfig> groups() const { return configs_; }
  std::int32_t block_size() const { return configs_.front().block_size; }

  /// Error if a sequence of `tokens` tokens fits in no case: kCacheCapacity, with the group, what it asks for and what
  /// there is. `step_tokens` as in OpenRequest.
  Status check_capacity(std::int64_t tokens, std::int64_t step_tokens) const;

  /// The most tokens a sequence alone can hold; the largest 64-bit number if every group is windowed.
  std::int64_t capacity_tokens(std::int64_t step_tokens) const;

  /// Finds the longest prefix of the ids that every group can restore and holds its blocks; token_len() and
  /// cached_tokens() are its length. At least the last token is left to compute, so that there are logits: if all ids
  /// are cached the whole last block is computed again. Allocates nothing. Errors, with nothing changed: kCacheCapacity
  /// (never fits); kCachePressure (the rest of the sequence does not fit now beside what is promised to others).
  Result<CachedSequence> open(const OpenRequest& request);

  /// Gives `tokens` more tokens a place in every group, evicting idle prefixes as needed, longest idle first. Errors,
  /// with nothing changed: kCacheCapacity, kCachePressure.
  Status extend(CachedSequence& sequence, std::int64_t tokens);

  /// Says that the keys and values of the first ids.size() tokens are in their pages, by steps that have ended; `ids`
  /// are these tokens, from position 0. Keeps each newly full block for others, and returns the blocks that the window
  /// has passed (GroupConfig::first_kept_block).
  void commit(CachedSequence& sequence, std::span<const std::int32_t> ids);

  /// A second sequence over the whole blocks that have been committed; it computes what follows them itself. Shared
  /// blocks are always full, so nobody writes into another's.
  CachedSequence fork(const CachedSequence& sequence);

  /// Gives everything back. No step in flight may name the sequence's blocks. A sequence that is not open is left
  /// alone.
  void release(CachedSequence& sequence);

  /// Blocks that `sequence` may yet take in `group` until it holds `tokens` tokens.
  std::int64_t outstanding_blocks(const CachedSequence& sequence, std::size_t group, std::int64_t tokens,
                                  std::int64_t step_tokens) const;

  /// Drops every prefix that no sequence holds.
  void drop_idle_prefixes();

  const BlockPool& pool(std::size_t group) const { return pools_[group]; }
  CacheStats stats() const;
  void read_stats(CacheStats& stats) const;  ///< the same, into memory that is there

  /// Holds all counts against each other; aborts where two disagree. For tests and debug builds; O(blocks).
  void verify() const;

 private:
  struct Link {  // of a chain of keys
    Digest key;
    std::int32_t entry;
  };

  explicit KvCache(CacheConfig config);

  std::int64_t find_prefix(const OpenRequest& request);  // its length in blocks; leaves its chain in links_
  Status check_room(const OpenRequest& request, std::int64_t blocks) const;
  BlockId prefix_block(std::size_t group, std::int64_t index) const;
  template <class BlockAt>
  CachedSequence share(std::int64_t blocks, std::int64_t most_blocks, BlockAt block_at);
  void evict(std::size_t group, std::int64_t needed);
  void publish(CachedSequence& sequence, std::span<const std::int32_t> ids, std::int64_t full_blocks);
  void return_before(CachedSequence& sequence, std::size_t group, std::int64_t block);

  std::vector<GroupConfig> configs_;
  std::vector<BlockPool> pools_;  // one a group
  PrefixCache prefixes_;
  KeyChain keys_;
  std::string model_id_;
  bool keep_prefixes_ = true;
  std::int64_t sequences_ = 0;
  PrefixCounters counters_;

  // Kept from call to call for their memory.
  std::vector<Link> links_;         // the root, then one a block found
  std::vector<std::int64_t> runs_;  // one a group: blocks in a row that it has, up to the one looked at
  std::vector<BlockId> row_;        // one a group
};

}  // namespace pagoda::kv
