// Models of each family as Hugging Face directories, opened as a user opens them.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "api/describe.h"
#include "fixtures/exactness.h"
#include "gpu/models/models.h"
#include "gpu/receipt.h"
#include "runtime/cuda_runner.h"

namespace pagoda::models {
namespace {

/// All logits of the golden's ids, (ids, vocabulary); empty after a failure.
std::vector<float> logits_of(const GoldenModel& model, ModelOptions options) {
  options.max_running = 4;
  std::vector<float> logits;
  const auto opened = Model::open(library(), model.folder.path(), options);
  if (!opened.ok()) {
    ADD_FAILURE() << model.golden.name << ": " << opened.error().message;
    return logits;
  }
  ScoreRequest request{.text = TokenIds{model.golden.ids}, .on_logits = {}};
  request.on_logits = [&](std::int64_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
    return true;
  };
  const auto scored = score(*opened, request);
  if (!scored.ok()) ADD_FAILURE() << model.golden.name << ": " << scored.error().message;
  return logits;
}

/// The largest error against the golden's logits, in its deviations.
double golden_error(const fixtures::HfGolden& golden, const std::vector<float>& logits) {
  const std::size_t vocab = golden.logits.front().size();
  if (logits.size() != golden.ids.size() * vocab) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < golden.positions.size(); ++i) {
    const float* const row = logits.data() + static_cast<std::size_t>(golden.positions[i]) * vocab;
    for (std::size_t id = 0; id < vocab; ++id) {
      const double error = std::fabs(static_cast<double>(row[id]) - golden.logits[i][id]);
      if (!(error <= worst)) worst = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
    }
  }
  return worst / golden.deviation;
}

void note_plan(const GoldenModel& model, const ModelOptions& options) {
  const auto described = api::describe_file(model.folder.path(), options).value();
  gpu::note_units(
      runtime::cuda_runner_units(api::plan_for(described.description, GpuRunner::device().caps(), options, 2).value()));
}

class GoldensOnGpu : public testing::TestWithParam<std::string> {};

TEST_P(GoldensOnGpu, LogitsAreThoseOfTransformersAndOfTheReference) {
  const GoldenModel& model = golden_model(GetParam());
  const std::vector<float> exact = logits_of(model, {.device = "reference", .prefill_chunk = 64});
  ModelOptions options{.device = "cuda", .prefill_chunk = 17, .max_running = 4};
  note_plan(model, options);
  std::vector<float> got = logits_of(model, options);
  const double to_golden = golden_error(model.golden, got), to_reference = logit_error(got, exact);
  EXPECT_LE(to_golden, kBound);
  EXPECT_LE(to_reference, kBound);
  gpu::note_error("logits against transformers", to_golden);
  gpu::note_error("logits against the reference", to_reference);
  // Every way to cut the prompt stays within the same bound.
  for (const std::int64_t chunk : {7, 16, 64, 2048}) {
    options.prefill_chunk = chunk;
    EXPECT_LE(logit_error(logits_of(model, options), exact), kBound) << "chunks of " << chunk;
  }
  options.kv_dtype = "fp8_e4m3";
  options.prefill_chunk = 17;
  note_plan(model, options);
  const double fp8 = logit_error(logits_of(model, options), exact);
  EXPECT_LE(fp8, kFp8Bound);
  gpu::note_error("logits over e4m3 against the reference", fp8);
  std::printf("%-30s transformers %.3f, reference %.3f, e4m3 %.3f deviations\n", model.golden.name.c_str(), to_golden,
              to_reference, fp8);
  // The comparisons see one logit that is a deviation off.
  if (got.empty()) return;
  const auto at = static_cast<std::size_t>(model.golden.positions[0]) * model.golden.logits[0].size() + 5;
  got[at] += static_cast<float>(model.golden.deviation);
  EXPECT_GT(golden_error(model.golden, got), kBound);
  EXPECT_GT(logit_error(got, exact), kBound);
}

INSTANTIATE_TEST_SUITE_P(All, GoldensOnGpu, testing::ValuesIn(fixtures::hf_golden_names()),
                         [](const auto& each) { return each.param; });

// A plausible wrong reading is told from the right one also by what a GPU computes.
TEST(GoldensOnGpu, AWindowOfOneMoreTokenIsSeen) {
  fixtures::HfGolden golden = fixtures::read_hf_golden("mistral_window");
  const std::size_t at = golden.config.find("\"sliding_window\": 7");
  ASSERT_NE(at, std::string::npos);
  golden.config.replace(at, 19, "\"sliding_window\": 8");
  GoldenModel changed;
  changed.golden = golden;
  fixtures::write_hf_model(changed.folder, golden);
  EXPECT_GT(golden_error(golden, logits_of(changed, {.device = "cuda", .prefill_chunk = 17})), kBound);
}

/// What a model says of each token of a text: its log-probability, and all logits.
struct Said {
  std::vector<double> logprobs;
  std::vector<float> logits;
};

Said say(const std::string& path, const std::string& device, const std::vector<std::int32_t>& ids) {
  Said said;
  const auto model = Model::open(library(), path, {.device = device, .context = 512});
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return said;
  }
  ScoreRequest request{.text = TokenIds{ids}, .on_logits = {}};
  request.on_logits = [&](std::int64_t, std::span<const float> row) {
    said.logits.insert(said.logits.end(), row.begin(), row.end());
    return true;
  };
  const auto scored = score(*model, request);
  if (!scored.ok()) ADD_FAILURE() << scored.error().message;
  if (scored.ok()) said.logprobs = scored->logprobs;
  return said;
}

/// The mean over tokens of KL(reference ‖ got).
double mean_divergence(const Said& got, const Said& want, std::size_t tokens) {
  const std::size_t vocab = want.logits.size() / tokens;
  double total = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto log_sum = [&](const Said& said) {
      const float* const row = said.logits.data() + t * vocab;
      const auto most = static_cast<double>(*std::max_element(row, row + vocab));
      double sum = 0;
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(row[i]) - most);
      return most + std::log(sum);
    };
    const double log_got = log_sum(got), log_want = log_sum(want);
    for (std::size_t i = 0; i < vocab; ++i) {
      const double p = static_cast<double>(want.logits[t * vocab + i]) - log_want;
      const double q = static_cast<double>(got.logits[t * vocab + i]) - log_got;
      total += std::exp(p) * (p - q);
    }
  }
  return total / static_cast<double>(tokens);
}

/// Ids that a device draws greedily after a prompt.
std::vector<std::int32_t> draw_greedily(const std::string& path, const std::string& device,
                                        const std::vector<std::int32_t>& prompt, std::int64_t count) {
  const auto model = Model::open(library(), path, {.device = device, .context = 512});
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return {};
  }
  Request request;
  request.prompt = TokenIds{prompt};
  request.sampling.max_tokens = count;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  auto generation = model->generate(request);
  const Result<Answer> answer = generation.ok() ? generation->collect() : Result<Answer>(generation.error());
  if (answer.ok()) return answer->choices.front().ids;
  ADD_FAILURE() << answer.error().message;
  return {};
}

/// A model's file among models/, and tokens of a text.
struct ModelOfFile {
  const char* name;
  const char* file;
  const char* golden;
  std::size_t tokens;

  std::string path() const {
    const char* const folder = std::getenv("PAGODA_MODELS");
    return std::string(folder != nullptr ? folder : "models") + "/" + file;
  }
  std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> all = fixtures::read_golden(golden).tokens;
    all.resize(std::min(all.size(), tokens));
    return all;
  }
};

class FilesOnGpu : public testing::TestWithParam<ModelOfFile> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().path())) GTEST_SKIP() << GetParam().path() << " is not there";
  }
};

TEST_P(FilesOnGpu, LogProbabilitiesAreNearTheReferences) {
  const std::vector<std::int32_t> ids = GetParam().ids();
  const Said exact = say(GetParam().path(), "reference", ids), got = say(GetParam().path(), "cuda", ids);
  ASSERT_EQ(got.logits.size(), exact.logits.size());
  ASSERT_EQ(got.logprobs.size(), ids.size() - 1);
  double mean = 0;
  for (std::size_t i = 0; i < got.logprobs.size(); ++i) mean += std::fabs(got.logprobs[i] - exact.logprobs[i]);
  mean /= static_cast<double>(got.logprobs.size());
  const double divergence = mean_divergence(got, exact, ids.size());
  std::printf("%s: mean difference of log-probabilities %.2e, KL %.2e\n", GetParam().name, mean, divergence);
  EXPECT_LE(mean, 0.02);
  EXPECT_LE(divergence, 1e-3);
  Said broken = got;
  for (std::size_t i = 0; i < broken.logits.size(); i += 7) broken.logits[i] += 1;
  EXPECT_GT(mean_divergence(broken, exact, ids.size()), 1e-3) << "the comparison is blind";
}

// Two logits that lie within 0.1 may change places.
TEST_P(FilesOnGpu, GreedyIdsAreTheReferencesUpToNearTies) {
  constexpr std::int64_t kDrawn = 40;
  std::vector<std::int32_t> ids = GetParam().ids();
  ids.resize(33);
  const std::size_t prompt = ids.size();
  const std::vector<std::int32_t> drawn = draw_greedily(GetParam().path(), "cuda", ids, kDrawn);
  ASSERT_EQ(std::ssize(drawn), kDrawn);
  ids.insert(ids.end(), drawn.begin(), drawn.end());
  const Said exact = say(GetParam().path(), "reference", ids);
  ASSERT_EQ(exact.logits.size() % ids.size(), 0u);
  const std::size_t vocab = exact.logits.size() / ids.size();
  std::int64_t ties = 0;
  for (std::size_t i = prompt; i < ids.size(); ++i) {
    const float* const row = exact.logits.data() + (i - 1) * vocab;
    const float best = *std::max_element(row, row + vocab);
    EXPECT_LE(best - row[ids[i]], 0.1f) << "id " << i - prompt << " is " << ids[i];
    ties += row[ids[i]] < best ? 1 : 0;
  }
  EXPECT_LE(ties, 2);
}

INSTANTIATE_TEST_SUITE_P(All, FilesOnGpu,
                         testing::Values(ModelOfFile{"SmolLM2", "SmolLM2-135M-Instruct.Q4_1.gguf",
                                                     "tests/golden/logprobs/smollm2-135m.ten_scripts.txt", 300},
                                         ModelOfFile{"Gemma3", "gemma-3-270m-q4_k_m.gguf",
                                                     "tests/golden/logprobs/gemma-3-270m.ten_scripts.txt", 130}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace pagoda::models
