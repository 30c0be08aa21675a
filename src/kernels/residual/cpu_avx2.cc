#include "kernels/cpu/lanes_avx2.h"

#include "kernels/residual/cpu_body.h"

namespace pagoda::kernels {

void residual_avx2(const ResidualParams& params, device::HostRange range) { residual_rows(params, range); }

}  // namespace pagoda::kernels
