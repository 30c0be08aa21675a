#include "kernels/cpu/lanes_avx512.h"
// after the lanes
#include "kernels/attention/products_f32.h"
// after both
#include "kernels/attention/cpu_body.h"

namespace pagoda::kernels {

void attention_tiles_avx512(const AttentionTileParams& params, device::HostRange range) {
  attention_tiles(params, range);
}
void attention_partitions_avx512(const AttentionPartitionParams& params, device::HostRange range) {
  attention_partitions(params, range);
}
void attention_merge_avx512(const AttentionMergeParams& params, device::HostRange range) {
  attention_merge(params, range);
}

}  // namespace pagoda::kernels
