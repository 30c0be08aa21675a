// What a runner brings back: ids, log-probabilities, errors of one row, each slot's own sampling.
#include "runtime/host_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "fixtures/runner_driver.h"

namespace pagoda::runtime {
namespace {

using fixtures::RunnerDriver;
using fixtures::RunnerSetup;
using fixtures::sampling;
using fixtures::Setting;
using fixtures::TinyConfig;
using fixtures::TinyModel;

class HostRunner : public testing::TestWithParam<Setting> {
 protected:
  explicit HostRunner(TinyConfig config = {})
      : bytes_(TinyModel(config).bytes()), file_(fixtures::open_bytes(bytes_).value()) {}

  RunnerSetup runner(std::int32_t head_rows = 5) {
    model::PlanOptions options;
    options.max_step_tokens = 90;
    options.max_rows = 8;
    options.head_rows = head_rows;
    return RunnerSetup(file_, GetParam(), options, 2, {.tokens = 2000});
  }

  /// Ids that a sequence draws alone.
  std::vector<std::int32_t> solo(const std::vector<std::int32_t>& ids, const SamplingParams& params, std::uint64_t seed,
                                 std::int64_t count) {
    RunnerSetup setup = runner();
    RunnerDriver driver(*setup);
    driver.start(1, ids, params, seed);
    return driver.generate(1, 64, count);
  }

  std::string bytes_;
  io::ModelFile file_;
};

TEST_P(HostRunner, PromptLogprobsAreThoseOfTheLogits) {
  const auto ids = fixtures::some_ids(23, 67);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  driver.start(0, ids);
  driver.run_through(0, 23);
  const std::vector<float> logits = driver.logits(0);
  driver.start(1, ids, {}, 0, -1, 3);
  const auto rows = driver.step({{.slot = 1, .count = 23, .want = sched::Want::kPromptLogprobs}});
  ASSERT_EQ(rows[0].target_logprobs.size(), 23u);
  ASSERT_EQ(rows[0].target_best.size(), 69u);
  for (std::size_t t = 0; t < 22; ++t) {
    const float* row = &logits[t * 67];
    double sum = 0;
    for (int i = 0; i < 67; ++i) sum += std::exp(static_cast<double>(row[i]));
    EXPECT_NEAR(rows[0].target_logprobs[t], row[ids[t + 1]] - std::log(sum), 2e-5) << t;
    const auto best = static_cast<std::int32_t>(std::max_element(row, row + 67) - row);
    EXPECT_EQ(rows[0].target_best[t * 3].id, best);
    EXPECT_GE(rows[0].target_best[t * 3].logprob, rows[0].target_best[t * 3 + 1].logprob);
  }
  EXPECT_EQ(rows[0].target_logprobs[22], 0) << "nothing follows the last token";
}

TEST_P(HostRunner, LogprobsOfDrawnTokensAreOfTheRawDistribution) {
  const auto ids = fixtures::some_ids(9, 67);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  driver.start(0, ids);
  driver.run_through(0, 9);
  const float* row = &driver.logits(0)[8 * 67];
  double sum = 0;
  for (int i = 0; i < 67; ++i) sum += std::exp(static_cast<double>(row[i]));
  driver.start(1, ids, sampling([](SamplingParams& p) {
                 p.temperature = 2.0f;
                 p.logprobs = 4;
                 p.logit_bias = {{3, 50.0f}};
               }));
  const auto rows = driver.step({{.slot = 1, .count = 9, .wants_id = true}});
  EXPECT_EQ(rows[0].id, 3) << "the bias decides";
  EXPECT_NEAR(rows[0].logprob, row[3] - std::log(sum), 2e-5) << "and is no part of the log-probability";
  ASSERT_EQ(rows[0].best.size(), 4u);
  EXPECT_EQ(rows[0].best[0].id, std::max_element(row, row + 67) - row);
}

TEST_P(HostRunner, GreedyIsTheLargestLogit) {
  const auto ids = fixtures::some_ids(9, 67);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  driver.start(0, ids);
  driver.run_through(0, 9);
  const auto& logits = driver.logits(0);
  const auto best = std::max_element(logits.end() - 67, logits.end()) - (logits.end() - 67);
  driver.start(1, ids);
  EXPECT_EQ(driver.step({{.slot = 1, .count = 9, .wants_id = true}})[0].id, best);
}

// CASES D4: a slot's parameters are its own, whoever runs beside it and in whatever order.
TEST_P(HostRunner, ParametersOfOneRowDoNotReachAnother) {
  std::vector<std::int32_t> first(60);  // most of the vocabulary, so that the penalty decides
  std::iota(first.begin(), first.end(), 0);
  const auto second = fixtures::some_ids(6, 67, 5);
  const SamplingParams repetition = sampling([](SamplingParams& p) {
    p.temperature = 0.0f;
    p.repetition_penalty = 2.0f;
  });
  const SamplingParams top = sampling([](SamplingParams& p) {
    p.temperature = 1.0f;
    p.top_k = 1;
  });
  const SamplingParams hot = sampling([](SamplingParams& p) { p.temperature = 1.7f; });
  const auto expected_first = solo(first, repetition, 0, 5);
  const auto expected_second = solo(second, top, 99, 5);
  const auto expected_third = solo(second, hot, 99, 5);
  for (const std::vector<std::int32_t>& order : {std::vector<std::int32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    RunnerSetup setup = runner();
    RunnerDriver driver(*setup);
    driver.start(0, first, repetition, 0);
    driver.start(1, second, top, 99);
    driver.start(2, second, hot, 99);
    std::vector<std::vector<std::int32_t>> drawn(3);
    for (int i = 0; i < 5; ++i) {
      std::vector<fixtures::Feed> feeds;
      for (const std::int32_t slot : order) {
        feeds.push_back({.slot = slot, .count = static_cast<std::int32_t>(driver.left(slot)), .wants_id = true});
      }
      for (const RowResult& row : driver.step(feeds)) drawn[static_cast<std::size_t>(row.slot)].push_back(row.id);
    }
    EXPECT_EQ(drawn[0], expected_first);
    EXPECT_EQ(drawn[1], expected_second);
    EXPECT_EQ(drawn[2], expected_third);
  }
  EXPECT_NE(expected_first, solo(first, {}, 0, 5)) << "the penalty must be seen at all";
}

// CASES D6: the prompt's tokens count for repetition alone.
TEST_P(HostRunner, PresenceAndFrequencyCountOutputOnly) {
  const std::vector<std::int32_t> everything = [] {
    std::vector<std::int32_t> ids(67 - 7);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }();
  const auto presence = sampling([](SamplingParams& p) {
    p.presence_penalty = 2;
    p.frequency_penalty = 2;
  });
  EXPECT_EQ(solo(everything, presence, 0, 1), solo(everything, {}, 0, 1)) << "nothing was drawn before the first";
  const auto strong = sampling([](SamplingParams& p) { p.repetition_penalty = 1e6f; });
  const auto ids = solo(everything, strong, 0, 1);
  EXPECT_GE(ids[0], 60) << "all ids of the prompt are pressed down";
}

TEST_P(HostRunner, APreemptedSequenceDrawsTheSame) {
  const auto prompt = fixtures::some_ids(10, 67);
  const SamplingParams params = sampling([](SamplingParams& p) {
    p.temperature = 1.4f;
    p.presence_penalty = 1.5f;
    p.repetition_penalty = 1.2f;
  });
  const auto expected = solo(prompt, params, 77, 12);
  std::vector<std::int32_t> known = prompt;
  known.insert(known.end(), expected.begin(), expected.begin() + 5);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  driver.start(4, known, params, 77, 10);
  EXPECT_EQ(driver.generate(4, 7, 7), std::vector<std::int32_t>(expected.begin() + 5, expected.end()));
}

TEST_P(HostRunner, NoEndBeforeMinTokens) {
  const auto prompt = fixtures::some_ids(10, 67);
  const auto free = solo(prompt, {}, 0, 6);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  const auto params = sampling([](SamplingParams& p) { p.min_tokens = 3; });
  const std::vector<std::int32_t> ends(free.begin(), free.end());  // greedy would end at once
  driver.start(0, prompt, params, 0, -1, 0, ends);
  const auto drawn = driver.generate(0, 64, 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::ranges::count(ends, drawn[static_cast<std::size_t>(i)]), 0) << i;
  const auto none = sampling([](SamplingParams& p) { p.min_tokens = 0; });
  driver.start(1, prompt, none, 0, -1, 0, ends);
  EXPECT_EQ(driver.generate(1, 64, 4), std::vector<std::int32_t>(free.begin(), free.begin() + 4));
}

TEST_P(HostRunner, RefusesParametersOutOfRange) {
  RunnerSetup setup = runner();
  const auto param = [&](auto&& change) {
    const SamplingParams params = sampling(change);
    const Status status = setup->set_slot(0, {.sampling = &params, .tokens = {}, .end_ids = {}});
    return status.ok() ? std::string() : status.error().param;
  };
  EXPECT_EQ(param([](SamplingParams&) {}), "");
  EXPECT_EQ(param([](SamplingParams& p) { p.temperature = -1.0f; }), "temperature");
  EXPECT_EQ(param([](SamplingParams& p) { p.temperature = std::nanf(""); }), "temperature");
  EXPECT_EQ(param([](SamplingParams& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(param([](SamplingParams& p) { p.top_p = 0.0f; }), "top_p");
  EXPECT_EQ(param([](SamplingParams& p) { p.min_p = 1.5f; }), "min_p");
  EXPECT_EQ(param([](SamplingParams& p) { p.repetition_penalty = 0.0f; }), "repetition_penalty");
  EXPECT_EQ(param([](SamplingParams& p) { p.presence_penalty = 2.5f; }), "presence_penalty");
  EXPECT_EQ(param([](SamplingParams& p) { p.logit_bias = {{67, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(param([](SamplingParams& p) { p.logit_bias = {{6, 1.0f}, {6, 2.0f}}; }), "logit_bias");
  EXPECT_EQ(param([](SamplingParams& p) { p.logprobs = 68; }), "logprobs");
}

TEST_P(HostRunner, TheRunnerKnowsTheLastIdOfEachSlot) {
  const auto prompt = fixtures::some_ids(10, 67);
  const auto expected = solo(prompt, {}, 0, 6);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  driver.start(2, prompt);
  driver.start(5, fixtures::some_ids(4, 67, 8));
  driver.step({{.slot = 5, .count = 4, .wants_id = true}, {.slot = 2, .count = 10, .wants_id = true}});
  for (int step = 0; step < 5; ++step) {
    driver.step({{.slot = 2, .wants_id = true, .first_id_on_device = true},
                 {.slot = 5, .wants_id = true, .first_id_on_device = true}});
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), driver.ids(2).begin() + 10, driver.ids(2).end()));
}

TEST_P(HostRunner, SlicesOfTheHeadMakeNoDifference) {
  const auto ids = fixtures::some_ids(23, 67);
  std::vector<std::vector<float>> logits;
  for (const std::int32_t head_rows : {1, 5, 64}) {
    RunnerSetup setup = runner(head_rows);
    RunnerDriver driver(*setup);
    driver.start(0, ids);
    driver.run_through(0, 23);
    logits.push_back(driver.logits(0));
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(logits[0], logits[2]);
}

// Rows of one step that want different things: each gets the bits that it gets alone.
TEST_P(HostRunner, WhatARowWantsIsItsOwn) {
  const auto logits_of = [&](std::int32_t slot) {
    RunnerSetup setup = runner();
    RunnerDriver driver(*setup);
    driver.start(slot, fixtures::some_ids(20 + slot, 67, static_cast<unsigned>(slot)));
    driver.run_through(slot, 90);
    return driver.logits(slot);
  };
  const std::vector<float> first = logits_of(0), second = logits_of(1), third = logits_of(2);
  RunnerSetup setup = runner();
  RunnerDriver driver(*setup);
  for (std::int32_t slot = 0; slot < 3; ++slot) {
    driver.start(slot, fixtures::some_ids(20 + slot, 67, static_cast<unsigned>(slot)));
  }
  const auto best = [](const float* row) { return static_cast<std::int32_t>(std::max_element(row, row + 67) - row); };
  const auto equal = [](std::span<const float> got, const float* want) {
    return std::equal(got.begin(), got.end(), want);
  };
  // Nothing, but for keys and values; then the last of one, three of another and a chunk that wants nothing.
  driver.step({{.slot = 0, .count = 12}, {.slot = 1, .count = 9}});
  auto rows = driver.step({{.slot = 0, .count = 8, .wants_id = true},
                           {.slot = 2, .count = 13},
                           {.slot = 1, .count = 12, .want = sched::Want::kLogits, .want_from = 9}});
  EXPECT_EQ(rows[0].id, best(&first[19 * 67]));
  EXPECT_EQ(rows[1].id, sched::kNoToken);
  ASSERT_EQ(rows[2].logits.size(), 3u * 67);
  EXPECT_TRUE(equal(rows[2].logits, &second[18 * 67]));
  // A decode beside a chunk of which every token is wanted: more than the last layer is narrowed to.
  rows =
      driver.step({{.slot = 0, .count = 1}, {.slot = 2, .count = 9, .wants_id = true, .want = sched::Want::kLogits}});
  ASSERT_EQ(rows[1].logits.size(), 9u * 67);
  EXPECT_TRUE(equal(rows[1].logits, &third[13 * 67]));
  EXPECT_EQ(rows[1].id, best(&third[21 * 67]));
}

INSTANTIATE_TEST_SUITE_P(Devices, HostRunner, testing::ValuesIn(fixtures::host_settings()),
                         [](const auto& test) { return test.param.name; });

TinyConfig poisoned() {
  TinyConfig config;
  config.separate_head = true;
  config.nan_id = 13;
  return config;
}

class Poisoned : public HostRunner {
 protected:
  Poisoned() : HostRunner(poisoned()) {}
};

// CASES D2: a row without a distribution ends in an error; the seven others have the bits they have without it.
TEST_P(Poisoned, OneRowsNanStaysItsOwn) {
  const auto run = [&](bool with) {
    RunnerSetup setup = runner();
    RunnerDriver driver(*setup);
    std::vector<fixtures::Feed> feeds;
    for (std::int32_t slot = 0; slot < 8; ++slot) {
      if (slot == 3 && !with) continue;
      std::vector<std::int32_t> ids = fixtures::some_ids(5 + slot, 67, 50u + static_cast<unsigned>(slot));
      std::ranges::replace(ids, 13, 14);
      if (slot == 3) ids.back() = 13;
      driver.start(slot, ids, sampling([&](SamplingParams& p) {
                     p.temperature = slot % 2 == 0 ? 0.0f : 1.0f;
                     p.logprobs = 2;
                   }),
                   5);
      feeds.push_back({.slot = slot, .count = 5 + slot, .wants_id = true});
    }
    const auto rows = driver.step(feeds);
    return std::vector<RowResult>(rows.begin(), rows.end());
  };
  const auto with = run(true);
  const auto without = run(false);
  EXPECT_TRUE(with[3].non_finite);
  EXPECT_EQ(with[3].id, sched::kNoToken);
  for (std::size_t i = 0; i < 7; ++i) {
    const RowResult& row = with[i < 3 ? i : i + 1];
    EXPECT_EQ(row.slot, without[i].slot);
    EXPECT_FALSE(row.non_finite);
    EXPECT_EQ(row.id, without[i].id);
    EXPECT_EQ(row.logprob, without[i].logprob);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Poisoned, testing::ValuesIn(fixtures::host_settings()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pagoda::runtime
