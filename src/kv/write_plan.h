// Which rows of a new key or value tensor go where in the pages of a group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/block_table.h"
#include "kv/group_config.h"

namespace pagoda::kv {

/// One run of rows into one page.
struct KvWrite {
  std::int32_t group = 0;
  BlockId block = kNoBlock;
  std::int64_t table_index = 0;  ///< the block's index in the table
  std::int64_t local_start = 0;  ///< rows [local_start, local_end) of the new tensor; row 0 is the first new token
  std::int64_t local_end = 0;
  std::int32_t page_start = 0;  ///< tokens [page_start, page_end) of the page, 0 … block size
  std::int32_t page_end = 0;

  bool operator==(const KvWrite&) const = default;
};

/// The writes of `token_count` new tokens at positions from `token_offset` on, in order of position.
class KvWritePlan {
 public:
  /// A table too short for all tokens gives a shorter plan: written_tokens() < token_count() tells. Errors:
  /// kBlockSizeUnset; kPositionOverflow; kBlockMissing where a block inside the table was returned.
  static Result<KvWritePlan> make(std::int32_t group, const BlockTable& table, std::int64_t token_offset,
                                  std::int64_t token_count);

  /// make's, in the memory that the plan has; after an error it writes nothing. A plan for one row after the other
  /// allocates no more once it is reserved.
  Status assign(std::int32_t group, const BlockTable& table, std::int64_t token_offset, std::int64_t token_count);
  void reserve(std::int64_t writes) { writes_.reserve(static_cast<std::size_t>(writes)); }

  std::span<const KvWrite> writes() const { return writes_; }
  std::int32_t group() const { return group_; }
  std::int32_t block_size() const { return block_size_; }
  std::int64_t token_offset() const { return token_offset_; }
  std::int64_t token_count() const { return token_count_; }  ///< as asked for
  std::int64_t written_tokens() const;

  /// Appends each written token's slot_index, in order of position: what kv_store takes.
  void append_slots(std::vector<std::int64_t>& slots) const;

  /// Leaves out the first n new tokens, which are in the cache already. Local rows keep their numbers: the tensor
  /// still holds the prefix.
  void skip_prefix(std::int64_t n);

  /// A decode step: one token, one write, which is the last token of the table, inside a page of the group.
  Status check_decode(std::int32_t group, const GroupConfig& config, const BlockTable& table) const;

  /// A prefill chunk of `count` tokens from `start` on: every token has its write, and they end the table.
  Status check_prefill(std::int32_t group, const GroupConfig& config, const BlockTable& table, std::int64_t start,
                       std::int64_t count) const;

 private:
  Status check_geometry(std::int32_t group, const GroupConfig& config) const;

  std::int32_t group_ = 0;
  std::int32_t block_size_ = 0;
  std::int64_t token_offset_ = 0;
  std::int64_t token_count_ = 0;
  std::vector<KvWrite> writes_;
};

}  // namespace pagoda::kv
