#include "kernels/attention/attention.h"
#include "kernels/attention/cuda_attention.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "kernels/attention/cpu_params.h"
#include "kernels/attention/partition.h"
#include "kernels/attention/reference.h"
#include "kernels/cpu/candidates.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;
using tensor::DType;

// Pieces of a decode's work that each worker is offered: enough to even out what it shares a core with.
constexpr std::int64_t kPiecesPerWorker = 8;
// (row, head) pairs whose merging costs less than waking a worker.
constexpr std::int64_t kMergePiece = 32;

struct CpuKernels {
  device::HostKernel<AttentionTileParams> tiles;
  device::HostKernel<AttentionPartitionParams> partitions;
  device::HostKernel<AttentionMergeParams> merge;
};

/// All that does not change from launch to launch.
AttentionParams fixed_params(const AttentionProblem& problem, const AttentionWeights& weights) {
  AttentionParams params{};
  params.sinks = problem.sinks ? weights.sinks : nullptr;
  params.layout = problem.layout;
  params.scratch = host_scratch(problem);
  params.num_heads = problem.num_heads;
  params.window = problem.window;
  const double log2e = std::numbers::log2e;
  params.scale = static_cast<float>(problem.softcap > 0 ? problem.scale : problem.scale * log2e);
  params.inverse_softcap = problem.softcap > 0 ? static_cast<float>(1 / problem.softcap) : 0.0f;
  params.softcap_log2 = static_cast<float>(problem.softcap * log2e);
  return params;
}

void launch(const CpuKernels& kernels, const AttentionParams& p, std::int64_t workers, device::HostStream& stream) {
  const std::int64_t rows = p.step.num_rows;
  if (p.step.num_tokens > rows) {
    const std::int64_t tiles = p.step.num_tokens / p.scratch.tile_tokens + rows;
    stream.launch(kernels.tiles, AttentionTileParams{p}, tiles * p.layout.kv_heads);
  }
  const std::int64_t items = rows * p.layout.kv_heads * p.scratch.max_partitions;
  const std::int64_t units = std::min(items, kPiecesPerWorker * workers);
  stream.launch(kernels.partitions, AttentionPartitionParams{p, units}, units);
  stream.launch(kernels.merge, AttentionMergeParams{p}, rows * p.num_heads + 1, kMergePiece);
}

template <device::HostKernel<AttentionTileParams> tiles, device::HostKernel<AttentionPartitionParams> partitions,
          device::HostKernel<AttentionMergeParams> merge>
Result<AttentionStep> prepare_cpu(const AttentionProblem& problem, const AttentionWeights& weights, device::Device&) {
  return AttentionStep([fixed = fixed_params(problem, weights), workers = problem.workers](const AttentionArgs& args,
                                                                                           device::Stream& stream) {
    AttentionParams params = fixed;
    params.query = args.query.row<float>(0);
    params.output = args.output.row<float>(0);
    params.query_stride = args.query.stride;
    params.output_stride = args.output.stride;
    params.pages = args.pages.data;
    params.block_stride = args.pages.block_stride;
    params.step = args.step;
    params.group = args.group;
    params.worker_scratch = reinterpret_cast<float*>(args.scratch);
    params.partials = params.worker_scratch + workers * fixed.scratch.worker_floats;
    launch({tiles, partitions, merge}, params, workers, device::host(stream));
  });
}

std::size_t cpu_scratch(const AttentionProblem& problem, const DeviceCaps&) { return host_scratch_bytes(problem); }

bool reference_supports(const AttentionProblem& problem, const DeviceCaps& caps) {
  return on_reference(problem, caps) && problem.layout.dtype == DType::kF64;
}

template <CpuIsa isa>
bool cpu_supports(const AttentionProblem& problem, const DeviceCaps& caps) {
  const DType dtype = problem.layout.dtype;
  return on_cpu<AttentionProblem, isa>(problem, caps) &&
         (dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32);
}

// Keys, queries, weights and values with 8 significant bits: less than standard precision's other roundings.
bool bf16_supports(const AttentionProblem& problem, const DeviceCaps& caps) {
  return cpu_supports<CpuIsa::kAvx512Bf16>(problem, caps) && problem.precision == Precision::kStandard;
}

template <CpuIsa isa, auto tiles, auto partitions, auto merge>
constexpr AttentionKernel cpu(std::string_view name, Arithmetic arithmetic) {
  return {name, arithmetic, cpu_supports<isa>, cpu_scratch, no_units, prepare_cpu<tiles, partitions, merge>};
}

}  // namespace

std::span<const AttentionKernel> attention_kernels() {
  static const std::array kKernels = {
      kCudaAttention,
      kCudaAttentionAnyDims,
      AttentionKernel{
          "cpu_avx512_bf16",
          {"bf16_pairs_f32"},
          bf16_supports,
          cpu_scratch,
          no_units,
          prepare_cpu<attention_tiles_avx512_bf16, attention_partitions_avx512_bf16, attention_merge_avx512_bf16>},
      cpu<CpuIsa::kAvx512, attention_tiles_avx512, attention_partitions_avx512, attention_merge_avx512>(
          "cpu_avx512", kFusedLanesArithmetic),
      cpu<CpuIsa::kAvx2, attention_tiles_avx2, attention_partitions_avx2, attention_merge_avx2>("cpu_avx2",
                                                                                                kFusedLanesArithmetic),
      cpu<CpuIsa::kPortable, attention_tiles_portable, attention_partitions_portable, attention_merge_portable>(
          "cpu_portable", kPlainLanesArithmetic),
      AttentionKernel{"reference", kReferenceArithmetic, reference_supports, attention_reference_scratch, no_units,
                      prepare_attention_reference},
  };
  return kKernels;
}

}  // namespace pagoda::kernels
