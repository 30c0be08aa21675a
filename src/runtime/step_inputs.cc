#include "runtime/step_inputs.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::runtime {

StepInputs::StepInputs(const model::Plan& plan)
    : vocab_(plan.spec.vocab),
      max_blocks_(ceil_div<std::int64_t>(plan.options.context, plan.options.block_size)),
      ids_(static_cast<std::size_t>(plan.options.max_step_tokens)),
      positions_(ids_.size()),
      row_offsets_(static_cast<std::size_t>(plan.options.max_rows) + 1),
      row_starts_(static_cast<std::size_t>(plan.options.max_rows)),
      groups_(plan.spec.cache_groups.size()) {
  for (Group& group : groups_) {
    group.block_tables.assign(row_starts_.size() * static_cast<std::size_t>(max_blocks_), kv::kNoBlock);
    group.write_slots.assign(ids_.size(), -1);
    group_inputs_.push_back({.block_tables = group.block_tables.data(),
                             .max_blocks = max_blocks_,
                             .write_slots = group.write_slots.data()});
  }
}

model::DecoderInputs StepInputs::decode_inputs(std::int64_t rows) const {
  return {.ids = ids_.data(),
          .step = {.num_tokens = rows,
                   .num_rows = rows,
                   .positions = positions_.data(),
                   .row_offsets = row_offsets_.data(),
                   .row_starts = row_starts_.data()},
          .groups = group_inputs_};
}

void StepInputs::write(const sched::Batch& batch, std::span<const std::int64_t> wanted,
                       std::span<const std::int32_t> last_ids) {
  PAGODA_CHECK(batch.rows.size() <= row_starts_.size() && batch.tokens.size() <= ids_.size() &&
                   batch.groups.size() == groups_.size(),
               "{} rows, {} tokens, {} groups", batch.rows.size(), batch.tokens.size(), batch.groups.size());
  std::int64_t token = 0;
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const sched::Row& row = batch.rows[r];
    PAGODA_CHECK(row.token_offset == token && row.count >= 1, "row {} begins at {} of {}", r, row.token_offset, token);
    row_offsets_[r] = token;
    row_starts_[r] = row.start;
    for (std::int64_t i = 0; i < row.count; ++i, ++token) {
      std::int32_t id = batch.tokens[static_cast<std::size_t>(token)];
      if (i == 0 && row.first_id_on_device) id = last_ids[static_cast<std::size_t>(row.slot)];
      PAGODA_CHECK(id >= 0 && id < vocab_, "token {} of row {} is {}", i, r, id);
      ids_[static_cast<std::size_t>(token)] = id;
      positions_[static_cast<std::size_t>(token)] = row.start + i;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::span<const kv::BlockId> table = batch.block_table(r, g);
      PAGODA_CHECK(std::ssize(table) <= max_blocks_, "{} blocks of {}", table.size(), max_blocks_);
      std::ranges::copy(table, groups_[g].block_tables.begin() + static_cast<std::int64_t>(r) * max_blocks_);
      std::ranges::copy(batch.write_slots(row, g), groups_[g].write_slots.begin() + row.token_offset);
    }
  }
  row_offsets_[batch.rows.size()] = token;
  inputs_ = decode_inputs(std::ssize(batch.rows));
  inputs_.step.num_tokens = token;
  inputs_.wanted = wanted.data();
  inputs_.num_wanted = std::ssize(wanted);
}

}  // namespace pagoda::runtime
