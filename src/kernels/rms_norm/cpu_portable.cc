#include "kernels/cpu/lanes_portable.h"

#include "kernels/rms_norm/cpu_body.h"

namespace pagoda::kernels {

void rms_norm_portable(const RmsNormParams& params, device::HostRange range) { rms_norm_rows(params, range); }

}  // namespace pagoda::kernels
