#include "kernels/attention/partition.h"

#include <algorithm>

#include "base/checked.h"

namespace pagoda::kernels {
namespace {

// Rows of queries that share one widening of K and V; a worker's scratch stays inside a second-level cache of 1 MiB.
constexpr std::int64_t kTileRows = 192;
constexpr std::int64_t kTileRowsWide = 128;  // heads wider than 128
constexpr std::int64_t kBlockRows = 8;       // room for the scores of a block of query rows

}  // namespace

HostScratch host_scratch(const AttentionProblem& problem) {
  const KvLayout& layout = problem.layout;
  const std::int64_t heads = problem.num_heads / layout.kv_heads;
  const std::int64_t rows = std::max(layout.key_dim, layout.value_dim) > 128 ? kTileRowsWide : kTileRows;
  HostScratch s;
  s.key_floats = round_up<std::int64_t>(layout.key_dim, 16);
  s.value_floats = round_up<std::int64_t>(layout.value_dim, 16);
  s.tile_tokens = std::max<std::int64_t>(1, rows / heads);
  s.tile_rows = s.tile_tokens * heads;
  s.worker_floats = s.tile_rows * (s.key_floats + 2 * s.value_floats) + kBlockRows * kPartitionKeys +
                    4 * round_up<std::int64_t>(s.tile_rows, 16) + s.value_floats +
                    kPartitionKeys * (s.key_floats + s.value_floats);
  s.partial_floats = s.value_floats + 16;
  const std::int64_t seen = problem.window > 0 ? std::min(problem.window, problem.max_context) : problem.max_context;
  s.max_partitions = ceil_div(seen, kPartitionKeys) + (problem.window > 0 ? 1 : 0);
  return s;
}

std::size_t host_scratch_bytes(const AttentionProblem& problem) {
  const HostScratch s = host_scratch(problem);
  const std::int64_t partials = problem.max_rows * problem.num_heads * s.max_partitions * s.partial_floats;
  return static_cast<std::size_t>(problem.workers * s.worker_floats + partials) * sizeof(float);
}

}  // namespace pagoda::kernels
