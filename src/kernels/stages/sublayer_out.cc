#include "kernels/stages/sublayer_out.h"

#include <array>

#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/linear_chain.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;

tensor::MatrixView cut(const SublayerOutProblem& problem, std::int64_t rows, ScratchCutter& scratch) {
  return scratch.matrix(problem.residual.activation, problem.product.max_m, rows, problem.residual.hidden);
}

bool supports(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  return LinearChain::supports(problem.product, caps) && choose(residual_kernels(), problem.residual, caps) != nullptr;
}

std::size_t scratch_bytes(const SublayerOutProblem& problem, const DeviceCaps& caps) {
  ScratchCutter scratch(nullptr);
  cut(problem, 0, scratch);
  return scratch.used() + LinearChain::scratch_bytes(problem.product, caps);
}

struct Chain {
  SublayerOutProblem problem;
  LinearChain product;
  ResidualStep residual;

  void launch(const SublayerOutArgs& args, device::Stream& stream) const {
    ScratchCutter scratch(args.scratch);
    const tensor::MatrixView update = cut(problem, args.input.rows, scratch);
    product.launch({.input = args.input, .outputs = {update}, .scratch = scratch.bytes(0)}, stream);
    residual.launch({update, args.residual}, stream);
  }
};

Result<SublayerOutStep> prepare(const SublayerOutProblem& problem, const SublayerOutWeights& weights,
                                device::Device& device) {
  Chain chain{.problem = problem, .product = {}, .residual = {}};
  chain.product = PAGODA_TRY(LinearChain::prepare(problem.product, {&weights.product, 1}, device));
  chain.residual = PAGODA_TRY(prepare_first(residual_kernels(), problem.residual, weights.residual, device));
  return SublayerOutStep([chain](const SublayerOutArgs& args, device::Stream& stream) { chain.launch(args, stream); });
}

std::span<const SublayerOutKernel> all() {
  static const std::array kKernels = {
      kCudaSublayerOut,
      SublayerOutKernel{"chain", {"chain"}, supports, scratch_bytes, no_units, prepare},
  };
  return kKernels;
}

}  // namespace

std::span<const SublayerOutKernel> attention_out_kernels() { return all(); }
std::span<const SublayerOutKernel> ffn_out_kernels() { return all(); }

}  // namespace pagoda::kernels
