#include "kernels/stages/attention_in.h"

#include <array>

#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/linear_chain.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::MatrixView;

KvStoreProblem store_problem(const AttentionInProblem& problem) {
  return {.activation = problem.norm.activation, .layout = problem.layout};
}

struct Buffers {
  MatrixView normed, key, value;
  std::byte* product = nullptr;
};

Buffers cut(const AttentionInProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  const tensor::DType dtype = problem.norm.activation;
  const std::int64_t most = problem.product.max_m;
  Buffers out;
  if (problem.has_norm) out.normed = scratch.matrix(dtype, most, rows, problem.norm.hidden);
  out.key = scratch.matrix(dtype, most, rows, problem.post.num_kv_heads * problem.post.key_dim);
  out.value = scratch.matrix(dtype, most, rows, problem.post.num_kv_heads * problem.post.value_dim);
  out.product = scratch.bytes(0);
  return out;
}

bool supports(const AttentionInProblem& problem, const DeviceCaps& caps) {
  return LinearChain::supports(problem.product, caps) && choose(rms_norm_kernels(), problem.norm, caps) != nullptr &&
         choose(qkv_postprocess_kernels(), problem.post, caps) != nullptr &&
         choose(kv_store_kernels(), store_problem(problem), caps) != nullptr;
}

std::size_t scratch_bytes(const AttentionInProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + LinearChain::scratch_bytes(problem.product, caps);
}

struct Chain {
  AttentionInProblem problem;
  RmsNormStep norm;
  LinearChain product;
  QkvPostprocessStep post;
  KvStoreStep store;

  void launch(const AttentionInArgs& args, device::Stream& stream) const {
    ScratchCutter scratch(args.scratch);
    const Buffers buffers = cut(problem, args.residual.rows, scratch);
    if (problem.has_norm) norm.launch({args.residual, buffers.normed}, stream);
    product.launch({.input = problem.has_norm ? buffers.normed : args.residual,
                    .outputs = {args.query, buffers.key, buffers.value},
                    .scratch = buffers.product},
                   stream);
    post.launch({args.query, buffers.key, buffers.value, args.step.positions}, stream);
    store.launch({buffers.key, buffers.value, args.group.write_slots, args.pages}, stream);
  }
};

Result<AttentionInStep> prepare(const AttentionInProblem& problem, const AttentionInWeights& weights,
                                device::Device& device) {
  Chain chain{.problem = problem, .norm = {}, .product = {}, .post = {}, .store = {}};
  if (problem.has_norm) {
    chain.norm = PAGODA_TRY(prepare_first(rms_norm_kernels(), problem.norm, weights.norm, device));
  }
  chain.product = PAGODA_TRY(LinearChain::prepare(problem.product, weights.product, device));
  chain.post = PAGODA_TRY(prepare_first(qkv_postprocess_kernels(), problem.post, weights.post, device));
  chain.store = PAGODA_TRY(prepare_first(kv_store_kernels(), store_problem(problem), KvStoreWeights{}, device));
  return AttentionInStep([chain](const AttentionInArgs& args, device::Stream& stream) { chain.launch(args, stream); });
}

}  // namespace

std::span<const AttentionInKernel> attention_in_kernels() {
  static const std::array kKernels = {
      kCudaAttentionIn,
      AttentionInKernel{"chain", {"chain"}, supports, scratch_bytes, no_units, prepare},
  };
  return kKernels;
}

}  // namespace pagoda::kernels
