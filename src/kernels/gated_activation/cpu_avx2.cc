#include "kernels/cpu/lanes_avx2.h"

#include "kernels/gated_activation/cpu_body.h"

namespace pagoda::kernels {

void gated_activation_avx2(const GatedActivationParams& params, device::HostRange range) {
  gated_activation_rows(params, range);
}

}  // namespace pagoda::kernels
