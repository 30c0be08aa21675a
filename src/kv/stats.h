#pragma once

#include <cstdint>
#include <vector>

namespace pagoda::kv {

/// Counters since start. A probe counts as a hit if any of its tokens was cached, and as a miss if any was not.
struct PrefixCounters {
  std::int64_t probes = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t miss_tokens = 0;
  std::int64_t evictions = 0;               ///< blocks taken from the prefix cache for a sequence
  std::int64_t protected_prefix_skips = 0;  ///< cached blocks passed over by evictions because a sequence holds them

  bool operator==(const PrefixCounters&) const = default;
};

struct GroupUsage {
  std::int64_t total = 0;  ///< blocks; = free + live + cached
  std::int64_t free = 0;
  std::int64_t live = 0;    ///< held by sequences
  std::int64_t cached = 0;  ///< held by the prefix cache alone

  bool operator==(const GroupUsage&) const = default;
};

/// A plain snapshot of KvCache.
struct CacheStats {
  std::vector<GroupUsage> groups{};
  std::int64_t prefixes = 0;   ///< blocks' worth of tokens that a prompt may find again
  std::int64_t sequences = 0;  ///< that hold blocks
  PrefixCounters counters{};
};

}  // namespace pagoda::kv
