#include "kernels/sample/sample.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/sample/exp_nonpositive.h"
#include "kernels/sample/philox.h"
#include "kernels/sample/weight_units.h"

namespace pagoda::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> random_row(std::size_t vocab, unsigned seed, double spread = 4) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> row(vocab);
  for (double& logit : row) logit = normal(rng);
  return row;
}

template <class T>
std::int32_t draw_one(std::span<const T> row, const SampleSettings& settings, std::int64_t position) {
  DrawScratch scratch(std::ssize(row));
  return draw(row, summarize(row), settings, position, scratch);
}

std::int32_t draw_one(const std::vector<double>& row, const SampleSettings& settings, std::int64_t position = 7) {
  return draw_one(std::span<const double>(row), settings, position);
}

TEST(Philox, PublishedVectors) {
  const PhiloxBlock zero = philox({{0, 0, 0, 0}}, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const PhiloxBlock ones = philox({{~0u, ~0u, ~0u, ~0u}}, ~std::uint64_t{0});
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
}

TEST(Philox, DrawsDifferBySeedChoiceAndPosition) {
  const double base = draw_number(5, 0, 100);
  EXPECT_NE(base, draw_number(6, 0, 100));
  EXPECT_NE(base, draw_number(5, 1, 100));
  EXPECT_NE(base, draw_number(5, 0, 101));
  EXPECT_NE(draw_number(5, 0, 1), draw_number(5, 0, 1 + (std::int64_t{1} << 32)));
  EXPECT_EQ(static_cast<double>(draw_word(5, 0, 100)) * 0x1p-64, base);
}

TEST(ExpNonpositive, IsWithinTwoUnits) {
  EXPECT_EQ(exp_nonpositive(0), 1);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0);
  EXPECT_EQ(exp_nonpositive(-1e300), 0);
  for (double x = 0; x > -700; x -= 0.0371) {
    EXPECT_NEAR(exp_nonpositive(x) / std::exp(x), 1, 5e-16) << x;
  }
}

TEST(WeightUnits, AreAsFineAsTheSumAllows) {
  EXPECT_EQ(weight_bits(1), 44);
  EXPECT_EQ(weight_bits(262144), 44);
  EXPECT_EQ(weight_bits(262145), 43);
  EXPECT_EQ(weight_bits(1 << 20), 42);
  for (const std::int64_t vocab : {3, 151936, 262144, 262145, 1000003}) {
    const std::uint64_t most = std::uint64_t{1} << weight_bits(vocab);
    EXPECT_LE(most, (std::uint64_t{1} << 62) / static_cast<std::uint64_t>(vocab));
    EXPECT_EQ(weight_units(3.0f, weighing(3.0f, 0.7, weight_bits(vocab))), most);
    EXPECT_EQ(weight_units(3.0, weighing(3.0, 0.7, weight_bits(vocab))), most);
    EXPECT_EQ(weight_units(-32.1f, weighing(0.0f, 1, weight_bits(vocab))), 0u);
    EXPECT_EQ(weight_units(-std::numeric_limits<float>::infinity(), weighing(0.0f, 1, weight_bits(vocab))), 0u);
  }
}

// Both kinds of weights, over their whole range, against exponentials in long double.
TEST(WeightUnits, AreTheExponentialRounded) {
  for (const double inverse : {0.01, 1.0, 1.7, 33.0}) {
    const Weighing<float> how = weighing(12.5f, inverse, 44);
    for (float scaled = 0; scaled > -50; scaled -= 0.0173f) {
      const float logit = 12.5f + scaled / static_cast<float>(inverse);
      const long double x = (static_cast<long double>(logit) - 12.5L) * static_cast<long double>(inverse);
      const long double exact = std::exp(x) * 0x1p44L;
      const long double off = static_cast<long double>(weight_units(logit, how)) - exact;
      const long double relative = x > -15.99L ? 1e-14L : 8e-6L;  // 50 in single precision is 4e-6 off
      EXPECT_LE(std::abs(off), 0.5L + exact * relative) << scaled << " / " << inverse;
    }
  }
}

TEST(WeightUnits, SharesOfAMass) {
  EXPECT_EQ(multiply_high(0, ~std::uint64_t{0}), 0u);
  EXPECT_EQ(multiply_high(~std::uint64_t{0}, ~std::uint64_t{0}), ~std::uint64_t{0} - 1);
  EXPECT_EQ(multiply_high(std::uint64_t{1} << 63, 1001), 500u);
  EXPECT_EQ(multiply_high(0x123456789abcdef0, 0xfedcba9876543210), 0x121fa00ad77d7422u);
  EXPECT_EQ(wanted_units(0.5, 1001), 501u) << "the least that is half";
  EXPECT_EQ(wanted_units(0.5, 1000), 500u);
  EXPECT_EQ(wanted_units(1e-9, 1000), 1u) << "one token is always kept";
  const std::uint64_t mass = (std::uint64_t{1} << 62) - 1;  // as a double it is 2^62
  EXPECT_EQ(wanted_units(1 - 1e-17, mass), mass) << "no more than there is";
}

TEST(Summarize, FindsTheLowestIdOfTheLargest) {
  const std::vector<float> row = {-3, -0.0f, 0.0f, -7, 0.0f};
  const RowSummary summary = summarize(std::span<const float>(row));
  EXPECT_TRUE(summary.finite);
  EXPECT_EQ(summary.best, 1) << "-0 equals 0: the lower id";
  EXPECT_EQ(summary.max, 0);
}

TEST(Summarize, ManyRowsAgainstAPlainLoop) {
  for (std::size_t vocab : {1u, 2u, 3u, 5u, 31u, 33u, 1007u}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      std::vector<double> row = random_row(vocab, seed);
      for (double& logit : row) logit = std::round(logit);  // ties
      std::size_t best = 0;
      for (std::size_t i = 1; i < vocab; ++i) best = row[i] > row[best] ? i : best;
      EXPECT_EQ(summarize(std::span<const double>(row)).best, static_cast<std::int32_t>(best));
      const std::vector<float> narrow(row.begin(), row.end());
      EXPECT_EQ(summarize(std::span<const float>(narrow)).best, static_cast<std::int32_t>(best));
    }
  }
}

// CASES D2: a row without a distribution is told, wherever the value stands.
TEST(Summarize, NonFiniteRows) {
  for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (std::size_t at : {0u, 16u, 36u}) {
      std::vector<float> row(37, -1.5f);
      EXPECT_TRUE(summarize(std::span<const float>(row)).finite);
      row[at] = bad;
      EXPECT_FALSE(summarize(std::span<const float>(row)).finite) << bad << " at " << at;
    }
  }
  const std::vector<float> none(37, -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(summarize(std::span<const float>(none)).finite);
  std::vector<float> one = none;
  one[20] = -1e30f;
  EXPECT_TRUE(summarize(std::span<const float>(one)).finite) << "masked tokens are no fault";
  EXPECT_EQ(summarize(std::span<const float>(one)).best, 20);
}

TEST(LogSumExp, EqualsThePlainSum) {
  for (std::size_t vocab : {1u, 15u, 17u, 1009u}) {
    std::vector<double> row = random_row(vocab, 3, 20);
    if (vocab > 2) row[1] = -kInfinity;
    long double sum = 0;
    const double max = summarize(std::span<const double>(row)).max;
    for (const double logit : row) sum += std::exp(static_cast<long double>(logit) - max);
    const double expected = static_cast<double>(max + std::log(sum));
    EXPECT_NEAR(log_sum_exp(std::span<const double>(row), max), expected, 1e-13);
  }
}

TEST(BestTokens, AreSortedTiesToTheLowerId) {
  const std::vector<float> row = {1, 5, 3, 5, -200, 3, 0};
  std::vector<TokenLogprob> best(7);
  DrawScratch scratch(7);
  const double log_sum = log_sum_exp(std::span<const float>(row), 5);
  best_tokens(std::span<const float>(row), log_sum, std::span(best), scratch);
  const std::int32_t expected[] = {1, 3, 2, 5, 0, 6, 4};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(best[i].id, expected[i]) << i;
  EXPECT_FLOAT_EQ(best[0].logprob, static_cast<float>(5 - log_sum));
}

TEST(Draw, EqualsTheReference) {
  const double temperatures[] = {0.05, 0.7, 1, 3};
  const std::int32_t ks[] = {0, 2, 40, 5000};
  const double ps[] = {1, 0.95, 0.3, 1e-6};
  const double min_ps[] = {0, 0.05, 1};
  for (std::size_t vocab : {3u, 256u, 1009u}) {
    const std::vector<double> row = random_row(vocab, 11);
    int distinct = 0;
    for (const double temperature : temperatures) {
      for (const std::int32_t k : ks) {
        for (const double p : ps) {
          for (const double min_p : min_ps) {
            SampleSettings settings{.temperature = temperature, .top_k = k, .top_p = p, .min_p = min_p, .seed = 9};
            for (std::int64_t position = 0; position < 5; ++position) {
              const std::int32_t id = draw_one(row, settings, position);
              EXPECT_EQ(id, draw_reference(row, settings, position))
                  << vocab << " T " << temperature << " k " << k << " p " << p << " min " << min_p;
              distinct += id != summarize(std::span<const double>(row)).best ? 1 : 0;
            }
          }
        }
      }
    }
    EXPECT_GT(distinct, 20) << "the comparison must see more than the best token";
  }
}

/// Sets of instructions that this machine has.
std::vector<device::CpuIsa> instruction_sets() {
  std::vector<device::CpuIsa> all = {device::CpuIsa::kPortable};
  for (const device::CpuIsa isa : {device::CpuIsa::kAvx2, device::CpuIsa::kAvx512}) {
    if (device::detect_isa() >= isa) all.push_back(isa);
  }
  return all;
}

TEST(Rows, EveryInstructionSetGivesTheSameBits) {
  for (const std::size_t vocab : {1u, 15u, 255u, 257u, 1009u, 5003u}) {
    const std::vector<double> row = random_row(vocab, 6);
    const std::vector<float> narrow(row.begin(), row.end());
    const RowSummary expected = summarize(std::span<const double>(row));
    const double log_sum = log_sum_exp(std::span<const double>(row), expected.max);
    const double narrow_sum = log_sum_exp(std::span<const float>(narrow), expected.max);
    for (const device::CpuIsa isa : instruction_sets()) {
      EXPECT_EQ(summarize(std::span<const double>(row), isa).best, expected.best);
      EXPECT_EQ(summarize(std::span<const float>(narrow), isa).best, expected.best);
      EXPECT_EQ(log_sum_exp(std::span<const double>(row), expected.max, isa), log_sum);
      EXPECT_EQ(log_sum_exp(std::span<const float>(narrow), expected.max, isa), narrow_sum);
      DrawScratch portable(static_cast<std::int64_t>(vocab));
      DrawScratch scratch(static_cast<std::int64_t>(vocab), isa);
      for (const SampleSettings& settings : {SampleSettings{.temperature = 2}, {.temperature = 1.3, .top_p = 0.9}}) {
        for (std::int64_t position = 0; position < 9; ++position) {
          EXPECT_EQ(draw(std::span<const double>(row), expected, settings, position, scratch),
                    draw(std::span<const double>(row), expected, settings, position, portable));
          EXPECT_EQ(scratch.weights, portable.weights);
        }
      }
    }
  }
}

// The edges of each limit: every one of these leaves the best token alone.
TEST(Draw, EdgesThatAreGreedy) {
  std::vector<double> row = random_row(1009, 5, 0.4);
  const std::int32_t best = summarize(std::span<const double>(row)).best;
  const SampleSettings settings[] = {
      {.temperature = 0},
      {.temperature = 1, .top_k = 1},
      {.temperature = 1, .top_p = 1e-9},
      {.temperature = 1, .min_p = 1},
      {.temperature = 2, .top_k = 50, .top_p = 1e-9},
  };
  for (const SampleSettings& each : settings) {
    for (std::int64_t position = 0; position < 50; ++position) EXPECT_EQ(draw_one(row, each, position), best);
  }
}

TEST(Draw, TopKAtOrAboveTheVocabularyIsOff) {
  const std::vector<double> row = random_row(37, 8, 0.5);
  for (std::int64_t position = 0; position < 100; ++position) {
    const std::int32_t off = draw_one(row, {.temperature = 1, .seed = 3}, position);
    EXPECT_EQ(draw_one(row, {.temperature = 1, .top_k = 37, .seed = 3}, position), off);
    EXPECT_EQ(draw_one(row, {.temperature = 1, .top_k = 1 << 30, .seed = 3}, position), off);
  }
}

TEST(Draw, TiesAtTheKthGoToLowerIds) {
  const std::vector<double> row(37, 1.25);
  bool seen[37] = {};
  for (std::int64_t position = 0; position < 300; ++position) {
    seen[draw_one(row, {.temperature = 1, .top_k = 3}, position)] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
  for (int id = 3; id < 37; ++id) EXPECT_FALSE(seen[id]);
}

// CASES D1: no temperature makes a NaN or draws a token far from the best.
TEST(Draw, TinyTemperaturesAreGreedy) {
  std::vector<float> row(1009);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 97) - 300.0f;
  row[500] = 40000.0f;
  for (const double temperature : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-12, 1e-29, 1e-31, 1.4e-45, 5e-324}) {
    const SampleSettings settings{.temperature = temperature, .top_p = 0.9};
    for (std::int64_t position = 0; position < 5; ++position) {
      EXPECT_EQ(draw_one(std::span<const float>(row), settings, position), 500) << temperature;
      EXPECT_EQ(draw_one(std::span<const float>(row), {.temperature = temperature}, position), 500) << temperature;
    }
  }
}

/// Pearson's statistic of `draws` against the probabilities that the kept ids have by the definition.
double chi_square(const std::vector<double>& row, const SampleSettings& settings, std::span<const double> probability,
                  int draws) {
  std::vector<int> counts(row.size());
  for (int position = 0; position < draws; ++position)
    ++counts[static_cast<std::size_t>(draw_one(row, settings, position))];
  double statistic = 0;
  for (std::size_t id = 0; id < row.size(); ++id) {
    const double expected = probability[id] * draws;
    if (expected == 0) {
      if (counts[id] != 0) return kInfinity;
      continue;
    }
    statistic += (counts[id] - expected) * (counts[id] - expected) / expected;
  }
  return statistic;
}

TEST(Draw, FollowsTheDistribution) {
  const std::vector<double> row = {0.3, 2, 1.1, -0.5, 1.9, 0, 1.4};
  const double temperature = 0.8;
  std::vector<double> all(row.size());
  double sum = 0;
  for (std::size_t id = 0; id < row.size(); ++id) sum += all[id] = std::exp(row[id] / temperature);
  for (double& p : all) p /= sum;
  // 99.99 % of right samplers stay under 27.9 with 6 degrees of freedom, under 23.5 with 4.
  EXPECT_LT(chi_square(row, {.temperature = temperature, .seed = 1}, all, 20000), 27.9);
  // The test can fail: the same draws against the distribution of another temperature.
  EXPECT_GT(chi_square(row, {.temperature = 1.0, .seed = 1}, all, 20000), 100);

  std::vector<double> five = all;  // top-k 5: ids 3 and 5 are out
  five[3] = five[5] = 0;
  const double kept = 1 - all[3] - all[5];
  for (double& p : five) p /= kept;
  EXPECT_LT(chi_square(row, {.temperature = temperature, .top_k = 5, .seed = 2}, five, 20000), 23.5);
}

// CASES D6: presence and frequency count what was drawn; repetition counts the prompt too.
TEST(ChangeLogits, PenaltiesAndTheirScopes) {
  const std::vector<SeenToken> seen = {{.id = 1, .in_output = 0}, {.id = 2, .in_output = 3}, {.id = 3, .in_output = 1}};
  std::vector<double> row = {1, 2, 3, -4, 5};
  change_logits(std::span(row), {.presence_penalty = 0.5, .frequency_penalty = 0.25}, {.seen = seen});
  EXPECT_EQ(row, (std::vector<double>{1, 2, 3 - 0.5 - 0.75, -4 - 0.5 - 0.25, 5}));
  row = {1, 2, 3, -4, 5};
  change_logits(std::span(row), {.repetition_penalty = 2}, {.seen = seen});
  EXPECT_EQ(row, (std::vector<double>{1, 1, 1.5, -8, 5}));
  row = {1, 2, 3, -4, 5};
  change_logits(std::span(row), {}, {.seen = seen});
  EXPECT_EQ(row, (std::vector<double>{1, 2, 3, -4, 5})) << "no penalty, no change";
}

TEST(ChangeLogits, BiasGoesBeforePenaltiesAndMasksGoLast) {
  const std::vector<std::pair<std::int32_t, float>> bias = {{0, 4.0f}, {1, -100.0f}};
  const std::vector<SeenToken> seen = {{.id = 0, .in_output = 1}};
  const std::vector<std::int32_t> masked = {2};
  std::vector<float> row = {-2, 2, 3};
  change_logits(std::span(row), {.repetition_penalty = 2}, {.bias = bias, .seen = seen, .masked = masked});
  EXPECT_EQ(row[0], 1) << "(-2 + 4) / 2: the penalty sees the biased logit";
  EXPECT_EQ(row[1], -98);
  EXPECT_EQ(row[2], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace pagoda::kernels
