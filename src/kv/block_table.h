#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/group_config.h"

namespace pagoda::kv {

/// The blocks of one sequence in one cache group, in the order of its tokens: token t lies in block t / block_size, at
/// t % block_size. A plain record: it owns no block and counts no reference, KvCache does.
class BlockTable {
 public:
  BlockTable() = default;  ///< block size unset
  explicit BlockTable(std::int32_t block_size) : block_size_(block_size) {}
  BlockTable(std::int32_t block_size, std::vector<BlockId> blocks, std::int64_t token_len)
      : block_size_(block_size), blocks_(std::move(blocks)), token_len_(token_len) {}

  std::optional<std::int32_t> block_size() const;
  std::span<const BlockId> blocks() const { return blocks_; }  ///< kNoBlock: returned, wholly behind the window
  std::int64_t block_count() const { return std::ssize(blocks_); }
  std::int64_t capacity() const { return block_count() * block_size_; }  ///< in tokens

  /// Tokens that have a place. Set by whoever extends the table and not held to its capacity here: `check` does that.
  std::int64_t token_len() const { return token_len_; }
  void set_token_len(std::int64_t tokens) { token_len_ = tokens; }

  void reserve(std::int64_t blocks) { blocks_.reserve(static_cast<std::size_t>(blocks)); }
  void append(BlockId block) { blocks_.push_back(block); }
  void replace(std::int64_t index, BlockId block) { blocks_[static_cast<std::size_t>(index)] = block; }
  void truncate(std::int64_t blocks) { blocks_.resize(static_cast<std::size_t>(blocks)); }

  /// What every reader of the table relies on: its block size is the group's, each block from the first that a query at
  /// `first_query` needs is inside the pool, and token_len ≤ capacity. Faults: kBlockSizeUnset, kBlockSizeDiffers,
  /// kTableEmpty, kLengthZero, kLengthOverCapacity, kBlockMissing, kBlockOutOfRange.
  Status check(const GroupConfig& group, std::int64_t first_query) const;

 private:
  std::int32_t block_size_ = 0;  // 0: unset
  std::vector<BlockId> blocks_;
  std::int64_t token_len_ = 0;
};

}  // namespace pagoda::kv
