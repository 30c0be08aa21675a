#include "sched/batch.h"

#include <algorithm>

namespace pagoda::sched {

std::int64_t Batch::num_ids() const { return std::ranges::count_if(rows, &Row::wants_id); }

void Batch::reserve(std::int64_t max_rows, std::int64_t max_tokens, std::int64_t max_blocks) {
  rows.reserve(static_cast<std::size_t>(max_rows));
  admitted.reserve(static_cast<std::size_t>(max_rows));
  tokens.reserve(static_cast<std::size_t>(max_tokens));
  targets.reserve(static_cast<std::size_t>(max_tokens));
  for (Group& group : groups) {
    group.block_tables.reserve(static_cast<std::size_t>(max_blocks));
    group.table_begin.reserve(static_cast<std::size_t>(max_rows) + 1);
    group.write_slots.reserve(static_cast<std::size_t>(max_tokens));
  }
}

void Batch::clear() {
  rows.clear();
  tokens.clear();
  targets.clear();
  admitted.clear();
  for (Group& group : groups) {
    group.block_tables.clear();
    group.table_begin.assign(1, 0);
    group.write_slots.clear();
  }
}

}  // namespace pagoda::sched
