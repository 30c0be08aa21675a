// The shape every operation has: one problem (plain data, made and judged without a device), what it keeps (weights),
// what a launch is given, and a list of candidates in order of preference.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "device/caps.h"
#include "device/device.h"
#include "device/stream.h"
#include "kernels/arithmetic.h"

namespace pagoda::kernels {

/// A prepared operation. `launch` checks nothing, allocates nothing and can be captured; `args` and what it points to
/// must outlive the work (the graph's life, if captured).
template <class Args>
class Step {
 public:
  Step() = default;
  explicit Step(std::function<void(const Args&, device::Stream&)> body) : body_(std::move(body)) {}

  explicit operator bool() const { return static_cast<bool>(body_); }
  void launch(const Args& args, device::Stream& stream) const { body_(args, stream); }

 private:
  std::function<void(const Args&, device::Stream&)> body_;
};

/// One way to do an operation. The functions but `prepare` are pure. Weights must outlive the step.
template <class Problem, class Weights, class Args>
struct Candidate {
  std::string_view name;
  Arithmetic arithmetic;  ///< equal tags: equal bits for the same row whatever the batch
  bool (*supports)(const Problem&, const device::DeviceCaps&) = nullptr;
  std::size_t (*scratch_bytes)(const Problem&, const device::DeviceCaps&) = nullptr;
  std::vector<CompileUnit> (*units)(const Problem&, const device::DeviceCaps&) = nullptr;
  Result<Step<Args>> (*prepare)(const Problem&, const Weights&, device::Device&) = nullptr;
};

/// What operations of the host have to say of `scratch_bytes` and `units`, if they need neither.
template <class Problem>
std::size_t no_scratch(const Problem&, const device::DeviceCaps&) {
  return 0;
}
template <class Problem>
std::vector<CompileUnit> no_units(const Problem&, const device::DeviceCaps&) {
  return {};
}

/// The first candidate that supports the problem; null if none does.
template <class Candidate, class Problem>
const Candidate* choose(std::span<const Candidate> candidates, const Problem& problem, const device::DeviceCaps& caps) {
  for (const Candidate& candidate : candidates) {
    if (candidate.supports(problem, caps)) return &candidate;
  }
  return nullptr;
}

/// The same, made ready for its weights. That one supports the problem has been asked before.
template <class Candidate, class Problem, class Weights>
auto prepare_first(std::span<const Candidate> candidates, const Problem& problem, const Weights& weights,
                   device::Device& device) {
  const Candidate* candidate = choose(candidates, problem, device.caps());
  PAGODA_CHECK(candidate != nullptr, "no candidate for {}", device.caps().name);
  return candidate->prepare(problem, weights, device);
}

}  // namespace pagoda::kernels
