#include "kernels/residual/residual.h"

#include <array>
#include <cmath>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/residual/cpu_params.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;

struct ReferenceParams {
  ResidualArgs args;
  const float* norm;
  double scale, epsilon, weight_shift;
};

void residual_reference(const ReferenceParams& p, device::HostRange range) {
  const std::int64_t hidden = p.args.update.cols;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const double* update = p.args.update.row<double>(row);
    double* residual = p.args.residual.row<double>(row);
    double squares = 0;
    for (std::int64_t i = 0; i < hidden; ++i) squares += update[i] * update[i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(hidden) + p.epsilon);
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double factor = p.norm != nullptr ? inverse * (p.norm[i] + p.weight_shift) : 1;
      residual[i] += p.scale * update[i] * factor;
    }
  }
}

Result<ResidualStep> prepare_reference(const ResidualProblem& problem, const ResidualWeights& weights,
                                       device::Device&) {
  return ResidualStep([problem, weights](const ResidualArgs& args, device::Stream& stream) {
    const ReferenceParams params{args, problem.norm ? weights.norm : nullptr, problem.scale, problem.epsilon,
                                 problem.weight_shift};
    device::host(stream).launch(residual_reference, params, args.update.rows, rows_per_piece(problem.hidden));
  });
}

template <device::HostKernel<ResidualParams> kernel>
Result<ResidualStep> prepare_cpu(const ResidualProblem& problem, const ResidualWeights& weights, device::Device&) {
  return ResidualStep([problem, weights](const ResidualArgs& args, device::Stream& stream) {
    const ResidualParams params{.update = args.update.row<float>(0),
                                .residual = args.residual.row<float>(0),
                                .norm = problem.norm ? weights.norm : nullptr,
                                .update_stride = args.update.stride,
                                .residual_stride = args.residual.stride,
                                .hidden = problem.hidden,
                                .scale = problem.scale,
                                .epsilon = static_cast<float>(problem.epsilon),
                                .weight_shift = problem.weight_shift};
    device::host(stream).launch(kernel, params, args.update.rows, rows_per_piece(problem.hidden));
  });
}

template <CpuIsa isa, device::HostKernel<ResidualParams> kernel>
constexpr ResidualKernel cpu(std::string_view name, Arithmetic arithmetic) {
  return {name, arithmetic, on_cpu<ResidualProblem, isa>, no_scratch, no_units, prepare_cpu<kernel>};
}

constexpr std::array kKernels = {
    cpu<CpuIsa::kAvx512, residual_avx512>("cpu_avx512", kFusedLanesArithmetic),
    cpu<CpuIsa::kAvx2, residual_avx2>("cpu_avx2", kFusedLanesArithmetic),
    cpu<CpuIsa::kPortable, residual_portable>("cpu_portable", kPlainLanesArithmetic),
    ResidualKernel{"reference", kReferenceArithmetic, on_reference<ResidualProblem>, no_scratch, no_units,
                   prepare_reference},
};

}  // namespace

std::span<const ResidualKernel> residual_kernels() { return kKernels; }

}  // namespace pagoda::kernels
