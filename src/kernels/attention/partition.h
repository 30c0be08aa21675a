// How attention's work on the host is cut: keys into partitions at absolute positions, queries into tiles, and the
// scratch this takes.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace pagoda::kernels {

/// Keys of a partition; partition i holds keys i · 128 … i · 128 + 127 of a sequence.
inline constexpr std::int64_t kPartitionKeys = 128;
inline constexpr std::int64_t kPartitionGroups = kPartitionKeys / KvLayout::kGroup;

/// Floats of one worker's and one partial result's scratch. Every part begins at a multiple of 16 floats.
struct HostScratch {
  std::int64_t value_floats = 0;  ///< value_dim rounded up to whole vectors
  std::int64_t key_floats = 0;    ///< key_dim rounded up
  std::int64_t tile_tokens = 0;   ///< tokens of a query tile
  std::int64_t tile_rows = 0;     ///< query rows (tokens × heads of a kv head) a worker has room for
  std::int64_t worker_floats = 0;
  std::int64_t partial_floats = 0;  ///< accumulator, maximum, denominator of one (row, head, partition)
  std::int64_t max_partitions = 0;  ///< that one query can see
};

HostScratch host_scratch(const AttentionProblem& problem);
std::size_t host_scratch_bytes(const AttentionProblem& problem);

}  // namespace pagoda::kernels
