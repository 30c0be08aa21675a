#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/attention/partition.h"
#include "kernels/kv_store/kv_layout.h"
#include "kernels/step.h"

namespace pagoda::kernels {

struct AttentionParams {
  const float* query;
  float* output;
  std::byte* pages;
  const float* sinks;     // null: none
  float* worker_scratch;  // HostScratch::worker_floats each
  float* partials;        // (rows, heads, max_partitions, partial_floats)
  std::int64_t query_stride, output_stride, block_stride;
  StepInputs step;
  GroupInputs group;
  KvLayout layout;
  HostScratch scratch;
  std::int64_t num_heads, window;
  float scale;            // of q·k; gives scores in units of log2 when there is no cap
  float inverse_softcap;  // 0: no cap
  float softcap_log2;     // cap · log2(e)
};

/// Three launches make a step. Tiles: rows of several tokens, units are (tile of tokens, kv head), counted as for rows
/// that all end in a partial tile, the surplus being empty. Partitions: rows of one token; unit u of `units` does its
/// share of all (row, kv head, partition). Merge: units are (row, head) of rows of one token, and one more that clears
/// the padding.
struct AttentionTileParams {
  AttentionParams p;
};
struct AttentionPartitionParams {
  AttentionParams p;
  std::int64_t units;
};
struct AttentionMergeParams {
  AttentionParams p;
};

void attention_tiles_portable(const AttentionTileParams& params, device::HostRange range);
void attention_tiles_avx2(const AttentionTileParams& params, device::HostRange range);
void attention_tiles_avx512(const AttentionTileParams& params, device::HostRange range);
void attention_partitions_portable(const AttentionPartitionParams& params, device::HostRange range);
void attention_partitions_avx2(const AttentionPartitionParams& params, device::HostRange range);
void attention_partitions_avx512(const AttentionPartitionParams& params, device::HostRange range);
void attention_merge_portable(const AttentionMergeParams& params, device::HostRange range);
void attention_merge_avx2(const AttentionMergeParams& params, device::HostRange range);
void attention_merge_avx512(const AttentionMergeParams& params, device::HostRange range);
void attention_tiles_avx512_bf16(const AttentionTileParams& params, device::HostRange range);
void attention_partitions_avx512_bf16(const AttentionPartitionParams& params, device::HostRange range);
void attention_merge_avx512_bf16(const AttentionMergeParams& params, device::HostRange range);

}  // namespace pagoda::kernels
