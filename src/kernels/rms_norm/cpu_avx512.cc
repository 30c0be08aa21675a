#include "kernels/cpu/lanes_avx512.h"

#include "kernels/rms_norm/cpu_body.h"

namespace pagoda::kernels {

void rms_norm_avx512(const RmsNormParams& params, device::HostRange range) { rms_norm_rows(params, range); }

}  // namespace pagoda::kernels
