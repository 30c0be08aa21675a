#include "kernels/stages/ffn_in.h"

#include <array>

#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/linear_chain.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::MatrixView;

struct Buffers {
  MatrixView normed, gate, up;
  std::byte* product = nullptr;
};

Buffers cut(const FfnInProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  const tensor::DType dtype = problem.norm.activation;
  const std::int64_t most = problem.product.max_m;
  Buffers out;
  if (problem.has_norm) out.normed = scratch.matrix(dtype, most, rows, problem.norm.hidden);
  out.gate = scratch.matrix(dtype, most, rows, problem.activation.width);
  out.up = scratch.matrix(dtype, most, rows, problem.activation.width);
  out.product = scratch.bytes(0);
  return out;
}

bool supports(const FfnInProblem& problem, const DeviceCaps& caps) {
  return LinearChain::supports(problem.product, caps) && choose(rms_norm_kernels(), problem.norm, caps) != nullptr &&
         choose(gated_activation_kernels(), problem.activation, caps) != nullptr;
}

std::size_t scratch_bytes(const FfnInProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + LinearChain::scratch_bytes(problem.product, caps);
}

struct Chain {
  FfnInProblem problem;
  RmsNormStep norm;
  LinearChain product;
  GatedActivationStep activation;

  void launch(const FfnInArgs& args, device::Stream& stream) const {
    ScratchCutter scratch(args.scratch);
    const Buffers buffers = cut(problem, args.residual.rows, scratch);
    if (problem.has_norm) norm.launch({args.residual, buffers.normed}, stream);
    product.launch({.input = problem.has_norm ? buffers.normed : args.residual,
                    .outputs = {buffers.gate, buffers.up},
                    .scratch = buffers.product},
                   stream);
    activation.launch({buffers.gate, buffers.up, args.output}, stream);
  }
};

Result<FfnInStep> prepare(const FfnInProblem& problem, const FfnInWeights& weights, device::Device& device) {
  Chain chain{.problem = problem, .norm = {}, .product = {}, .activation = {}};
  if (problem.has_norm) {
    chain.norm = PAGODA_TRY(prepare_first(rms_norm_kernels(), problem.norm, weights.norm, device));
  }
  chain.product = PAGODA_TRY(LinearChain::prepare(problem.product, weights.product, device));
  chain.activation =
      PAGODA_TRY(prepare_first(gated_activation_kernels(), problem.activation, GatedActivationWeights{}, device));
  return FfnInStep([chain](const FfnInArgs& args, device::Stream& stream) { chain.launch(args, stream); });
}

}  // namespace

std::span<const FfnInKernel> ffn_in_kernels() {
  static const std::array kKernels = {
      kCudaFfnIn,
      FfnInKernel{"chain", {"chain"}, supports, scratch_bytes, no_units, prepare},
  };
  return kKernels;
}

}  // namespace pagoda::kernels
