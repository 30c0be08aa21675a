#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "kv/group_config.h"
#include "sched/batch.h"

namespace pagoda::sched {

/// What a runner was prepared for.
struct BatchBounds {
  std::int64_t max_rows = 0;    ///< also the number of slots
  std::int64_t max_tokens = 0;  ///< all rows together
  std::int64_t max_blocks = 0;  ///< of one row's table
};

/// Holds a batch against its contract before a runner believes it: row, token and table counts, vectors of one length,
/// no slot twice, every block that is read or written inside its pool, every write where its token belongs and in no
/// other row's place. The errors are kv::Fault by name. For tests and debug builds; O(tokens · log tokens).
Status check(const Batch& batch, std::span<const kv::GroupConfig> groups, const BatchBounds& bounds);

}  // namespace pagoda::sched
