// The demo model end to end: every way to cut the work gives the same ids, and `high` gives the reference's.
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/runner_driver.h"

namespace pagoda::runtime {
namespace {

using fixtures::RunnerDriver;
using fixtures::RunnerSetup;

/// The first ids of a text, from the file that has another implementation's log-probabilities of it.
std::vector<std::int32_t> text_ids(std::size_t count) {
  std::ifstream file(std::string(PAGODA_SOURCE_DIR) + "/tests/golden/logprobs/smollm2-135m.ten_scripts.txt");
  std::vector<std::int32_t> ids;
  std::string logprob;
  for (std::int32_t id = 0; ids.size() < count && file >> id >> logprob;) ids.push_back(id);
  return ids;
}

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    auto file = io::open_model(std::string(PAGODA_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if (!file.ok()) GTEST_SKIP() << file.error().message << " (make model brings it)";
    file_ = std::make_unique<io::ModelFile>(std::move(file).value());
    ids_ = text_ids(97);
    ASSERT_EQ(ids_.size(), 97u);
    options_.context = 512;
    options_.max_rows = 2;
    options_.max_step_tokens = 512;
  }

  std::unique_ptr<io::ModelFile> file_;
  std::vector<std::int32_t> ids_;
  model::PlanOptions options_;
};

TEST_F(RealModel, ChunksAndThreadsGiveTheSameIds) {
  for (const fixtures::Setting& setting : fixtures::host_settings()) {
    if (setting.name == "reference") continue;
    std::vector<std::int32_t> expected;
    for (const int threads : {2, 1}) {
      RunnerSetup setup(*file_, setting, options_, threads);
      for (const std::int32_t chunk : {512, 1, 16, 17, 64}) {
        if (threads == 1 && chunk != 17) continue;
        RunnerDriver driver(*setup, static_cast<unsigned>(chunk));
        driver.start(1, ids_);
        const auto drawn = driver.generate(1, chunk, 12);
        if (expected.empty()) expected = drawn;
        EXPECT_EQ(drawn, expected) << setting.name << ", chunks of " << chunk << ", " << threads << " threads";
      }
    }
    EXPECT_EQ(expected.size(), 12u);
  }
}

TEST_F(RealModel, HighIsTheReferenceUpToTheFirstNearTie) {
  const auto settings = fixtures::host_settings();
  const SamplingParams two = fixtures::sampling([](SamplingParams& p) { p.logprobs = 2; });
  RunnerSetup reference(*file_, settings[0], options_);
  RunnerSetup high(*file_, settings[1], options_);
  RunnerDriver truth(*reference), subject(*high);
  truth.start(0, ids_, two);
  subject.start(0, ids_, two);
  int compared = 0;
  for (int step = 0; step < 24; ++step) {
    const RowResult expected = truth.step({{.slot = 0, .count = step == 0 ? 97 : 1, .wants_id = true}})[0];
    const RowResult drawn = subject.step({{.slot = 0, .count = step == 0 ? 97 : 1, .wants_id = true}})[0];
    if (expected.best[0].logprob - expected.best[1].logprob < 0.1f) break;
    EXPECT_EQ(drawn.id, expected.id) << "step " << step;
    EXPECT_NEAR(drawn.logprob, expected.logprob, 0.05);
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

}  // namespace
}  // namespace pagoda::runtime
