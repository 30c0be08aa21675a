// The demo model end to end: every way to cut the work gives the same ids, and `high` gives the reference's.
#include <gtest/gtest.h>

#include <cmath>
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
    ASSERT_TRUE(file.ok()) << file.error().message << " (make model brings it)";
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

// CASES E6.
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
        const auto drawn = driver.generate(1, chunk, 8);
        if (expected.empty()) expected = drawn;
        EXPECT_EQ(drawn, expected) << setting.name << ", chunks of " << chunk << ", " << threads << " threads";
      }
    }
    EXPECT_EQ(expected.size(), 8u);
  }
}

/// The best two tokens after each of the ids, and the log-probability of the id that follows.
struct Scores {
  std::vector<TokenLogprob> best;
  std::vector<float> targets;
};

Scores score(const io::ModelFile& file, const fixtures::Setting& setting, const model::PlanOptions& options,
             const std::vector<std::int32_t>& ids) {
  RunnerSetup setup(file, setting, options);
  RunnerDriver driver(*setup);
  driver.start(0, ids, {}, 0, -1, 2);
  const auto rows =
      driver.step({{.slot = 0, .count = static_cast<std::int32_t>(ids.size()), .want = sched::Want::kPromptLogprobs}});
  return {{rows[0].target_best.begin(), rows[0].target_best.end()},
          {rows[0].target_logprobs.begin(), rows[0].target_logprobs.end()}};
}

/// Wherever the reference's two best logits lie at least 0.1 apart, `high` has the same best one.
TEST_F(RealModel, HighIsTheReferenceButForNearTies) {
  const auto settings = fixtures::host_settings();
  const Scores truth = score(*file_, settings[0], options_, ids_);
  const Scores high = score(*file_, settings[1], options_, ids_);
  const Scores standard = score(*file_, settings[2], options_, ids_);
  int compared = 0;
  double high_error = 0, standard_error = 0;
  for (std::size_t t = 0; t < ids_.size(); ++t) {
    high_error += std::fabs(high.targets[t] - truth.targets[t]) / 97.0;
    standard_error += std::fabs(standard.targets[t] - truth.targets[t]) / 97.0;
    if (truth.best[2 * t].logprob - truth.best[2 * t + 1].logprob < 0.1f) continue;
    EXPECT_EQ(high.best[2 * t].id, truth.best[2 * t].id) << "after token " << t;
    ++compared;
  }
  EXPECT_GE(compared, 60);
  EXPECT_LE(high_error, 0.01);
  EXPECT_GT(standard_error, 2 * high_error) << "the comparison tells one precision from the other";
}

/// The reference's log-probabilities are those that another implementation has of the same weights in float32.
TEST_F(RealModel, ReferenceIsAnotherImplementations) {
  std::ifstream file(std::string(PAGODA_SOURCE_DIR) + "/tests/golden/logprobs/smollm2-135m.ten_scripts.txt");
  const Scores truth = score(*file_, fixtures::host_settings()[0], options_, ids_);
  std::int32_t id = 0;
  std::string logprob;
  double sum = 0;
  for (std::size_t t = 0; t < ids_.size() && file >> id >> logprob; ++t) {
    if (t > 0) sum += std::fabs(std::stod(logprob) - static_cast<double>(truth.targets[t - 1]));
  }
  EXPECT_LE(sum / 96, 1e-3);
}

}  // namespace
}  // namespace pagoda::runtime
