#include "kernels/cpu/lanes_avx512.h"
// after the lanes
#include "kernels/attention/products_bf16.h"
// after both
#include "kernels/attention/cpu_body.h"

namespace pagoda::kernels {

void attention_tiles_avx512_bf16(const AttentionTileParams& params, device::HostRange range) {
  attention_tiles(params, range);
}
void attention_partitions_avx512_bf16(const AttentionPartitionParams& params, device::HostRange range) {
  attention_partitions(params, range);
}
void attention_merge_avx512_bf16(const AttentionMergeParams& params, device::HostRange range) {
  attention_merge(params, range);
}

}  // namespace pagoda::kernels
