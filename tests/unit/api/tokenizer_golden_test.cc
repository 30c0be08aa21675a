// The two models' vocabularies against the ids that Hugging Face `tokenizers` gives (tools/make_tokenizer_goldens.py).
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/file_keys.h"
#include "io/model_file.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace pagoda {
namespace {

const std::string kRoot = PAGODA_SOURCE_DIR;

std::unique_ptr<const text::Tokenizer> open_tokenizer(const std::string& file) {
  auto model = io::open_model(kRoot + "/models/" + file);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  auto tokenizer = text::Tokenizer::create(api::tokenizer_source(model->config()).value());
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message;
    return nullptr;
  }
  return std::move(tokenizer).value();
}

struct Golden {
  const char* name;
  const char* file;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class TokenizerGolden : public testing::TestWithParam<Golden> {};

TEST_P(TokenizerGolden, IdsEqualTheReferences) {
  const auto tokenizer = open_tokenizer(GetParam().file);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream lines(kRoot + "/tests/golden/tokenizer/" + std::string(GetParam().name) + ".jsonl");
  int count = 0;
  int with_marks = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto object = nlohmann::json::parse(line);
    const auto input = object.at("text").get<std::string>();
    const auto expected = object.at("ids").get<std::vector<std::int32_t>>();
    const auto ids = tokenizer->encode(input).value();
    ASSERT_EQ(ids, expected) << line;
    const auto decoded = object.value("decoded", input);
    ASSERT_EQ(text::repair_utf8(tokenizer->decode(ids, false)), decoded);

    const bool has_marks = object.contains("special");
    with_marks += has_marks ? 1 : 0;
    const auto special = has_marks ? object.at("special").get<std::vector<std::int32_t>>() : expected;
    ASSERT_EQ(tokenizer->encode(input, text::SpecialTokens::all()).value(), special) << line;

    text::StreamDecoder decoder(*tokenizer, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += decoder.push(id);
    streamed += decoder.finish();
    ASSERT_EQ(streamed, decoded);
  }
  EXPECT_GT(count, 1000);
  EXPECT_GT(with_marks, 5);
}

/// A megabyte of one character: about 0.2 s here in a release build, and a bound that a quadratic way would break.
TEST_P(TokenizerGolden, AMegabyteOfOneCharacter) {
  const auto tokenizer = open_tokenizer(GetParam().file);
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string unit : {"a", " ", "=", "\u4E2D", "\U0001F600"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer->encode(text).value();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 30) << unit;
    EXPECT_EQ(tokenizer->decode(ids, false), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerGolden,
                         testing::Values(Golden{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                         Golden{"gemma3", "gemma-3-270m-q4_k_m.gguf"}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(TokenizerFacts, SmolLm2) {
  const auto tokenizer = open_tokenizer("SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary_size(), 49152);
  EXPECT_FALSE(tokenizer->wants_bos());
  EXPECT_EQ(tokenizer->eos(), tokenizer->find("<|im_end|>"));
  EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->find("<|endoftext|>")));
}

TEST(TokenizerFacts, Gemma3) {
  const auto tokenizer = open_tokenizer("gemma-3-270m-q4_k_m.gguf");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary_size(), 262144);
  EXPECT_TRUE(tokenizer->wants_bos());
  EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->find("<end_of_turn>")));
  EXPECT_FALSE(tokenizer->is_end_of_generation(*tokenizer->find("</s>")));  // there a tag of HTML
  EXPECT_TRUE(tokenizer->is_control(*tokenizer->find("<start_of_turn>")));
}

}  // namespace
}  // namespace pagoda
