#include "kernels/cpu/lanes_portable.h"

#include "kernels/residual/cpu_body.h"

namespace pagoda::kernels {

void residual_portable(const ResidualParams& params, device::HostRange range) { residual_rows(params, range); }

}  // namespace pagoda::kernels
