#include "sched/check_batch.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "kv/block_table.h"
#include "kv/fault.h"

namespace pagoda::sched {

using kv::Fault;
using kv::fault_error;

namespace {

Status check_vectors(const Batch& batch, std::size_t num_groups) {
  const std::size_t tokens = batch.tokens.size();
  bool equal = batch.targets.size() == tokens && batch.groups.size() == num_groups;
  for (const Batch::Group& group : batch.groups) {
    equal = equal && group.write_slots.size() == tokens && group.table_begin.size() == batch.rows.size() + 1 &&
            group.table_begin.back() == std::ssize(group.block_tables) && std::ranges::is_sorted(group.table_begin);
  }
  std::int64_t offset = 0;
  for (const Row& row : batch.rows) {
    equal = equal && row.token_offset == offset;
    offset += row.count;
  }
  equal = equal && offset == std::ssize(batch.tokens);
  if (equal) return Ok{};
  return fault_error(Fault::kVectorsDiffer, "{} rows of {} tokens, {} ids, {} targets, {} groups of {}",
                     batch.rows.size(), offset, tokens, batch.targets.size(), batch.groups.size(), num_groups);
}

Status check_counts(const Batch& batch, const BatchBounds& bounds) {
  if (batch.rows.empty()) return fault_error(Fault::kBatchEmpty, "step {} has no rows", batch.step);
  if (std::ssize(batch.rows) > bounds.max_rows) {
    return fault_error(Fault::kTooManyRows, "{} rows, at most {}", batch.rows.size(), bounds.max_rows);
  }
  if (std::ssize(batch.tokens) > bounds.max_tokens) {
    return fault_error(Fault::kTooManyTokens, "{} tokens, at most {}", batch.tokens.size(), bounds.max_tokens);
  }
  std::vector<bool> taken(static_cast<std::size_t>(bounds.max_rows));
  for (const Row& row : batch.rows) {
    if (row.count < 1) return fault_error(Fault::kCountZero, "the row of slot {} has {} tokens", row.slot, row.count);
    if (row.start < 0 || !checked_add<std::int64_t>(row.start, row.count)) {
      return fault_error(Fault::kPositionOverflow, "{} tokens from position {} on", row.count, row.start);
    }
    if (row.slot < 0 || row.slot >= bounds.max_rows || taken[static_cast<std::size_t>(row.slot)]) {
      return fault_error(Fault::kTooManyRows, "slot {} of {} is outside, or in two rows", row.slot, bounds.max_rows);
    }
    taken[static_cast<std::size_t>(row.slot)] = true;
  }
  return Ok{};
}

Status check_row(const Batch& batch, std::size_t index, std::size_t group, const kv::GroupConfig& config,
                 const BatchBounds& bounds) {
  const Row& row = batch.rows[index];
  const std::span<const kv::BlockId> blocks = batch.block_table(index, group);
  if (std::ssize(blocks) > bounds.max_blocks) {
    return fault_error(Fault::kTableTooLong, "slot {}: {} blocks of group {}, at most {}", row.slot, blocks.size(),
                       config.name, bounds.max_blocks);
  }
  const kv::BlockTable table(config.block_size, {blocks.begin(), blocks.end()}, row.end());
  PAGODA_TRY(table.check(config, row.start));
  const std::span<const std::int64_t> slots = batch.write_slots(row, group);
  for (std::int64_t i = 0; i < row.count; ++i) {
    const std::int64_t position = row.start + i;
    const kv::BlockId block = blocks[static_cast<std::size_t>(position / config.block_size)];
    const std::int64_t slot = kv::slot_index(block, config.block_size, position);
    if (slots[static_cast<std::size_t>(i)] == slot) continue;
    return fault_error(Fault::kPageRange, "slot {}: position {} is written at {}, its place is {}", row.slot, position,
                       slots[static_cast<std::size_t>(i)], slot);
  }
  return Ok{};
}

}  // namespace

Status check(const Batch& batch, std::span<const kv::GroupConfig> groups, const BatchBounds& bounds) {
  PAGODA_TRY(check_counts(batch, bounds));
  PAGODA_TRY(check_vectors(batch, groups.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t r = 0; r < batch.rows.size(); ++r) PAGODA_TRY(check_row(batch, r, g, groups[g], bounds));
    std::vector<std::int64_t> slots = batch.groups[g].write_slots;
    std::ranges::sort(slots);
    const auto twice = std::ranges::adjacent_find(slots);
    if (twice != slots.end()) {
      return fault_error(Fault::kPageRange, "two tokens are written at {} of group {}", *twice, groups[g].name);
    }
  }
  return Ok{};
}

}  // namespace pagoda::sched
