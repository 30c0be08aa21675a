// Models of each family as Hugging Face directories, against the logits that transformers computes in float32: all
// kinds of RoPE, biases, unequal heads, heads of 64 to 256, windows shorter than the prompt.
#include "fixtures/hf_logits.h"

#include <gtest/gtest.h>

#include "pagoda/pagoda.h"

namespace pagoda {
namespace {

using fixtures::HfGolden;
using fixtures::largest_error;
using fixtures::TemporaryFolder;
using fixtures::two_threads;

class HfModels : public testing::TestWithParam<std::string> {};

TEST_P(HfModels, LogitsAreThoseOfTransformers) {
  const HfGolden golden = fixtures::read_hf_golden(GetParam());
  const TemporaryFolder folder;
  fixtures::write_hf_model(folder, golden);
  const double exact = largest_error(golden, folder.path(), {.device = "reference"});
  EXPECT_LE(exact, 2e-3);
  const double high = largest_error(golden, folder.path(), {.device = "cpu", .precision = Precision::kHigh});
  EXPECT_LE(high, 2e-2);
  std::printf("%-30s reference %.1e, high %.1e\n", golden.name.c_str(), exact, high);
}

// What people write and what transformers saves of it is the same model.
TEST_P(HfModels, BothSpellingsOfTheConfiguration) {
  HfGolden golden = fixtures::read_hf_golden(GetParam());
  const TemporaryFolder folder;
  fixtures::write_hf_model(folder, golden);
  const auto facts = [&] {
    std::string text;
    const auto inspected = inspect(two_threads(), folder.path());
    EXPECT_TRUE(inspected.ok()) << inspected.error().message;
    if (!inspected.ok()) return text;
    for (const Fact& fact : inspected->spec) text += fact.name + ": " + fact.value + "\n";
    return text;
  };
  const std::string written = facts();
  folder.write("config.json", golden.saved_config);
  EXPECT_EQ(written, facts());
  EXPECT_LE(largest_error(golden, folder.path(), {.device = "reference"}), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(All, HfModels, testing::ValuesIn(fixtures::hf_golden_names()),
                         [](const auto& each) { return each.param; });

TEST(HfModel, ShardsAreTheSameModel) {
  const HfGolden golden = fixtures::read_hf_golden("qwen2_biases");
  const TemporaryFolder folder;
  fixtures::write_hf_model(folder, golden, 3);
  EXPECT_LE(largest_error(golden, folder.path(), {.device = "reference"}), 2e-3);
}

/// A configuration with one text in it replaced.
std::string changed(std::string config, const std::string& from, const std::string& to) {
  const std::size_t at = config.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return config.replace(at, from.size(), to);
}

// Each of these is a plausible wrong reading, and the goldens tell it from the right one.
TEST(HfModel, TheGoldensNoticeWrongReadings) {
  const std::tuple<const char*, const char*, const char*> readings[] = {
      {"llama_linear", "\"factor\": 2.5", "\"factor\": 1.0"},
      {"llama_llama3", "\"llama3\"", "\"linear\", \"a\": null"},
      {"llama_yarn", "\"factor\": 4.0", "\"factor\": 4.0, \"truncate\": false"},
      {"llama_yarn_untruncated", "\"mscale\": 1.2", "\"mscale\": 1.0"},
      {"llama_longrope", "1.17", "1.0"},
      {"mistral_window", "\"sliding_window\": 7", "\"sliding_window\": 8"},
      {"qwen2_windows", "\"sliding_window\": 6", "\"sliding_window\": 5"},
      {"qwen2_windows", "\"max_window_layers\": 1", "\"max_window_layers\": 2"},
      {"qwen3_yarn_bias", "\"attention_factor\": 1.3", "\"attention_factor\": null"},
      {"gemma3_by_type", "\"rope_theta\": 10000.0", "\"rope_theta\": 1000000.0"},
      {"gemma3_pattern_softcap", "\"final_logit_softcapping\": 20.0", "\"final_logit_softcapping\": null"},
      {"gemma3_pattern_softcap", "\"query_pre_attn_scalar\": 192", "\"query_pre_attn_scalar\": 256"},
  };
  for (const auto& [name, from, to] : readings) {
    HfGolden golden = fixtures::read_hf_golden(name);
    golden.config = changed(golden.config, from, to);
    const TemporaryFolder folder;
    fixtures::write_hf_model(folder, golden);
    const std::vector<std::string> ignored = {"rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor",
                                              "rope_scaling.original_max_position_embeddings"};
    ModelOptions options{.device = "reference"};
    if (std::string_view(name) == "llama_llama3") options.ignore_keys = ignored;
    EXPECT_GT(largest_error(golden, folder.path(), std::move(options)), 2e-3) << name << ": " << to;
  }
}

TEST(HfModel, WithoutATokenizerIdsAreScoredAndTextIsRefused) {
  const HfGolden golden = fixtures::read_hf_golden("llama_default");
  const TemporaryFolder folder;
  fixtures::write_hf_model(folder, golden);
  const auto model = Model::open(two_threads(), folder.path(), {.device = "cpu"});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE(model->info().has_tokenizer);
  EXPECT_EQ(model->info().architecture, "LlamaForCausalLM");
  EXPECT_EQ(model->info().format, "bf16");
  const auto expect_missing = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(static_cast<int>(result.error().code), static_cast<int>(ErrorCode::kTokenizerMissing))
        << result.error().message;
    EXPECT_NE(result.error().message.find("tokenizer.json"), std::string::npos) << result.error().message;
  };
  expect_missing(model->tokenize("a"));
  expect_missing(model->detokenize(std::vector<std::int32_t>{3}));
  Request request;
  request.prompt = RawText{.text = "a"};
  expect_missing(model->generate(request));
  expect_missing(score(*model, {.text = RawText{.text = "a"}, .on_logits = {}}));
  EXPECT_EQ(score(*model, {.text = TokenIds{{3, 61}}, .on_logits = {}}).error().code, ErrorCode::kInvalidArgument);
  BenchOptions tests{.prompts = {5}, .generate = 3, .samples = 1};
  EXPECT_EQ(bench(*model, tests).value().size(), 2u);
}

// `dynamic` and `longrope` mean something else beyond their first length: no context goes beyond it.
TEST(HfModel, ContextsEndWhereFrequenciesDependOnTheLength) {
  for (const auto& [name, context] : {std::pair("llama_dynamic", 48), std::pair("llama_longrope", 40)}) {
    const HfGolden golden = fixtures::read_hf_golden(name);
    const TemporaryFolder folder;
    fixtures::write_hf_model(folder, golden);
    EXPECT_EQ(Model::open(two_threads(), folder.path(), {.device = "cpu"}).value().info().context, context) << name;
    const auto longer = Model::open(two_threads(), folder.path(), {.device = "cpu", .context = context + 1});
    ASSERT_FALSE(longer.ok()) << name;
    EXPECT_EQ(longer.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(DummyWeights, AConfigurationRuns) {
  const HfGolden golden = fixtures::read_hf_golden("gemma3_by_type");
  const TemporaryFolder folder;
  folder.write("Tiny-1M.json", changed(golden.config, "\"intermediate_size\": 104", "\"intermediate_size\": 160"));
  const std::string path = folder.path() + "/Tiny-1M.json";
  for (const char* format : {"bf16", "q8_0", "f32"}) {
    const auto model = Model::open(two_threads(), path, {.device = "cpu", .dummy_weights = format});
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->info().name, "Tiny-1M");
    EXPECT_EQ(model->info().format, format);
    const auto first = score(*model, {.text = TokenIds{golden.ids}, .on_logits = {}}).value().logprobs;
    const auto again = Model::open(two_threads(), path, {.device = "cpu", .dummy_weights = format});
    EXPECT_EQ(first, score(*again, {.text = TokenIds{golden.ids}, .on_logits = {}}).value().logprobs);
    for (const double logprob : first) EXPECT_TRUE(std::isfinite(logprob));
  }
  const auto unknown = Model::open(two_threads(), path, {.device = "cpu", .dummy_weights = "q4"});
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  const auto blocks = Model::open(two_threads(), path, {.device = "cpu", .dummy_weights = "q4_k"});
  EXPECT_EQ(blocks.error().code, ErrorCode::kFormatUnsupported) << blocks.error().message;
}

TEST(DummyWeights, TheListOfConfigurationsIsReadAndCounted) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"Llama-3.2-1B", 1235746816}, {"Llama-3.1-8B", 8029995008}, {"Qwen3-4B", 4022272000}, {"Gemma-3-4B", 3879895040}};
  for (const auto& [name, parameters] : sizes) {
    const std::string path = std::string(PAGODA_SOURCE_DIR "/configs/") + name + ".json";
    const auto inspected = inspect(two_threads(), path, {.model = {.device = "cpu", .dummy_weights = "bf16"}});
    ASSERT_TRUE(inspected.ok()) << inspected.error().message;
    EXPECT_EQ(inspected->info.num_parameters, parameters) << name;
  }
}

}  // namespace
}  // namespace pagoda
