// The row rule: the bits of a row follow from its own sequence alone.
#include <gtest/gtest.h>

#include "fixtures/runner_driver.h"

namespace pagoda::runtime {
namespace {

using fixtures::Feed;
using fixtures::RunnerDriver;
using fixtures::RunnerSetup;
using fixtures::Setting;
using fixtures::TinyConfig;
using fixtures::TinyModel;

std::vector<TinyConfig> models() {
  std::vector<TinyConfig> all(3);
  all[0].format = "q4_1";
  all[0].context = 300;
  all[1].architecture = "gemma3";
  all[1].layers = 7;
  all[1].window = 8;
  all[1].format = "q8_0";
  all[1].context = 300;
  all[2].architecture = "qwen2";
  all[2].heads = 6;
  all[2].kv_heads = 2;
  all[2].head_dim = 20;
  all[2].format = "bf16";
  all[2].context = 300;
  return all;
}

struct Case {
  Setting setting;
  TinyConfig config;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Setting& setting : fixtures::host_settings()) {
    for (const TinyConfig& config : models()) all.push_back({setting, config});
  }
  return all;
}

constexpr std::int32_t kTokens = 83;

class RowRule : public testing::TestWithParam<Case> {
 protected:
  RowRule() : bytes_(TinyModel(GetParam().config).bytes()), file_(fixtures::open_bytes(bytes_).value()) {
    options_.max_step_tokens = 150;
    options_.max_rows = 4;
    ids_ = fixtures::some_ids(kTokens, 67);
  }

  RunnerSetup runner(int threads = 2) {
    return RunnerSetup(file_, GetParam().setting, options_, threads, {.tokens = 1200});
  }

  std::vector<float> alone(int threads, std::int32_t chunk, unsigned pages) {
    RunnerSetup setup = runner(threads);
    RunnerDriver driver(*setup, pages);
    driver.start(0, ids_);
    driver.run_through(0, chunk);
    return driver.logits(0);
  }

  std::string bytes_;
  io::ModelFile file_;
  model::PlanOptions options_;
  std::vector<std::int32_t> ids_;
};

TEST_P(RowRule, Chunks) {
  RunnerSetup setup = runner(1);
  RunnerDriver driver(*setup);
  driver.start(0, ids_);
  driver.run_through(0, kTokens);
  const std::vector<float> whole = driver.logits(0);
  ASSERT_EQ(whole.size(), kTokens * 67u);
  for (const std::int32_t chunk : {1, 3, 16, 17, 64}) {
    driver.start(0, ids_);
    driver.run_through(0, chunk);
    EXPECT_TRUE(driver.logits(0) == whole) << "chunk " << chunk;
  }
}

TEST_P(RowRule, ThreadsAndPages) {
  const std::vector<float> two = alone(2, 40, 1);
  EXPECT_TRUE(alone(1, 40, 1) == two);
  EXPECT_TRUE(alone(2, 40, 0) == two);
  EXPECT_TRUE(alone(1, 40, 99) == two);
}

TEST_P(RowRule, Companions) {
  const std::vector<float> expected = alone(1, kTokens, 1);
  RunnerSetup setup = runner(1);
  RunnerDriver driver(*setup);
  const auto others = fixtures::some_ids(200, 67, 21);
  driver.start(2, ids_);
  driver.start(0, others);
  driver.start(3, {others.begin(), others.begin() + 90});
  std::mt19937 rng(3);
  while (driver.left(2) > 0) {
    std::vector<Feed> feeds;
    for (const std::int32_t slot : {3, 2, 0}) {
      const auto most = std::min<std::int64_t>(driver.left(slot), 1 + static_cast<std::int64_t>(rng() % 19));
      if (most == 0 || (slot != 2 && rng() % 3 == 0)) continue;
      feeds.push_back({.slot = slot,
                       .count = static_cast<std::int32_t>(most),
                       .want = slot == 2 ? sched::Want::kLogits : sched::Want::kNothing});
    }
    driver.step(feeds);
  }
  EXPECT_TRUE(driver.logits(2) == expected);
}

TEST_P(RowRule, DecodesTogetherAndAlone) {
  const auto generate = [&](const std::vector<std::int32_t>& slots) {
    RunnerSetup setup = runner(1);
    RunnerDriver driver(*setup);
    std::map<std::int32_t, std::vector<std::int32_t>> drawn;
    for (const std::int32_t slot : slots) {
      driver.start(slot, {ids_.begin() + slot * 7, ids_.begin() + slot * 9 + 20},
                   fixtures::sampling([](SamplingParams& p) { p.temperature = 1.5f; }),
                   40u + static_cast<unsigned>(slot));
      while (driver.left(slot) > 1) driver.step({{.slot = slot, .count = 1}});
    }
    for (int i = 0; i < 20; ++i) {
      std::vector<Feed> feeds;
      for (const std::int32_t slot : slots) feeds.push_back({.slot = slot, .count = 1, .wants_id = true});
      const auto rows = driver.step(feeds);
      for (const RowResult& row : rows) drawn[row.slot].push_back(row.id);
    }
    return drawn;
  };
  const auto together = generate({0, 1, 2, 3});
  const auto turned = generate({3, 1});
  for (const std::int32_t slot : {0, 1, 2, 3}) EXPECT_EQ(generate({slot}).at(slot), together.at(slot)) << slot;
  EXPECT_EQ(turned.at(3), together.at(3));
  EXPECT_EQ(turned.at(1), together.at(1));
}

TEST_P(RowRule, PrefixHit) {
  const std::vector<float> expected = alone(1, kTokens, 1);
  RunnerSetup setup = runner(1);
  RunnerDriver driver(*setup);
  driver.start(1, {ids_.begin(), ids_.begin() + 70});
  driver.run_through(1, 23);
  driver.start_on(2, ids_, 1, 64);
  driver.run_through(2, 50);
  EXPECT_TRUE(driver.logits(2) == std::vector<float>(expected.begin() + 64 * 67, expected.end()));
}

TEST_P(RowRule, TheComparisonSeesOneChangedId) {
  const std::vector<float> expected = alone(1, kTokens, 1);
  ids_[40] = (ids_[40] + 1) % 67;
  const std::vector<float> changed = alone(1, kTokens, 1);
  EXPECT_TRUE(std::equal(changed.begin(), changed.begin() + 40 * 67, expected.begin())) << "the past does not see it";
  EXPECT_FALSE(std::equal(changed.begin() + 40 * 67, changed.begin() + 41 * 67, expected.begin() + 40 * 67));
}

INSTANTIATE_TEST_SUITE_P(Models, RowRule, testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.setting.name + "_" + test.param.config.architecture;
});

// CASES E4: what a window has passed is another's page at once, and nobody sees a difference.
TEST(Windows, PagesBehindThemAreOthers) {
  TinyConfig config;
  config.window = 8;
  config.context = 300;
  const std::string bytes = TinyModel(config).bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  model::PlanOptions options;
  options.block_size = 8;
  options.max_step_tokens = 90;
  options.max_rows = 2;
  for (const Setting& setting : fixtures::host_settings()) {
    RunnerSetup setup(file, setting, options, 1, {.tokens = 600});
    const auto ids = fixtures::some_ids(83, 67);
    RunnerDriver whole(*setup);
    whole.start(0, ids);
    whole.run_through(0, 83);
    RunnerDriver turns(*setup);
    turns.recycle();
    turns.start(0, ids);
    turns.start(1, fixtures::some_ids(83, 67, 4));
    for (std::int32_t step = 0; turns.left(0) > 0; ++step) {
      const auto most = static_cast<std::int32_t>(std::min<std::int64_t>(turns.left(0), 1 + step % 11));
      turns.step({{.slot = 0, .count = most, .want = sched::Want::kLogits}});
      turns.step({{.slot = 1, .count = most}});
    }
    EXPECT_TRUE(turns.logits(0) == whole.logits(0)) << setting.name;
    EXPECT_LT(turns.pages_taken(), 10) << "pages do return";
  }
}

// CASES E10: pages whose elements have no 32-bit number.
TEST(HighBlocks, EqualLowOnes) {
  TinyConfig config;
  config.layers = 1;
  const std::string bytes = TinyModel(config).bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  model::PlanOptions options;
  options.max_step_tokens = 40;
  options.max_rows = 1;
  const std::int64_t blocks = (std::int64_t{1} << 31) / (16 * 64) + 50;  // of 16 tokens, 64 elements each
  RunnerSetup setup(file, fixtures::host_settings()[1], options, 1, {.tokens = blocks * 16});
  RunnerDriver driver(*setup);
  driver.start(0, fixtures::some_ids(40, 67));
  driver.run_through(0, 40);
  const std::vector<float> low = driver.logits(0);
  for (std::int32_t i = 0; i < 40; ++i)
    driver.free_pages()[0][static_cast<std::size_t>(i)] = static_cast<std::int32_t>(blocks) - 1 - i;
  driver.start(0, fixtures::some_ids(40, 67));
  driver.run_through(0, 40);
  EXPECT_TRUE(driver.logits(0) == low);
}

}  // namespace
}  // namespace pagoda::runtime
