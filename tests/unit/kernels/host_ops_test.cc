// rms_norm, residual and gated_activation: every candidate against double precision, at widths that are no whole number
// of vectors, rows apart from their neighbours, outputs poisoned.
#include <gtest/gtest.h>

#include "kernels/gated_activation/gated_activation.h"
#include "kernels/residual/residual.h"
#include "kernels/rms_norm/rms_norm.h"
#include "unit/kernels/candidate_runs.h"

namespace pagoda::kernels {
namespace {

using tensor::DType;
using tensor::matrix;
using tensor::MatrixView;
using testing::doubles;
using testing::host_candidates;
using testing::largest_relative_error;
using testing::normal_floats;
using testing::poisoned;

/// Rows `cols` wide with a gap after each.
template <class T>
MatrixView spaced(std::vector<T>& data, std::int64_t rows, std::int64_t cols, std::int64_t gap) {
  return {data.data(), tensor::dtype_of<T>(), rows, cols, cols + gap};
}

template <class Kernel, class Problem, class Weights, class Args>
void launch(const Kernel& kernel, const Problem& problem, const Weights& weights, const Args& args,
            const device::DeviceCaps& caps, int threads = 2) {
  ThreadPool pool(threads, false);
  device::HostStream stream(pool);
  device::HostDevice device(caps);
  kernel.prepare(problem, weights, device).value().launch(args, stream);
}

template <class Kernel, class Problem>
const Kernel& reference_of(std::span<const Kernel> kernels, Problem problem) {
  problem.activation = DType::kF64;
  return *choose(kernels, problem, device::reference_caps());
}

template <class Problem>
Problem in_double(Problem problem) {
  problem.activation = DType::kF64;
  return problem;
}

TEST(RmsNorm, IsNearTheReferenceAtEveryWidth) {
  for (const std::int64_t hidden : {1, 3, 16, 17, 63, 64, 65, 576, 640, 1000}) {
    for (const float shift : {0.0f, 1.0f}) {
      const RmsNormProblem problem{.hidden = hidden, .epsilon = 1e-5, .weight_shift = shift};
      std::vector<float> input = normal_floats(5 * (hidden + 3), 1);
      std::vector<double> exact = doubles(input);
      const std::vector<float> weight = normal_floats(hidden, 2);
      auto want = poisoned<double>(5 * hidden);
      launch(reference_of(rms_norm_kernels(), problem), in_double(problem), RmsNormWeights{weight.data()},
             RmsNormArgs{spaced(exact, 5, hidden, 3), matrix(want.data(), 5, hidden)}, device::reference_caps());
      for (const auto& [kernel, caps] : host_candidates(rms_norm_kernels(), problem)) {
        auto got = poisoned<float>(5 * hidden);
        launch(*kernel, problem, RmsNormWeights{weight.data()},
               RmsNormArgs{spaced(input, 5, hidden, 3), matrix(got.data(), 5, hidden)}, caps);
        EXPECT_LT(largest_relative_error(got, want), 5e-7) << kernel->name << " " << hidden;
      }
    }
  }
}

TEST(RmsNorm, TheReferenceIsTheFormula) {
  std::vector<double> input{3, -4}, output(2);
  const std::vector<float> weight{2, 0.5f};
  const RmsNormProblem problem{.activation = DType::kF64, .hidden = 2, .epsilon = 0.5, .weight_shift = 1};
  launch(reference_of(rms_norm_kernels(), problem), problem, RmsNormWeights{weight.data()},
         RmsNormArgs{matrix(input.data(), 1, 2), matrix(output.data(), 1, 2)}, device::reference_caps());
  const double root = std::sqrt(12.5 + 0.5);
  EXPECT_DOUBLE_EQ(output[0], 3 / root * 3);
  EXPECT_DOUBLE_EQ(output[1], -4 / root * 1.5);
}

TEST(RmsNorm, ARowWithANanTouchesNoOther) {
  const RmsNormProblem problem{.hidden = 37};
  std::vector<float> input = normal_floats(3 * 37, 1);
  const std::vector<float> weight = normal_floats(37, 2);
  for (const auto& [kernel, caps] : host_candidates(rms_norm_kernels(), problem)) {
    auto clean = poisoned<float>(3 * 37);
    auto dirty = clean;
    std::vector<float> spoilt = input;
    spoilt[40] = std::nanf("");
    launch(*kernel, problem, RmsNormWeights{weight.data()},
           RmsNormArgs{matrix(input.data(), 3, 37), matrix(clean.data(), 3, 37)}, caps);
    launch(*kernel, problem, RmsNormWeights{weight.data()},
           RmsNormArgs{matrix(spoilt.data(), 3, 37), matrix(dirty.data(), 3, 37)}, caps);
    for (std::size_t i = 0; i < clean.size(); ++i) {
      if (i / 37 == 1) {
        EXPECT_TRUE(std::isnan(dirty[i])) << i;
      } else {
        EXPECT_EQ(dirty[i], clean[i]) << i;
      }
    }
  }
}

TEST(Residual, AddsTheScaledUpdateNormedOrNot) {
  for (const std::int64_t hidden : {1, 18, 64, 200, 577}) {
    for (const bool norm : {false, true}) {
      const ResidualProblem problem{
          .hidden = hidden, .scale = 0.75f, .norm = norm, .epsilon = 1e-5, .weight_shift = norm ? 1.0f : 0.0f};
      std::vector<float> update = normal_floats(4 * hidden, 1);
      const std::vector<float> start = normal_floats(4 * hidden, 2);
      const std::vector<float> weight = normal_floats(hidden, 3);
      std::vector<double> exact_update = doubles(update);
      std::vector<double> want = doubles(start);
      launch(reference_of(residual_kernels(), problem), in_double(problem), ResidualWeights{weight.data()},
             ResidualArgs{matrix(exact_update.data(), 4, hidden), matrix(want.data(), 4, hidden)},
             device::reference_caps());
      for (const auto& [kernel, caps] : host_candidates(residual_kernels(), problem)) {
        std::vector<float> got = start;
        launch(*kernel, problem, ResidualWeights{weight.data()},
               ResidualArgs{matrix(update.data(), 4, hidden), matrix(got.data(), 4, hidden)}, caps);
        EXPECT_LT(largest_relative_error(got, want, 1), 1e-6) << kernel->name << " " << hidden;
        EXPECT_GT(largest_relative_error(start, want, 1), 1e-3);  // it did add something
      }
    }
  }
}

TEST(GatedActivation, IsNearTheReferenceOverTheWholeRange) {
  for (const ActivationKind kind : {ActivationKind::kSilu, ActivationKind::kGeluTanh, ActivationKind::kClampedSwiglu}) {
    const std::int64_t width = 4001;
    const GatedActivationProblem problem{.width = width, .kind = kind, .limit = 7};
    std::vector<float> gate(static_cast<std::size_t>(2 * width)), up = normal_floats(2 * width, 4, 5);
    for (std::int64_t i = 0; i < 2 * width; ++i) {
      gate[static_cast<std::size_t>(i)] = (i < width ? 0.01f : 1e-4f) * static_cast<float>(i % width - 2000);
    }
    std::vector<double> exact_gate = doubles(gate), exact_up = doubles(up);
    auto want = poisoned<double>(2 * width);
    launch(reference_of(gated_activation_kernels(), problem), in_double(problem), GatedActivationWeights{},
           GatedActivationArgs{matrix(exact_gate.data(), 2, width), matrix(exact_up.data(), 2, width),
                               matrix(want.data(), 2, width)},
           device::reference_caps());
    for (const auto& [kernel, caps] : host_candidates(gated_activation_kernels(), problem)) {
      auto got = poisoned<float>(2 * width);
      launch(
          *kernel, problem, GatedActivationWeights{},
          GatedActivationArgs{matrix(gate.data(), 2, width), matrix(up.data(), 2, width), matrix(got.data(), 2, width)},
          caps);
      // GELU falls below 1e-30 within the range: there its argument's last place is worth more.
      EXPECT_LT(largest_relative_error(got, want, 1e-3), 1.5e-6) << kernel->name << " " << static_cast<int>(kind);
    }
  }
}

TEST(GatedActivation, KeepsNanAndTheSignsOfInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> gate{std::nanf(""), infinity, 200, -200, 0, 1};
  std::vector<float> up{1, 1, 1, 1, 1, std::nanf("")};
  for (const ActivationKind kind : {ActivationKind::kSilu, ActivationKind::kGeluTanh}) {
    const GatedActivationProblem problem{.width = 6, .kind = kind};
    for (const auto& [kernel, caps] : host_candidates(gated_activation_kernels(), problem)) {
      std::vector<float> out(6);
      launch(*kernel, problem, GatedActivationWeights{},
             GatedActivationArgs{matrix(gate.data(), 1, 6), matrix(up.data(), 1, 6), matrix(out.data(), 1, 6)}, caps);
      EXPECT_TRUE(std::isnan(out[0]));
      EXPECT_EQ(out[1], infinity);
      EXPECT_FLOAT_EQ(out[2], 200);
      EXPECT_NEAR(out[3], 0, 1e-30);
      EXPECT_EQ(out[4], 0);
      EXPECT_TRUE(std::isnan(out[5]));
    }
  }
}

TEST(HostOps, CandidatesOfOneArithmeticAgreeBitForBit) {
  const RmsNormProblem norm{.hidden = 211};
  const GatedActivationProblem gelu{.width = 211, .kind = ActivationKind::kGeluTanh};
  std::vector<float> input = normal_floats(3 * 211, 1), other = normal_floats(3 * 211, 5);
  const std::vector<float> weight = normal_floats(211, 2);
  std::vector<std::vector<float>> norms, gates;
  for (const auto& [kernel, caps] : host_candidates(rms_norm_kernels(), norm)) {
    if (kernel->arithmetic.name != "f32_lanes16_fma") continue;
    norms.push_back(poisoned<float>(3 * 211));
    launch(*kernel, norm, RmsNormWeights{weight.data()},
           RmsNormArgs{matrix(input.data(), 3, 211), matrix(norms.back().data(), 3, 211)}, caps);
    EXPECT_EQ(norms.back(), norms.front()) << kernel->name;
  }
  for (const auto& [kernel, caps] : host_candidates(gated_activation_kernels(), gelu)) {
    if (kernel->arithmetic.name != "f32_lanes16_fma") continue;
    gates.push_back(poisoned<float>(3 * 211));
    launch(*kernel, gelu, GatedActivationWeights{},
           GatedActivationArgs{matrix(input.data(), 3, 211), matrix(other.data(), 3, 211),
                               matrix(gates.back().data(), 3, 211)},
           caps);
    EXPECT_EQ(gates.back(), gates.front()) << kernel->name;
  }
}

TEST(HostOps, TheComparisonCanFail) {
  const std::vector<double> want{1.0, -2.0};
  EXPECT_EQ(largest_relative_error(std::vector<float>{1.0f, -2.0f}, want), 0);
  EXPECT_GT(largest_relative_error(std::vector<float>{1.0f, 2.0f}, want), 1);
  EXPECT_GT(largest_relative_error(std::vector<float>{1.000001f, -2.0f}, want), 5e-7);
  EXPECT_GT(largest_relative_error(poisoned<float>(2), want), 1);
}

}  // namespace
}  // namespace pagoda::kernels
