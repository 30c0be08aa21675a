#include "kernels/gated_activation/gated_activation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/gated_activation/cpu_params.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;

struct ReferenceParams {
  GatedActivationArgs args;
  ActivationKind kind;
  double limit;
};

double gated(ActivationKind kind, double limit, double gate, double up) {
  if (kind == ActivationKind::kSilu) return gate / (1 + std::exp(-gate)) * up;
  if (kind == ActivationKind::kGeluTanh) {
    return 0.5 * gate * (1 + std::tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))) * up;
  }
  const double g = std::min(gate, limit);
  const double u = std::clamp(up, -limit, limit);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

void gated_activation_reference(const ReferenceParams& p, device::HostRange range) {
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const double* gate = p.args.gate.row<double>(row);
    const double* up = p.args.up.row<double>(row);
    double* output = p.args.output.row<double>(row);
    for (std::int64_t i = 0; i < p.args.gate.cols; ++i) output[i] = gated(p.kind, p.limit, gate[i], up[i]);
  }
}

Result<GatedActivationStep> prepare_reference(const GatedActivationProblem& problem, const GatedActivationWeights&,
                                              device::Device&) {
  return GatedActivationStep([problem](const GatedActivationArgs& args, device::Stream& stream) {
    const ReferenceParams params{args, problem.kind, problem.limit};
    device::host(stream).launch(gated_activation_reference, params, args.gate.rows, rows_per_piece(8 * problem.width));
  });
}

template <device::HostKernel<GatedActivationParams> kernel>
Result<GatedActivationStep> prepare_cpu(const GatedActivationProblem& problem, const GatedActivationWeights&,
                                        device::Device&) {
  return GatedActivationStep([problem](const GatedActivationArgs& args, device::Stream& stream) {
    const GatedActivationParams params{.gate = args.gate.row<float>(0),
                                       .up = args.up.row<float>(0),
                                       .output = args.output.row<float>(0),
                                       .gate_stride = args.gate.stride,
                                       .up_stride = args.up.stride,
                                       .output_stride = args.output.stride,
                                       .width = problem.width,
                                       .kind = problem.kind,
                                       .limit = problem.limit};
    device::host(stream).launch(kernel, params, args.gate.rows, rows_per_piece(2 * problem.width));
  });
}

template <CpuIsa isa, device::HostKernel<GatedActivationParams> kernel>
constexpr GatedActivationKernel cpu(std::string_view name, Arithmetic arithmetic) {
  return {name, arithmetic, on_cpu<GatedActivationProblem, isa>, no_scratch, no_units, prepare_cpu<kernel>};
}

constexpr std::array kKernels = {
    cpu<CpuIsa::kAvx512, gated_activation_avx512>("cpu_avx512", kFusedLanesArithmetic),
    cpu<CpuIsa::kAvx2, gated_activation_avx2>("cpu_avx2", kFusedLanesArithmetic),
    cpu<CpuIsa::kPortable, gated_activation_portable>("cpu_portable", kPlainLanesArithmetic),
    GatedActivationKernel{"reference", kReferenceArithmetic, on_reference<GatedActivationProblem>, no_scratch, no_units,
                          prepare_reference},
};

}  // namespace

std::span<const GatedActivationKernel> gated_activation_kernels() { return kKernels; }

}  // namespace pagoda::kernels
