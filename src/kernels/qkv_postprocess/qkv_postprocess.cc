#include "kernels/qkv_postprocess/qkv_postprocess.h"

#include <array>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/row_pieces.h"
#include "kernels/qkv_postprocess/cpu_params.h"
#include "kernels/qkv_postprocess/reference.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;

/// All that does not change from launch to launch.
QkvPostprocessParams fixed_params(const QkvPostprocessProblem& problem, const QkvPostprocessWeights& weights) {
  const bool norm = problem.norm != QkvNorm::kNone;
  const bool rope = problem.rope.kind != RopeKind::kNone;
  QkvPostprocessParams params{};
  params.query_norm = norm ? weights.query_norm : nullptr;
  params.key_norm = norm ? weights.key_norm : nullptr;
  params.rope_low = rope ? weights.rope->low() : nullptr;
  params.rope_high = rope ? weights.rope->high() : nullptr;
  params.num_heads = problem.num_heads;
  params.num_kv_heads = problem.num_kv_heads;
  params.key_dim = problem.key_dim;
  params.value_dim = problem.value_dim;
  params.rope_step = RopeTable::kStep;
  params.num_pairs = problem.rope.num_pairs();
  params.pair_distance = problem.rope.pairing_dim() / 2;
  params.epsilon = static_cast<float>(problem.epsilon);
  params.weight_shift = problem.weight_shift;
  params.interleaved = problem.rope.pairing == RopePairing::kInterleaved;
  params.value_norm = problem.norm == QkvNorm::kAll;
  return params;
}

template <device::HostKernel<QkvPostprocessParams> kernel>
Result<QkvPostprocessStep> prepare_cpu(const QkvPostprocessProblem& problem, const QkvPostprocessWeights& weights,
                                       device::Device&) {
  const std::int64_t elements = problem.num_heads * problem.key_dim;
  return QkvPostprocessStep([fixed = fixed_params(problem, weights), table = weights.rope, elements](
                                const QkvPostprocessArgs& args, device::Stream& stream) {
    QkvPostprocessParams params = fixed;
    params.query = args.query.row<float>(0);
    params.key = args.key.row<float>(0);
    params.value = args.value.row<float>(0);
    params.positions = args.positions;
    params.query_stride = args.query.stride;
    params.key_stride = args.key.stride;
    params.value_stride = args.value.stride;
    device::host(stream).launch(kernel, params, args.query.rows, rows_per_piece(2 * elements));
  });
}

template <CpuIsa isa, device::HostKernel<QkvPostprocessParams> kernel>
constexpr QkvPostprocessKernel cpu(std::string_view name, Arithmetic arithmetic) {
  return {name, arithmetic, on_cpu<QkvPostprocessProblem, isa>, no_scratch, no_units, prepare_cpu<kernel>};
}

constexpr std::array kKernels = {
    cpu<CpuIsa::kAvx512, qkv_postprocess_avx512>("cpu_avx512", kFusedLanesArithmetic),
    cpu<CpuIsa::kAvx2, qkv_postprocess_avx2>("cpu_avx2", kFusedLanesArithmetic),
    cpu<CpuIsa::kPortable, qkv_postprocess_portable>("cpu_portable", kPlainLanesArithmetic),
    QkvPostprocessKernel{"reference", kReferenceArithmetic, on_reference<QkvPostprocessProblem>, no_scratch, no_units,
                         prepare_qkv_postprocess_reference},
};

}  // namespace

std::span<const QkvPostprocessKernel> qkv_postprocess_kernels() { return kKernels; }

}  // namespace pagoda::kernels
