// attention_in on CUDA: norm (within the product at few rows) → q, k, v → one kernel for head norms, RoPE and the
// cache's slots.
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product.h"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"
#include "kernels/rms_norm/cuda_norm.h"
#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;
using tensor::MatrixView;

constexpr int kStoreWarps = 4;

/// Whether queries, keys and values stay float until they are stored, so that they are rounded once: where weights are
/// codes. Weights that are bf16 themselves cost more than that rounding, and have more of them to move for it.
bool stores_floats(const AttentionInProblem& problem) {
  return std::ranges::any_of(problem.product.specs(), [](const LinearWeightSpec& weight) {
    return weight.layout == &kMmaCodesLayout && !weight.fp8_input;
  });
}

/// Of the normed rows, x of the product.
DType input_type(const AttentionInProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::takes_f16(problem.product, caps) ? DType::kF16 : DType::kBf16;
}

CudaProductProblem product_of(const AttentionInProblem& problem, const DeviceCaps& caps) {
  return {.linear = problem.product,
          .epilogue = stores_floats(problem) ? CudaEpilogue::kFloat : CudaEpilogue::kBf16,
          .input = input_type(problem, caps),
          .norm = problem.has_norm,
          .epsilon = static_cast<float>(problem.norm.epsilon),
          .norm_shift = problem.norm.weight_shift,
          .scale = 1};
}

CompileUnit store_unit(const AttentionInProblem& problem, const DeviceCaps& caps) {
  const QkvPostprocessProblem& post = problem.post;
  return cuda_unit(
      caps, "qkv_postprocess/cuda_qkv_store.cu",
      {define("KEY_DIM", problem.norm.any_size ? 0 : post.key_dim),
       define("VALUE_DIM", problem.norm.any_size ? 0 : post.value_dim), define("INPUT_FLOAT", stores_floats(problem)),
       define("NORM", post.norm), define("INTERLEAVED", post.rope.pairing == RopePairing::kInterleaved),
       define("KV_FP8", problem.layout.dtype == DType::kFp8E4m3), define("WARPS", kStoreWarps)});
}

/// Of a warp of the last kernel, if it can take heads the wide way.
int wide_heads(const AttentionInProblem& problem) {
  const QkvPostprocessProblem& post = problem.post;
  if (problem.norm.any_size) return 0;
  return qkv_store_heads(post.key_dim, post.value_dim, post.rope.pairing == RopePairing::kInterleaved);
}

struct Buffers {
  MatrixView normed, query, key, value;  // `query` of float ones only: others go where the stored ones do
  std::byte* product = nullptr;
};

Buffers cut(const AttentionInProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  const std::int64_t most = problem.product.max_m;
  Buffers out;
  out.normed = scratch.matrix(DType::kBf16, most, rows, problem.norm.hidden);
  const DType type = stores_floats(problem) ? DType::kF32 : DType::kBf16;
  const std::int64_t kv_heads = problem.post.num_kv_heads;
  if (type == DType::kF32) out.query = scratch.matrix(type, most, rows, problem.post.num_heads * problem.post.key_dim);
  out.key = scratch.matrix(type, most, rows, kv_heads * problem.post.key_dim);
  out.value = scratch.matrix(type, most, rows, kv_heads * problem.post.value_dim);
  out.product = scratch.bytes(0);
  return out;
}

bool supports(const AttentionInProblem& problem, const DeviceCaps& caps) {
  const KvLayout& layout = problem.layout;
  const bool elements = layout.dtype == DType::kBf16 || (layout.dtype == DType::kFp8E4m3 && caps.gpu.compute() >= 89);
  return CudaProduct::supports(product_of(problem, caps), caps) && problem.has_norm &&
         layout.order == KvOrder::kHeads && elements && problem.norm.hidden % 8 == 0 &&
         std::max(problem.post.key_dim, problem.post.value_dim) <= 512;
}

std::size_t scratch_bytes(const AttentionInProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + CudaProduct::scratch_bytes(product_of(problem, caps), caps);
}

std::vector<CompileUnit> units(const AttentionInProblem& problem, const DeviceCaps& caps) {
  std::vector<CompileUnit> units = CudaProduct::units(product_of(problem, caps), caps);
  std::ranges::copy(CudaNorm::units(problem.norm, input_type(problem, caps), problem.product.deterministic, caps),
                    std::back_inserter(units));
  units.push_back(store_unit(problem, caps));
  return units;
}

struct Prepared {
  AttentionInProblem problem;
  CudaNorm norm;
  CudaProduct product;
  device::cuda::Kernel<CudaQkvStoreParams> store;
  CudaQkvStoreParams fixed{};
  bool programmatic = false;

  void launch(const AttentionInArgs& args, device::cuda::CudaStream& stream) const {
    ScratchCutter scratch(args.scratch);
    const std::int64_t tokens = args.residual.rows;
    const Buffers buffers = cut(problem, tokens, scratch);
    const MatrixView& query = buffers.query.data != nullptr ? buffers.query : args.query;
    const bool owes = args.update != nullptr && args.update->slices > 0;
    const bool fused = product.norms_itself(tokens);
    // What is owed is settled first, also where the product norms itself: its kernel reads the residual.
    if (!fused || owes) norm.launch(args.residual, buffers.normed, stream, nullptr, args.update);
    product.launch({.input = fused ? args.residual.data : buffers.normed.data,
                    .norm = fused ? norm.weight() : nullptr,
                    .input_stride = fused ? args.residual.stride : buffers.normed.stride,
                    .m = tokens,
                    .outputs = {query.data, buffers.key.data, buffers.value.data},
                    .output_strides = {query.stride, buffers.key.stride, buffers.value.stride},
                    .scratch = buffers.product},
                   stream);
    CudaQkvStoreParams params = fixed;
    params.query = query.data;
    params.query_out = args.query.data;
    params.key = buffers.key.data;
    params.value = buffers.value.data;
    params.query_stride = query.stride;
    params.query_out_stride = args.query.stride;
    params.key_stride = buffers.key.stride;
    params.value_stride = buffers.value.stride;
    params.positions = args.step.positions;
    params.write_slots = args.group.write_slots;
    params.pages = args.pages.data;
    params.block_stride = args.pages.block_stride;
    params.tokens = tokens;
    const std::int64_t heads = problem.post.num_heads + 2 * problem.post.num_kv_heads;
    const std::int64_t heads_a_block = kStoreWarps * (fixed.wide != 0 ? wide_heads(problem) : 1);
    store.launch(stream,
                 {.grid = {.x = grid_size(ceil_div<std::int64_t>(heads, heads_a_block)), .y = grid_rows(tokens)},
                  .block = {.x = kStoreWarps * 32},
                  .programmatic = programmatic},
                 params);
  }
};

Result<AttentionInStep> prepare(const AttentionInProblem& problem, const AttentionInWeights& weights,
                                device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  const QkvPostprocessProblem& post = problem.post;
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->norm = PAGODA_TRY(CudaNorm::prepare(problem.norm, input_type(problem, device.caps()),
                                                problem.product.deterministic, weights.norm, device));
  CudaProductProblem product = product_of(problem, device.caps());
  product.input_factor = prepared->norm.factor();
  prepared->product = PAGODA_TRY(CudaProduct::prepare(product, weights.product, device));
  prepared->store = PAGODA_TRY(device.kernel<CudaQkvStoreParams>(store_unit(problem, device.caps()), "qkv_store"));
  prepared->programmatic = programmatic(device.caps());
  CudaQkvStoreParams& fixed = prepared->fixed;
  fixed.query_norm = weights.post.query_norm;
  fixed.key_norm = weights.post.key_norm;
  fixed.rope = weights.post.rope_rows;
  fixed.num_heads = static_cast<std::int32_t>(post.num_heads);
  fixed.num_kv_heads = static_cast<std::int32_t>(post.num_kv_heads);
  fixed.key_dim = static_cast<std::int32_t>(post.key_dim);
  fixed.value_dim = static_cast<std::int32_t>(post.value_dim);
  fixed.block_size = static_cast<std::int32_t>(problem.layout.block_size);
  fixed.num_pairs = static_cast<std::int32_t>(post.rope.num_pairs());
  fixed.pairing_dim = static_cast<std::int32_t>(post.rope.pairing_dim());
  // Rows of the step's buffers begin at multiples of 16 bytes.
  const bool whole = post.rope.pairing_dim() == post.key_dim && 2 * post.rope.num_pairs() == post.key_dim;
  fixed.wide = wide_heads(problem) > 0 && (fixed.rope == nullptr || whole) ? 1 : 0;
  fixed.epsilon = static_cast<float>(post.epsilon);
  fixed.weight_shift = post.weight_shift;
  fixed.key_scale = problem.layout.key_scale;
  fixed.value_scale = problem.layout.value_scale;
  return AttentionInStep(
      [prepared = std::shared_ptr<const Prepared>(std::move(prepared))](
          const AttentionInArgs& args, device::Stream& stream) { prepared->launch(args, device::cuda::cuda(stream)); });
}

}  // namespace

const AttentionInKernel kCudaAttentionIn = {"cuda", {"bf16_mma"}, supports, scratch_bytes, units, prepare};

}  // namespace pagoda::kernels
