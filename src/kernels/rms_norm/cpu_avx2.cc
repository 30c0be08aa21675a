#include "kernels/cpu/lanes_avx2.h"

#include "kernels/rms_norm/cpu_body.h"

namespace pagoda::kernels {

void rms_norm_avx2(const RmsNormParams& params, device::HostRange range) { rms_norm_rows(params, range); }

}  // namespace pagoda::kernels
