// linear's candidates on CUDA: CudaProduct with bf16 outputs, over weights as mma16, as mma_codes or as their files'
// rows.
#pragma once

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

extern const LinearKernel kMmaCodesCudaLinear;
extern const LinearKernel kMma16CudaLinear;
extern const LinearKernel kRowsCudaLinear;

}  // namespace pagoda::kernels
