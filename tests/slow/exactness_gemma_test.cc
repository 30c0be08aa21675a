// Gemma 3 270M against exact arithmetic, on a text that passes its window of 512 tokens three times.
#include <gtest/gtest.h>

#include "fixtures/exactness.h"

namespace pagoda {
namespace {

constexpr char kModel[] = "models/gemma-3-270m-q4_k_m.gguf";
constexpr char kGolden[] = "tests/golden/logprobs/gemma-3-270m.paging_then_ten_scripts.txt";
constexpr char kShortGolden[] = "tests/golden/logprobs/gemma-3-270m.ten_scripts.txt";

const fixtures::Scored& reference() {
  static const fixtures::Scored scored =
      fixtures::score_with(kModel, {.device = "reference"}, fixtures::read_golden(kGolden).tokens);
  return scored;
}

TEST(ExactnessOfGemma, TheTextIsTokenisedAsInTheGolden) {
  auto library = Library::create();
  auto model = Model::open(*library, fixtures::source_path(kModel), {.weights = false});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto text = fixtures::read_file("tests/golden/logprobs/paging.txt") +
                    fixtures::read_file("tests/golden/logprobs/ten_scripts.txt");
  EXPECT_EQ(model->tokenize(text, {.bos = true}).value(), fixtures::read_golden(kGolden).tokens);
}

TEST(ExactnessOfGemma, TheReferenceEqualsFloat32OnDequantisedWeights) {
  const auto distance = fixtures::distance(reference(), fixtures::read_golden(kGolden));
  EXPECT_LE(distance.mean, 1e-3);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 2e-4);
  std::printf("reference: mean %.2e, perplexity %+.4f %%\n", distance.mean, 100 * distance.perplexity_ratio);
}

TEST(ExactnessOfGemma, TheReferenceEqualsFloat32OnTenScripts) {
  const auto golden = fixtures::read_golden(kShortGolden);
  const auto distance =
      fixtures::distance(fixtures::score_with(kModel, {.device = "reference"}, golden.tokens), golden);
  EXPECT_LE(distance.mean, 1e-3);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 2e-4);
}

TEST(ExactnessOfGemma, High) {
  const auto high = fixtures::score_with(kModel, {.device = "cpu", .precision = Precision::kHigh}, reference().tokens);
  const auto distance = fixtures::distance(high, reference());
  EXPECT_LE(distance.mean, 0.01);
  EXPECT_GE(distance.same_best, 0.99);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 1e-3);
  std::printf("high: mean %.2e, same best %.4f, perplexity %+.4f %%\n", distance.mean, distance.same_best,
              100 * distance.perplexity_ratio);
}

TEST(ExactnessOfGemma, Standard) {
  const auto standard = fixtures::score_with(kModel, {.device = "cpu"}, reference().tokens);
  const auto distance = fixtures::distance(standard, reference());
  EXPECT_LE(distance.mean, 0.083);
  EXPECT_LE(std::fabs(distance.perplexity_ratio), 0.012);
  std::printf("standard: mean %.2e, same best %.4f, perplexity %+.4f %%\n", distance.mean, distance.same_best,
              100 * distance.perplexity_ratio);
}

}  // namespace
}  // namespace pagoda
