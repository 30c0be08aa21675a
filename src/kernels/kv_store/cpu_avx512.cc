#include "kernels/cpu/lanes_avx512.h"

#include "kernels/kv_store/cpu_body.h"

namespace pagoda::kernels {

void kv_store_avx512(const KvStoreParams& params, device::HostRange range) { kv_store_tokens(params, range); }

}  // namespace pagoda::kernels
