#include "kv/block_table.h"

#include "kv/fault.h"

namespace pagoda::kv {

std::optional<std::int32_t> BlockTable::block_size() const {
  if (block_size_ == 0) return std::nullopt;
  return block_size_;
}

Status BlockTable::check(const GroupConfig& group, std::int64_t first_query) const {
  if (block_size_ == 0) return fault_error(Fault::kBlockSizeUnset, "the table has no block size");
  if (block_size_ != group.block_size) {
    return fault_error(Fault::kBlockSizeDiffers, "the table's block size is {}, that of group {} is {}", block_size_,
                       group.name, group.block_size);
  }
  if (blocks_.empty()) return fault_error(Fault::kTableEmpty, "the table of group {} has no blocks", group.name);
  if (token_len_ <= 0) return fault_error(Fault::kLengthZero, "the table's length is {} tokens", token_len_);
  if (token_len_ > capacity()) {
    return fault_error(Fault::kLengthOverCapacity, "the table's length is {} tokens, its {} blocks hold {}", token_len_,
                       blocks_.size(), capacity());
  }
  for (std::int64_t i = 0; i < block_count(); ++i) {
    const BlockId block = blocks_[static_cast<std::size_t>(i)];
    if (block == kNoBlock && i < group.first_needed_block(first_query)) continue;
    if (block == kNoBlock) {
      return fault_error(Fault::kBlockMissing, "entry {} of the table of group {} is empty; a query at {} needs it", i,
                         group.name, first_query);
    }
    if (block < 0 || block >= group.block_count) {
      return fault_error(Fault::kBlockOutOfRange, "entry {} of the table is block {}; group {} has {}", i, block,
                         group.name, group.block_count);
    }
  }
  return Ok{};
}

}  // namespace pagoda::kv
