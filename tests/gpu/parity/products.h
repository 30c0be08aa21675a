// Products as the cases of parity tests name them: weights by format and size.
#pragma once

#include <string>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/linear/pack.h"
#include "quant/format.h"

namespace pagoda::parity {

using device::CompileUnit;

/// One weight of a case.
struct WeightCase {
  std::string format;
  std::int64_t n = 0;
  bool bias = false;
  bool fp8_input = false;
  bool row_scales = false;  ///< of formats whose blocks begin with a float
};
/// A product on the GPU; its layouts are left open.
inline kernels::LinearProblem gpu_product(const std::vector<WeightCase>& weights, std::int64_t k, std::int64_t max_m) {
  kernels::LinearProblem problem;
  for (const WeightCase& c : weights) {
    problem.weights[static_cast<std::size_t>(problem.num_weights++)] = {
        quant::find_format(c.format), nullptr, c.n, c.bias, false, c.fp8_input, c.row_scales};
  }
  problem.k = k;
  problem.max_m = max_m;
  problem.activation = tensor::DType::kBf16;
  return problem;
}

/// The same on the reference.
inline kernels::LinearProblem reference_product(const kernels::LinearProblem& gpu) {
  kernels::LinearProblem problem = gpu;
  problem.precision = kernels::Precision::kExact;
  problem.activation = tensor::DType::kF64;
  for (int i = 0; i < problem.num_weights; ++i) {
    problem.weights[static_cast<std::size_t>(i)].layout = &kernels::kRowsF32Layout;
  }
  return problem;
}

/// Layouts are those that a plan for this GPU would choose.
inline kernels::LinearProblem planned(const std::vector<WeightCase>& weights, std::int64_t k, std::int64_t max_m,
                                      const device::DeviceCaps& caps) {
  kernels::LinearProblem problem = gpu_product(weights, k, max_m);
  PAGODA_CHECK(kernels::first_linear_kernel(problem, caps) != nullptr, "no candidate for a product");
  return problem;
}

inline void append(std::vector<CompileUnit>& units, const std::vector<CompileUnit>& more) {
  units.insert(units.end(), more.begin(), more.end());
}

}  // namespace pagoda::parity
