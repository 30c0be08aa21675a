// What the host candidates of every operation say alike: where they run and what their arithmetic is called.
#pragma once

#include "device/caps.h"
#include "kernels/arithmetic.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

inline constexpr Arithmetic kReferenceArithmetic{"f64"};
inline constexpr Arithmetic kFusedLanesArithmetic{"f32_lanes16_fma"};  ///< bodies on lanes_avx512.h and lanes_avx2.h
inline constexpr Arithmetic kPlainLanesArithmetic{"f32_lanes16"};      ///< the same bodies on lanes_portable.h

template <class Problem>
bool on_reference(const Problem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kReference && problem.activation == tensor::DType::kF64;
}

template <class Problem, device::CpuIsa isa>
bool on_cpu(const Problem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCpu && caps.isa >= isa && problem.activation == tensor::DType::kF32;
}

}  // namespace pagoda::kernels
