#include "kv/write_plan.h"

#include <algorithm>

#include "kv/fault.h"

namespace pagoda::kv {

Result<KvWritePlan> KvWritePlan::make(std::int32_t group, const BlockTable& table, std::int64_t token_offset,
                                      std::int64_t token_count) {
  KvWritePlan plan;
  PAGODA_TRY(plan.assign(group, table, token_offset, token_count));
  return plan;
}

Status KvWritePlan::assign(std::int32_t group, const BlockTable& table, std::int64_t token_offset,
                           std::int64_t token_count) {
  writes_.clear();
  if (!table.block_size()) return fault_error(Fault::kBlockSizeUnset, "the table has no block size");
  const std::optional<std::int64_t> asked_end = checked_add(token_offset, token_count);
  if (token_offset < 0 || token_count < 0 || !asked_end) {
    return fault_error(Fault::kPositionOverflow, "{} tokens from position {} on", token_count, token_offset);
  }
  group_ = group;
  block_size_ = *table.block_size();
  token_offset_ = token_offset;
  token_count_ = token_count;
  const std::int64_t size = block_size_;
  const std::int64_t end = std::min(*asked_end, table.capacity());
  for (std::int64_t at = token_offset; at < end;) {
    const std::int64_t index = at / size;
    const std::int64_t stop = std::min((index + 1) * size, end);
    const BlockId block = table.blocks()[static_cast<std::size_t>(index)];
    if (block == kNoBlock) {
      writes_.clear();
      return fault_error(Fault::kBlockMissing, "position {} lies in entry {} of the table, whose block was returned",
                         at, index);
    }
    writes_.push_back({.group = group,
                       .block = block,
                       .table_index = index,
                       .local_start = at - token_offset,
                       .local_end = stop - token_offset,
                       .page_start = static_cast<std::int32_t>(at - index * size),
                       .page_end = static_cast<std::int32_t>(stop - index * size)});
    at = stop;
  }
  return Ok{};
}

std::int64_t KvWritePlan::written_tokens() const {
  std::int64_t tokens = 0;
  for (const KvWrite& write : writes_) tokens += write.local_end - write.local_start;
  return tokens;
}

void KvWritePlan::append_slots(std::vector<std::int64_t>& slots) const {
  for (const KvWrite& write : writes_) {
    for (std::int32_t at = write.page_start; at < write.page_end; ++at) {
      slots.push_back(slot_index(write.block, block_size_, at));
    }
  }
}

void KvWritePlan::skip_prefix(std::int64_t n) {
  std::erase_if(writes_, [n](const KvWrite& write) { return write.local_end <= n; });
  if (writes_.empty() || writes_.front().local_start >= n) return;
  KvWrite& straddling = writes_.front();
  straddling.page_start += static_cast<std::int32_t>(n - straddling.local_start);
  straddling.local_start = n;
}

Status KvWritePlan::check_geometry(std::int32_t group, const GroupConfig& config) const {
  if (group_ != group) {
    return fault_error(Fault::kGroupDiffers, "the plan writes group {}, the step runs group {}", group_, group);
  }
  if (block_size_ != config.block_size) {
    return fault_error(Fault::kBlockSizeDiffers, "the plan's block size is {}, that of group {} is {}", block_size_,
                       config.name, config.block_size);
  }
  for (const KvWrite& write : writes_) {
    if (write.block < 0 || write.block >= config.block_count) {
      return fault_error(Fault::kBlockOutOfRange, "a write goes to block {}; group {} has {}", write.block, config.name,
                         config.block_count);
    }
    if (write.page_start < 0 || write.page_start >= write.page_end || write.page_end > block_size_) {
      return fault_error(Fault::kPageRange, "a write covers tokens {} to {} of a page of {}", write.page_start,
                         write.page_end, block_size_);
    }
  }
  return Ok{};
}

Status KvWritePlan::check_decode(std::int32_t group, const GroupConfig& config, const BlockTable& table) const {
  PAGODA_TRY(check_geometry(group, config));
  if (token_count_ != 1) return fault_error(Fault::kCountNotOne, "a decode step of {} tokens", token_count_);
  PAGODA_TRY(table.check(config, token_offset_));
  if (writes_.size() != 1) return fault_error(Fault::kWritesNotOne, "a decode step of {} writes", writes_.size());
  if (written_tokens() != 1) {
    return fault_error(Fault::kWrittenDiffers, "a decode step that writes {} tokens", written_tokens());
  }
  if (token_offset_ + 1 != table.token_len()) {
    return fault_error(Fault::kLengthDiffers, "the decoded position is {}, the table's length {}", token_offset_,
                       table.token_len());
  }
  return Ok{};
}

Status KvWritePlan::check_prefill(std::int32_t group, const GroupConfig& config, const BlockTable& table,
                                  std::int64_t start, std::int64_t count) const {
  PAGODA_TRY(check_geometry(group, config));
  if (count == 0) return fault_error(Fault::kCountZero, "a chunk of no tokens at position {}", start);
  const std::optional<std::int64_t> end = checked_add(start, count);
  if (start < 0 || count < 0 || !end) {
    return fault_error(Fault::kPositionOverflow, "a chunk of {} tokens from position {} on", count, start);
  }
  if (token_count_ != count || token_offset_ != start) {
    return fault_error(Fault::kCountDiffers, "the plan has {} tokens from {} on, the chunk {} from {} on", token_count_,
                       token_offset_, count, start);
  }
  if (written_tokens() != count) {
    return fault_error(Fault::kWrittenDiffers, "the plan writes {} of {} tokens", written_tokens(), count);
  }
  PAGODA_TRY(table.check(config, start));
  if (table.token_len() != *end) {
    return fault_error(Fault::kLengthDiffers, "the chunk ends at {}, the table's length is {}", *end,
                       table.token_len());
  }
  return Ok{};
}

}  // namespace pagoda::kv
