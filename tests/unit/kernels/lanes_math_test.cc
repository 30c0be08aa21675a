// The functions on lanes against double precision; the portable lanes stand for all (the kernels' own tests compare the
// vector ones).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/cpu/lanes_portable.h"
// after the lanes
#include "kernels/cpu/lanes_math.h"

namespace pagoda::kernels {
namespace {

/// Largest relative error over [low, high].
double error_of(Lanes (*function)(Lanes), const std::function<double(double)>& exact, double low, double high) {
  constexpr int kSteps = 1 << 18;
  double error = 0;
  for (int i = 0; i < kSteps; i += 16) {
    float x[16], y[16];
    for (int lane = 0; lane < 16; ++lane) x[lane] = static_cast<float>(low + (high - low) * (i + lane) / kSteps);
    store(y, function(load(x)));
    for (int lane = 0; lane < 16; ++lane) {
      const double want = exact(x[lane]);
      error = std::max(error, std::fabs(y[lane] - want) / std::fabs(want));
    }
  }
  return error;
}

TEST(LanesMath, StaysWithinItsStatedErrors) {
  const auto sigmoid_exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(error_of(
                exp2_nonpositive, [](double x) { return std::exp2(x); }, -126, 0),
            2e-7);
  EXPECT_LT(error_of(
                exp_bounded, [](double x) { return std::exp(x); }, -87, 88),
            1.5e-7);
  EXPECT_LT(error_of(sigmoid, sigmoid_exact, -87, 87), 4e-7);
  EXPECT_LT(error_of(
                hyperbolic_tangent, [](double x) { return std::tanh(x); }, 1e-5, 12),
            4e-7);
  EXPECT_LT(error_of(
                hyperbolic_tangent, [](double x) { return std::tanh(x); }, -0.7, -1e-6),
            4e-7);
  // The measure sees a wrong function.
  EXPECT_GT(error_of(
                sigmoid, [](double x) { return 1 / (1 + std::exp(-1.000001 * x)); }, -80, 80),
            4e-7);
}

TEST(LanesMath, EdgesAreWhatAttentionNeeds) {
  const float infinity = INFINITY;
  const float x[16] = {0, -0.0f, NAN, -infinity, -127, -1000, -1};
  float y[16];
  store(y, exp2_nonpositive(load(x)));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0x1p-126f);
  EXPECT_EQ(y[4], 0x1p-126f);
  EXPECT_EQ(y[5], 0x1p-126f);
  EXPECT_EQ(y[6], 0.5f);
  const float z[16] = {NAN, infinity, -infinity, 0};
  store(y, hyperbolic_tangent(load(z)));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], -1);
  EXPECT_EQ(y[3], 0);
}

}  // namespace
}  // namespace pagoda::kernels
