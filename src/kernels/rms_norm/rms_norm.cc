#include "kernels/rms_norm/rms_norm.h"

#include <array>
#include <cmath>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/rms_norm/cpu_params.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;

struct ReferenceParams {
  RmsNormArgs args;
  const float* weight;
  double epsilon, weight_shift;
};

void rms_norm_reference(const ReferenceParams& p, device::HostRange range) {
  const std::int64_t hidden = p.args.input.cols;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const double* in = p.args.input.row<double>(row);
    double* out = p.args.output.row<double>(row);
    double squares = 0;
    for (std::int64_t i = 0; i < hidden; ++i) squares += in[i] * in[i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(hidden) + p.epsilon);
    for (std::int64_t i = 0; i < hidden; ++i) out[i] = in[i] * inverse * (p.weight[i] + p.weight_shift);
  }
}

Result<RmsNormStep> prepare_reference(const RmsNormProblem& problem, const RmsNormWeights& weights, device::Device&) {
  return RmsNormStep([problem, weights](const RmsNormArgs& args, device::Stream& stream) {
    const ReferenceParams params{args, weights.weight, problem.epsilon, problem.weight_shift};
    device::host(stream).launch(rms_norm_reference, params, args.input.rows, rows_per_piece(problem.hidden));
  });
}

template <device::HostKernel<RmsNormParams> kernel>
Result<RmsNormStep> prepare_cpu(const RmsNormProblem& problem, const RmsNormWeights& weights, device::Device&) {
  return RmsNormStep([problem, weights](const RmsNormArgs& args, device::Stream& stream) {
    const RmsNormParams params{.input = args.input.row<float>(0),
                               .output = args.output.row<float>(0),
                               .weight = weights.weight,
                               .input_stride = args.input.stride,
                               .output_stride = args.output.stride,
                               .hidden = problem.hidden,
                               .epsilon = static_cast<float>(problem.epsilon),
                               .weight_shift = problem.weight_shift};
    device::host(stream).launch(kernel, params, args.input.rows, rows_per_piece(problem.hidden));
  });
}

template <CpuIsa isa, device::HostKernel<RmsNormParams> kernel>
constexpr RmsNormKernel cpu(std::string_view name, Arithmetic arithmetic) {
  return {name, arithmetic, on_cpu<RmsNormProblem, isa>, no_scratch, no_units, prepare_cpu<kernel>};
}

constexpr std::array kKernels = {
    cpu<CpuIsa::kAvx512, rms_norm_avx512>("cpu_avx512", kFusedLanesArithmetic),
    cpu<CpuIsa::kAvx2, rms_norm_avx2>("cpu_avx2", kFusedLanesArithmetic),
    cpu<CpuIsa::kPortable, rms_norm_portable>("cpu_portable", kPlainLanesArithmetic),
    RmsNormKernel{"reference", kReferenceArithmetic, on_reference<RmsNormProblem>, no_scratch, no_units,
                  prepare_reference},
};

}  // namespace

std::span<const RmsNormKernel> rms_norm_kernels() { return kKernels; }

}  // namespace pagoda::kernels
