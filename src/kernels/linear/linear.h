// linear: outputs_i = input · W_iᵀ + bias_i for up to three weights over one input.
//
// The contract and its list of candidates. A candidate is chosen for a problem once, by the plan: the first of
// `linear_kernels()` that supports it; each weight is then packed into the layout that candidate reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/stream.h"
#include "kernels/arithmetic.h"
#include "kernels/linear/layout.h"
#include "quant/format.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

inline constexpr int kMaxLinearWeights = 3;

/// One weight of a problem, before it has an address.
struct LinearWeightSpec {
  const quant::Format* format = nullptr;
  const Layout* layout = nullptr;
  std::int64_t n = 0;  ///< rows: width of the output
  bool has_bias = false;
  bool ordered = false;  ///< see LinearWeight::order. Only the layouts rows and rows_f32 are read so
  /// The checkpoint was made for inputs that are rounded to e4m3 too: a candidate may round them, row by row.
  bool fp8_input = false;
  bool row_scales = false;  ///< all blocks of a row have one scale
};

/// What is to be computed, as far as a plan knows it.
struct LinearProblem {
  std::array<LinearWeightSpec, kMaxLinearWeights> weights;
  int num_weights = 0;
  std::int64_t k = 0;  ///< columns of every weight: width of the input
  Precision precision = Precision::kStandard;
  std::int64_t max_m = 0;                          ///< the most input rows a launch may have
  tensor::DType activation = tensor::DType::kF32;  ///< of input and outputs: f64 on the reference, f32 on the CPU
  bool deterministic = false;                      ///< GPUs: a row's bits must not depend on m. Hosts are always so

  std::span<const LinearWeightSpec> specs() const { return {weights.data(), static_cast<std::size_t>(num_weights)}; }
};

/// A weight in memory, packed. Lent: it must outlive the steps prepared with it.
struct LinearWeight {
  const quant::Format* format = nullptr;
  const Layout* layout = nullptr;
  WeightShape shape;
  const std::byte* data = nullptr;  ///< layout->packed_bytes of them, aligned to kLayoutAlignment
  const float* bias = nullptr;      ///< (n), or null
  /// (2, k), or null: column c of the weight meets column order[c] of the input; then the inverse of that. It is GPTQ's
  /// act-order, whose groups are neighbours in the weight.
  const std::int32_t* order = nullptr;
};

/// One launch. Nothing here may overlap anything else, but that outputs may be column ranges of one matrix.
struct LinearArgs {
  tensor::MatrixView input;                                   ///< (m, k), m ≤ max_m
  std::array<tensor::MatrixView, kMaxLinearWeights> outputs;  ///< (m, n_i)
  std::byte* scratch = nullptr;  ///< scratch_bytes of them, aligned to 64; holds nothing between launches
};

/// A problem made ready for one set of weights.
class LinearStep {
 public:
  virtual ~LinearStep() = default;

  /// Allocates nothing, can be captured. A row of the input that holds NaN or an infinity gives a row of outputs that
  /// are not finite, and no other row is touched by it.
  virtual void launch(const LinearArgs& args, device::Stream& stream) const = 0;
};

struct LinearKernel {
  std::string_view name;

  /// Of results at this precision, for a weight of this format.
  Arithmetic (*arithmetic)(Precision precision, const quant::Format& format) = nullptr;

  /// The layout it reads a weight of this format in; null if it does not read that format.
  const Layout* (*layout)(const quant::Format& format) = nullptr;

  /// These three are pure. `supports` wants every weight's layout to be the one named above.
  bool (*supports)(const LinearProblem& problem, const device::DeviceCaps& caps) = nullptr;
  std::size_t (*scratch_bytes)(const LinearProblem& problem, const device::DeviceCaps& caps) = nullptr;
  std::vector<CompileUnit> (*units)(const LinearProblem& problem, const device::DeviceCaps& caps) = nullptr;

  /// Once, when weights have addresses; `weights` are those of the problem, in its order.
  Result<std::unique_ptr<LinearStep>> (*prepare)(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                                 device::Device& device) = nullptr;

  /// Whether a step rounds rows of its input to e4m3 where LinearWeightSpec::fp8_input allows it; null if none ever
  /// does.
  bool (*rounds_input)(const LinearProblem& problem, const device::DeviceCaps& caps) = nullptr;

  /// Whether stages with a norm before this product run it in f16, not bf16; null if never.
  bool (*takes_f16)(const LinearProblem& problem, const device::DeviceCaps& caps) = nullptr;
};

/// All candidates, best first. For every device the last one that fits it supports every problem.
std::span<const LinearKernel* const> linear_kernels();

/// The first candidate for a problem whose `layout` fields may still be empty: they are filled in with the layouts
/// this candidate reads. Never null for k that divides into the formats' blocks.
const LinearKernel* first_linear_kernel(LinearProblem& problem, const device::DeviceCaps& caps);

}  // namespace pagoda::kernels
