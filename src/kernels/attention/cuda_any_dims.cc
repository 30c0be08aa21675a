#include "kernels/attention/cuda_any_dims.h"

#include <bit>

#include "kernels/attention/cuda_attention.h"
#include "kernels/cuda/launch.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;

bool is_fp8(const AttentionProblem& problem) { return problem.layout.dtype == DType::kFp8E4m3; }

bool supports(const AttentionProblem& problem, const DeviceCaps& caps) {
  const KvLayout& layout = problem.layout;
  const bool elements = layout.dtype == DType::kBf16 || (is_fp8(problem) && caps.gpu.compute() >= 89);
  const auto fits = [](std::int64_t dim) { return dim % 2 == 0 && dim <= kAnyDimsMost; };
  return on_cuda(caps) && problem.activation == DType::kBf16 && layout.order == KvOrder::kHeads && elements &&
         fits(layout.key_dim) && fits(layout.value_dim);
}

std::vector<CompileUnit> units(const AttentionProblem& problem, const DeviceCaps& caps) {
  return {cuda_unit(caps, "attention/cuda_any_dims.cu", {define("ELEMENT", is_fp8(problem))})};
}

Result<AttentionStep> prepare(const AttentionProblem& problem, const AttentionWeights& weights,
                              device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  const KvLayout& layout = problem.layout;
  const AnyDimsParams fixed{.block_tables = nullptr,
                            .row_offsets = nullptr,
                            .row_starts = nullptr,
                            .sinks = problem.sinks ? weights.sinks : nullptr,
                            .num_tokens = 0,
                            .num_rows = 0,
                            .query_stride = 0,
                            .output_stride = 0,
                            .block_stride = 0,
                            .max_blocks = 0,
                            .heads = static_cast<std::int32_t>(problem.num_heads),
                            .kv_heads = static_cast<std::int32_t>(layout.kv_heads),
                            .key_dim = static_cast<std::int32_t>(layout.key_dim),
                            .value_dim = static_cast<std::int32_t>(layout.value_dim),
                            .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_size)),
                            .window = static_cast<std::int32_t>(problem.window),
                            .scale = static_cast<float>(problem.scale) * layout.key_scale,
                            .softcap = static_cast<float>(problem.softcap),
                            .value_scale = layout.value_scale};
  const bool early = programmatic(device.caps());
  auto kernel = PAGODA_TRY(device.kernel<AnyDimsParams>(units(problem, device.caps()).front(), "attend_any_dims"));
  return AttentionStep([=](const AttentionArgs& args, device::Stream& stream) {
    AnyDimsParams params = fixed;
    params.query = args.query.data;
    params.output = args.output.data;
    params.pages = args.pages.data;
    params.block_tables = args.group.block_tables;
    params.row_offsets = args.step.row_offsets;
    params.row_starts = args.step.row_starts;
    params.num_tokens = args.query.rows;
    params.num_rows = args.step.num_rows;
    params.query_stride = args.query.stride;
    params.output_stride = args.output.stride;
    params.block_stride = args.pages.block_stride;
    params.max_blocks = args.group.max_blocks;
    kernel.launch(device::cuda::cuda(stream),
                  {.grid = {.x = grid_size(fixed.heads), .y = grid_rows(params.num_tokens)},
                   .block = {.x = kAnyDimsWarps * 32},
                   .programmatic = early},
                  params);
  });
}

}  // namespace

const AttentionKernel kCudaAttentionAnyDims = {"cuda_any_dims", {"f32_by_row"}, supports, no_scratch, units, prepare};

}  // namespace pagoda::kernels
