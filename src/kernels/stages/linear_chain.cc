#include "kernels/stages/linear_chain.h"

#include <algorithm>

namespace pagoda::kernels {
namespace {

const LinearKernel* kernel_of(const LinearProblem& problem, const device::DeviceCaps& caps) {
  for (const LinearKernel* kernel : linear_kernels()) {
    if (kernel->supports(problem, caps)) return kernel;
  }
  return nullptr;
}

/// The problem itself if one candidate reads all its weights, else one problem a weight.
std::vector<LinearProblem> parts_of(const LinearProblem& problem, const device::DeviceCaps& caps) {
  if (kernel_of(problem, caps) != nullptr) return {problem};
  std::vector<LinearProblem> parts;
  for (const LinearWeightSpec& weight : problem.specs()) {
    parts.push_back(problem);
    parts.back().weights = {weight};
    parts.back().num_weights = 1;
  }
  return parts;
}

}  // namespace

bool LinearChain::supports(const LinearProblem& problem, const device::DeviceCaps& caps) {
  const std::vector<LinearProblem> parts = parts_of(problem, caps);
  return std::ranges::all_of(parts, [&](const LinearProblem& part) { return kernel_of(part, caps) != nullptr; });
}

std::size_t LinearChain::scratch_bytes(const LinearProblem& problem, const device::DeviceCaps& caps) {
  std::size_t bytes = 0;
  for (const LinearProblem& part : parts_of(problem, caps)) {
    bytes = std::max(bytes, kernel_of(part, caps)->scratch_bytes(part, caps));
  }
  return bytes;
}

Result<LinearChain> LinearChain::prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                         device::Device& device) {
  LinearChain chain;
  std::size_t first = 0;
  for (const LinearProblem& part : parts_of(problem, device.caps())) {
    const auto count = static_cast<std::size_t>(part.num_weights);
    chain.steps_.push_back(
        PAGODA_TRY(kernel_of(part, device.caps())->prepare(part, weights.subspan(first, count), device)));
    first += count;
  }
  return chain;
}

void LinearChain::launch(const LinearArgs& args, device::Stream& stream) const {
  if (steps_.size() == 1) {
    steps_[0]->launch(args, stream);
    return;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    steps_[i]->launch({.input = args.input, .outputs = {args.outputs[i]}, .scratch = args.scratch}, stream);
  }
}

}  // namespace pagoda::kernels
