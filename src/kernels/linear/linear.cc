#include "kernels/linear/linear.h"

#include "kernels/linear/cpu_gemm_f32.h"
#include "kernels/linear/cpu_gemm_int8.h"
#include "kernels/linear/cpu_generic.h"
#include "kernels/linear/cuda_linear.h"
#include "kernels/linear/reference.h"

namespace pagoda::kernels {

std::span<const LinearKernel* const> linear_kernels() {
  static constexpr std::array kAll = {
      &kInt8Avx512Linear,     // quantised formats
      &kInt8Avx2Linear,       //
      &kFloatAvx512Linear,    // f32, f16, bf16
      &kFloatAvx2Linear,      //
      &kGenericAvx512Linear,  // any format
      &kGenericAvx2Linear,    //
      &kGenericLinear,        //
      &kReferenceLinear,      // another device than all before it
      &kMma16CudaLinear,      // of GPUs: bf16
      &kMmaCodesCudaLinear,   // codes, and bf16 beside them
      &kRowsCudaLinear,       // any format
  };
  return kAll;
}

const LinearKernel* first_linear_kernel(LinearProblem& problem, const device::DeviceCaps& caps) {
  for (const LinearKernel* kernel : linear_kernels()) {
    LinearProblem candidate = problem;
    for (int w = 0; w < problem.num_weights; ++w) {
      candidate.weights[w].layout = kernel->layout(*problem.weights[w].format);
    }
    if (!kernel->supports(candidate, caps)) continue;
    problem = candidate;
    return kernel;
  }
  return nullptr;
}

}  // namespace pagoda::kernels
