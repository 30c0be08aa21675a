// The products of a stage: one step over all weights where one candidate reads them all, else one a weight.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

class LinearChain {
 public:
  static bool supports(const LinearProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const LinearProblem& problem, const device::DeviceCaps& caps);
  static Result<LinearChain> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                     device::Device& device);

  /// Allocates nothing, can be captured.
  void launch(const LinearArgs& args, device::Stream& stream) const;

 private:
  std::vector<std::shared_ptr<const LinearStep>> steps_;  // one for all, or one a weight
};

}  // namespace pagoda::kernels
