#include "sched/batch.h"

#include <algorithm>

namespace pagoda::sched {

std::int64_t Batch::num_ids() const { return std::ranges::count_if(rows, &Row::wants_id); }

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
