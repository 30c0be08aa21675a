#include "kernels/cpu/lanes_avx2.h"

#include "kernels/kv_store/cpu_body.h"

namespace pagoda::kernels {

void kv_store_avx2(const KvStoreParams& params, device::HostRange range) { kv_store_tokens(params, range); }

}  // namespace pagoda::kernels
