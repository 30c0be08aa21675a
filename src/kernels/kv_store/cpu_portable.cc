#include "kernels/cpu/lanes_portable.h"

#include "kernels/kv_store/cpu_body.h"

namespace pagoda::kernels {

void kv_store_portable(const KvStoreParams& params, device::HostRange range) { kv_store_tokens(params, range); }

}  // namespace pagoda::kernels
