// What the engine counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "kv/stats.h"
#include "sched/scheduler.h"

namespace pagoda::engine {

/// How often a value fell between which bounds: counts[i] is of values over bounds[i - 1] and up to bounds[i], the one
/// after the last of the rest. Of fixed size, so that counting and copying allocate nothing.
struct Distribution {
  static constexpr std::size_t kMostBounds = 23;

  std::span<const double> bounds;  ///< ascending, static
  std::array<std::int64_t, kMostBounds + 1> counts{};
  double sum = 0;

  void add(double value) {
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
    sum += value;
  }
};

// Seconds: from a tenth of a millisecond to what a client waits at most; each decade has its 1, 2 and 5.
inline constexpr std::array<double, 20> kSecondBounds = {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1,
                                                         .2,    .5,    1,     2,    5,    10,   20,  50,  100, 500};
inline constexpr std::array<double, 17> kCountBounds = {1,   2,   4,    8,    16,   32,   64,    128,  256,
                                                        512, 768, 1024, 2048, 4096, 8192, 16384, 65536};
static_assert(kSecondBounds.size() <= Distribution::kMostBounds && kCountBounds.size() <= Distribution::kMostBounds);

/// Counters since start, taken between two steps.
struct Snapshot {
  sched::SchedulerStats scheduler;
  kv::CacheStats cache;
  std::int64_t followers = 0;  ///< choices that wait for the first one's prompt
  std::int64_t accepted = 0;
  std::int64_t finished = 0;   ///< with kStop or kLength
  std::int64_t stopped = 0;    ///< of these, with kStop
  std::int64_t cancelled = 0;  ///< by their reader, or overdue
  std::int64_t overdue = 0;    ///< of these, overdue
  std::int64_t failed = 0;
  std::int64_t non_finite_rows = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t ids = 0;  ///< handed out

  Distribution queue_s{.bounds = kSecondBounds};        ///< from submission to the first step that worked on it
  Distribution first_id_s{.bounds = kSecondBounds};     ///< from submission
  Distribution between_ids_s{.bounds = kSecondBounds};  ///< of one job
  Distribution request_s{.bounds = kSecondBounds};      ///< from submission to the end, of those that finished
  Distribution step_s{.bounds = kSecondBounds};         ///< from the end of the step before, if it ended later
  Distribution step_rows{.bounds = kCountBounds};
  Distribution step_tokens{.bounds = kCountBounds};
};

}  // namespace pagoda::engine
