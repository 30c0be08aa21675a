#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

ErrorCode open_code(const std::string& path, ModelOptions options = {}) {
  const auto model = Model::open(test_library(), path, std::move(options));
  EXPECT_FALSE(model.ok());
  EXPECT_FALSE(model.ok() || model.error().message.empty());
  return model.ok() ? ErrorCode::kInternal : model.error().code;
}

TEST(OpenTest, WhatIsNoModelIsRefused) {
  EXPECT_EQ(open_code("/nowhere/at/all.gguf"), ErrorCode::kFileNotFound);
  EXPECT_EQ(open_code(TemporaryFile("once upon a time there was a text").path()), ErrorCode::kNotAModel);
  EXPECT_EQ(open_code(TemporaryFile("").path()), ErrorCode::kFileEmpty);
  EXPECT_EQ(kind_of(open_code("/tmp")), ErrorKind::kModel);
  const std::string whole = tiny_chat_bytes();
  EXPECT_EQ(kind_of(open_code(TemporaryFile(whole.substr(0, whole.size() / 2)).path())), ErrorKind::kModel);
  fixtures::GgufWriter unknown;
  unknown.set("general.architecture", "frogmouth");
  EXPECT_EQ(open_code(TemporaryFile(unknown.bytes()).path()), ErrorCode::kArchitectureUnknown);
  EXPECT_EQ(test_library().models().size(), 0u);
}

TEST(OpenTest, AModelWithoutTokenizerTakesIdsAlone) {
  const TemporaryFile file(fixtures::TinyModel({}).bytes());
  const auto model = Model::open(test_library(), file.path());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE(model->info().has_tokenizer);
  EXPECT_TRUE(score(*model, {.text = TokenIds{{1, 2, 3}}, .on_logits = {}}).ok());
  const auto refused = model->tokenize("a");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kTokenizerMissing);
  EXPECT_NE(refused.error().message.find("tokenizer.ggml.tokens"), std::string::npos) << refused.error().message;
}

TEST(OpenTest, ATokenizerWhoseCutsAreGuessedIsTold) {
  std::vector<std::string> lines;
  std::mutex mutex;
  const auto log = [&](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kWarning) lines.emplace_back(line);
  };
  const Library library = Library::create({.threads = 2, .log = log}).value();
  ASSERT_TRUE(Model::open(library, TemporaryFile(tiny_chat_bytes()).path(), {.weights = false}).ok());
  EXPECT_EQ(lines, std::vector<std::string>());
  const TemporaryFile file(tiny_chat_bytes({.pre = ""}));
  ASSERT_TRUE(Model::open(library, file.path(), {.weights = false}).ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with(file.path() + ": tokenizer.ggml.pre is missing")) << lines[0];
}

TEST(OpenTest, FaultsOfATokenizerNameItsFile) {
  const TemporaryFile file(tiny_chat_bytes({.merges = {"no merge of two known tokens"}}));
  const auto model = Model::open(test_library(), file.path(), {.weights = false});
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(model.error().message.starts_with(file.path() + ": ")) << model.error().message;
}

TEST(OpenTest, OptionsOutOfRangeAreNamed) {
  const TemporaryFile file(tiny_chat_bytes());
  const auto refused = [&](ModelOptions options, const std::string& name) {
    const auto model = Model::open(test_library(), file.path(), std::move(options));
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument) << model.error().message;
    EXPECT_EQ(model.error().param, name);
  };
  refused({.device = "tpu"}, "device");
  refused({.context = 0}, "context");
  refused({.kv_tokens = 0}, "kv_tokens");
  refused({.kv_bytes = -4}, "kv_bytes");
  refused({.block_size = 12}, "block_size");
  refused({.block_size = 512}, "block_size");
  refused({.prefill_chunk = 0}, "prefill_chunk");
  refused({.max_running = 0}, "max_running");
  EXPECT_EQ(open_code(file.path(), {.device = "cuda:1"}), ErrorCode::kDeviceMissing);
}

TEST(OpenTest, LibraryOptions) {
  EXPECT_EQ(Library::create({.threads = -1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Library::create({.cpu_isa = "sse9"}).error().code, ErrorCode::kInvalidArgument);
  const Library library = test_library();
  ASSERT_GE(library.devices().size(), 2u);
  EXPECT_EQ(library.devices()[0].id, "cpu");
  EXPECT_GT(library.devices()[0].memory_bytes, 0);
}

TEST(OpenTest, InfoAndLedger) {
  const TemporaryFile file(tiny_chat_bytes());
  const Library library = test_library();
  std::vector<ProgressStage> stages;
  {
    const auto model =
        Model::open(library, file.path(), {.device = "cpu", .context = 100, .progress = [&](const Progress& progress) {
                                             if (stages.empty() || stages.back() != progress.stage)
                                               stages.push_back(progress.stage);
                                           }});
    ASSERT_TRUE(model.ok()) << model.error().message;
    const ModelInfo& info = model->info();
    EXPECT_EQ(info.architecture, "llama");
    EXPECT_EQ(info.format, "f32");
    EXPECT_EQ(info.vocabulary, 67);
    EXPECT_EQ(info.num_layers, 3);
    EXPECT_EQ(info.trained_context, 200);
    EXPECT_EQ(info.context, 100);
    EXPECT_EQ(info.device, "cpu");
    EXPECT_EQ(info.kv_dtype, "f16");
    EXPECT_GE(info.kv_tokens, 100);
    EXPECT_EQ(info.threads, 2);
    ASSERT_EQ(library.models().size(), 1u);
    EXPECT_GT(library.models()[0].weight_bytes, 0);
    EXPECT_GT(library.models()[0].cache_bytes, 0);
  }
  EXPECT_EQ(library.models().size(), 0u);
  EXPECT_EQ(stages.front(), ProgressStage::kReadHeader);
  EXPECT_NE(std::ranges::find(stages, ProgressStage::kReadWeights), stages.end());
}

TEST(OpenTest, WithoutWeightsItTokenizesAndGeneratesNothing) {
  const Model model = open_tiny({}, {.weights = false});
  EXPECT_EQ(*model.detokenize(*model.tokenize("some text")), "some text");
  EXPECT_EQ(model.generate(ask_text("abc", 3)).error().code, ErrorCode::kUnsupportedArgument);
  EXPECT_EQ(score(model, {.text = RawText{.text = "abc"}}).error().code, ErrorCode::kUnsupportedArgument);
  EXPECT_EQ(model.detokenize(std::vector<std::int32_t>{67}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(model.detokenize(std::vector<std::int32_t>{-1}).error().code, ErrorCode::kInvalidArgument);
}

TEST(OpenTest, AnIgnoredKeyIsToldInTheInfo) {
  TinyChat chat;
  fixtures::TinyModel tiny(chat.model);
  const auto bytes_with_key = [&] {
    fixtures::TinyModel model(chat.model);
    model.writer().set("llama.frobnication", std::uint32_t{3});
    const std::vector<std::string> tokens = tiny_tokens();
    model.writer().set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "smollm");
    model.writer().set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.merges", std::vector<std::string>{"} }"});
    return model.bytes();
  }();
  const TemporaryFile file(bytes_with_key);
  EXPECT_EQ(open_code(file.path()), ErrorCode::kConfigUnknown);
  const auto model = Model::open(test_library(), file.path(), {.device = "cpu", .ignore_keys = {"llama.frobnication"}});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->info().ignored_keys, std::vector<std::string>{"llama.frobnication"});
}

TEST(ScoreTest, EqualsPlainLoopsOnTheReferenceDevice) {
  const Model model = open_tiny({}, {.device = "reference"});
  const fixtures::TinyModel plain({});
  const std::vector<std::int32_t> ids = {5, 9, 13, 60, 2, 41, 33, 7, 7, 20, 30, 31};
  const auto logits = plain.forward(ids);
  std::vector<std::vector<float>> rows;
  const auto scored =
      score(model, {.text = TokenIds{ids}, .on_logits = [&](std::int64_t position, std::span<const float> row) {
                      EXPECT_EQ(position, std::ssize(rows));
                      rows.emplace_back(row.begin(), row.end());
                      return true;
                    }});
  ASSERT_TRUE(scored.ok()) << scored.error().message;
  ASSERT_EQ(rows.size(), ids.size());
  ASSERT_EQ(scored->logprobs.size(), ids.size() - 1);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    double total = 0;
    for (const double logit : logits[i]) total += std::exp(logit);
    const double expected = logits[i][static_cast<std::size_t>(ids[i + 1])] - std::log(total);
    EXPECT_NEAR(scored->logprobs[i], expected, 1e-4) << i;
    sum += scored->logprobs[i];
  }
  EXPECT_NEAR(scored->perplexity, std::exp(-sum / 11), 1e-9);
  const auto without = score(model, {.text = TokenIds{ids}});
  for (std::size_t i = 0; i < 11; ++i) EXPECT_NEAR(without->logprobs[i], scored->logprobs[i], 1e-5);
}

TEST(ScoreTest, TheSinkMayEndItAndErrorsAreThoseOfPrompts) {
  const Model model = open_tiny();
  const auto ended = score(model, {.text = TokenIds{{5, 6, 7}}, .on_logits = [](auto, auto) { return false; }});
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(score(model, {.text = TokenIds{{}}}).error().code, ErrorCode::kEmptyPrompt);
  EXPECT_EQ(score(model, {.text = TokenIds{{99}}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(score(model, {.text = TokenIds{std::vector<std::int32_t>(201, 5)}}).error().code,
            ErrorCode::kPromptTooLong);
  EXPECT_EQ(score(model, {.text = TokenIds{{5}}})->perplexity, 1);
}

TEST(ScoreTest, ATextFarTooLongIsNotTokenized) {
  const auto refused = score(open_tiny(), {.text = RawText{.text = std::string(1 << 20, 'a')}, .on_logits = {}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kPromptTooLong);
  EXPECT_NE(refused.error().message.find("tokens at least"), std::string::npos) << refused.error().message;
}

TEST(InspectTest, TellsWhatTheFileHoldsAndWhatThePlanIs) {
  const TemporaryFile file(tiny_chat_bytes());
  const auto inspection = inspect(test_library(), file.path(), {.plan = true});
  ASSERT_TRUE(inspection.ok()) << inspection.error().message;
  EXPECT_EQ(inspection->info.num_layers, 3);
  EXPECT_EQ(inspection->tensors.size(), 2u + 3u * 9u);
  EXPECT_FALSE(inspection->spec.empty());
  EXPECT_FALSE(inspection->memory.empty());
  ASSERT_FALSE(inspection->plan.empty());
  for (const PlanRow& row : inspection->plan) EXPECT_FALSE(row.candidate.empty() || row.reason.empty()) << row.stage;
  EXPECT_TRUE(inspect(test_library(), file.path())->plan.empty());
  EXPECT_EQ(inspect(test_library(), "/nowhere").error().code, ErrorCode::kFileNotFound);
  for (const SupportRow& row : support(test_library()))
    EXPECT_FALSE(row.candidates.empty()) << row.operation << row.format;
}

// SmolLM2 has no token for the bytes 0xc0 and 0xff: they were left out without a word.
TEST(TextTest, WhatIsNoUtf8IsRefusedWithItsPlace) {
  const Model model = open_tiny();
  const std::string text = "caf\xE9 au lait";
  const auto expect_refused = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find("is no UTF-8: byte 0xe9 at offset 3"), std::string::npos)
        << result.error().message;
  };
  expect_refused(model.tokenize(text));
  expect_refused(model.tokenize("caf\xE9"));  // cut in a character
  expect_refused(model.generate(ask_text(text, 3)));
  expect_refused(score(model, {.text = RawText{.text = text}}));
  Request stopped = ask_text("abc", 3);
  stopped.sampling.stop = {"x", text};
  expect_refused(model.generate(stopped));
  expect_refused(Session(model).send(text));
  expect_refused(Session(model, text).send("abc"));
  EXPECT_TRUE(model.tokenize("abc").ok());
}

// A batch that does not fit ran one sequence after the other, and its row said `batch 3`.
TEST(BenchTest, TestsThatDoNotFitAreRefusedBeforeTheFirstRuns) {
  const Model model = open_tiny({}, {.context = 96, .kv_tokens = 160, .max_running = 4});
  const auto refusal = [&](const BenchOptions& options) {
    int rows = 0;
    const auto result = bench(model, options, [&](const BenchRow&) { ++rows; });
    EXPECT_EQ(rows, 0);
    return result.ok() ? "none" : result.error().message;
  };
  EXPECT_EQ(refusal({.prompts = {3}, .generate = 0, .batches = {1, 5}, .samples = 1}),
            "a batch of 5 is tested, and 4 sequences run at once");
  EXPECT_EQ(refusal({.prompts = {3, 96}, .generate = 0, .samples = 1}),
            "a test of 97 tokens, depth and answer included, is beyond the context of 96");
  EXPECT_EQ(refusal({.prompts = {}, .generate = 16, .depths = {80}, .samples = 1}),
            "a test of 97 tokens, depth and answer included, is beyond the context of 96");
  EXPECT_NE(refusal({.prompts = {3, 64}, .generate = 0, .batches = {3}, .samples = 1})
                .find("3 sequences of 65 tokens at once need 240 tokens"),
            std::string::npos);
  EXPECT_NE(refusal({.prompts = {}, .generate = 15, .depths = {32}, .batches = {4}, .samples = 1})
                .find("4 sequences of 48 tokens at once need 192 tokens"),
            std::string::npos);
  const auto whole = bench(model, {.prompts = {95}, .generate = 0, .samples = 1});
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_GT(whole->front().ms_per_step, 0);
}

TEST(BenchTest, OneRowForEachTest) {
  const Model model = open_tiny({}, {.kv_tokens = 1600, .max_running = 4});
  const auto rows =
      bench(model, {.prompts = {16, 40}, .generate = 8, .depths = {0, 64}, .batches = {1, 3}, .samples = 2});
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 12u);
  for (const BenchRow& row : *rows) {
    EXPECT_GT(row.ms_per_step, 0);
    EXPECT_GT(row.tok_s, 0);
    EXPECT_EQ(row.test == "decode", row.prompt == 0);
    EXPECT_EQ(row.bytes_per_step > 0, row.test == "decode");
  }
  EXPECT_EQ(model.stats().blocks_used, 0);
}

}  // namespace
}  // namespace pagoda::api
