// SmolLM2 against exact arithmetic: the reference device against another implementation's float32 numbers, and the
// CPU's two precisions against the reference device. The limits are those that the project promises.
#include "fixtures/exactness.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr char kModel[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr char kGolden[] = "tests/golden/logprobs/smollm2-135m.ten_scripts.txt";

const fixtures::Scored& reference() {
  static const fixtures::Scored scored =
      fixtures::score_with(kModel, {.device = "reference"}, fixtures::read_golden(kGolden).tokens);
  return scored;
}

TEST(Exactness, TheTextIsTokenisedAsInTheGolden) {
  auto library = Library::create();
  auto model = Model::open(*library, fixtures::source_path(kModel), {.weights = false});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto ids = model->tokenize(fixtures::read_file("tests/golden/logprobs/ten_scripts.txt"), {.bos = true});
  EXPECT_EQ(ids.value(), fixtures::read_golden(kGolden).tokens);
}

TEST(Exactness, TheReferenceEqualsFloat32OnDequantisedWeights) {
  const auto distance = fixtures::distance(reference(), fixtures::read_golden(kGolden));
  EXPECT_LE(distance.mean, 1e-3);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 2e-4);
  std::printf("reference: mean %.2e, perplexity %+.4f %%\n", distance.mean, 100 * distance.perplexity_ratio);
}

TEST(Exactness, AWrongNumberIsNoticed) {
  auto golden = fixtures::read_golden(kGolden);
  golden.logprobs[golden.logprobs.size() / 2] += 1;
  EXPECT_GT(fixtures::distance(reference(), golden).mean, 1e-3);
}

TEST(Exactness, High) {
  const auto high = fixtures::score_with(kModel, {.device = "cpu", .precision = Precision::kHigh}, reference().tokens);
  const auto distance = fixtures::distance(high, reference());
  EXPECT_LE(distance.mean, 0.01);
  EXPECT_GE(distance.same_best, 0.99);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 1e-3);
  std::printf("high: mean %.2e, same best %.4f, perplexity %+.4f %%\n", distance.mean, distance.same_best,
              100 * distance.perplexity_ratio);
}

TEST(Exactness, Standard) {
  const auto standard = fixtures::score_with(kModel, {.device = "cpu"}, reference().tokens);
  const auto distance = fixtures::distance(standard, reference());
  EXPECT_LE(distance.mean, 0.066);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 0.012);
  std::printf("standard: mean %.2e, same best %.4f, perplexity %+.4f %%\n", distance.mean, distance.same_best,
              100 * distance.perplexity_ratio);
}

}  // namespace
}  // namespace pagoda
