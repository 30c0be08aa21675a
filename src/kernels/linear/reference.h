#pragma once

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

extern const LinearKernel kReferenceLinear;

}  // namespace pagoda::kernels
