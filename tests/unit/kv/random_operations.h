// Random lives of many sequences, run on KvCache and on PlainCache side by side, with pages that remember what was
// written into them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "unit/kv/plain_cache.h"

namespace pagoda::kv {

class RandomOperations {
 public:
  RandomOperations(std::vector<GroupConfig> groups, std::uint32_t seed);
  ~RandomOperations();

  /// One random operation and all comparisons after it. False if any failed (the test has its message).
  bool step();

  /// What happened, so that a test can say that nothing was left out.
  struct Tally {
    std::int64_t opened = 0, refused = 0, hits = 0, extended = 0, pressed = 0, committed = 0, forked = 0, released = 0;
    std::int64_t dropped = 0;
  };
  const Tally& tally() const { return tally_; }
  const KvCache& cache() const { return cache_; }

  /// Ends all sequences; then every block must be free or cached.
  bool drain();

 private:
  struct Life {
    CachedSequence real;
    PlainCache::Sequence plain;
    PlainCache::Ids ids;
    std::int64_t computed = 0;
  };

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  void open();
  void extend(Life& life);
  void compute(Life& life);
  void commit(Life& life);
  void fork(const Life& life);
  void release(std::size_t index);
  std::int64_t first_visible(std::size_t group, std::int64_t position) const;
  void compare();
  void compare_tables(const Life& life);

  KvCache cache_;
  PlainCache plain_;
  std::mt19937 random_;
  std::vector<Life> lives_;
  std::vector<std::vector<std::uint64_t>> pages_;  // one a group: (blocks, block size), the prefix that each slot ends
  Tally tally_;
};

}  // namespace pagoda::kv
