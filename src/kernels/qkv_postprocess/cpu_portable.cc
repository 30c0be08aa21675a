#include "kernels/cpu/lanes_portable.h"

#include "kernels/qkv_postprocess/cpu_body.h"

namespace pagoda::kernels {

void qkv_postprocess_portable(const QkvPostprocessParams& params, device::HostRange range) {
  qkv_postprocess_tokens(params, range);
}

}  // namespace pagoda::kernels
