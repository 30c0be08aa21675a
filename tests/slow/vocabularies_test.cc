// The ggml-vocab-*.gguf files that tools/fetch_llama_cpp_files.sh brings, against the ids beside them; in linear time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "api/file_keys.h"
#include "io/model_file.h"
#include "text/tokenizer.h"

namespace pagoda {
namespace {

const std::string kFolder = std::string(PAGODA_SOURCE_DIR) + "/models/vocabularies/ggml-vocab-";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

Result<std::unique_ptr<const text::Tokenizer>> open_tokenizer(const std::string& name) {
  const auto model = PAGODA_TRY(io::open_model(kFolder + name + ".gguf"));
  return text::Tokenizer::create(PAGODA_TRY(api::tokenizer_source(model.config())));
}

class Vocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open_tokenizer(GetParam());
    ASSERT_TRUE(opened.ok()) << opened.error().message << "; tools/fetch_llama_cpp_files.sh brings the files";
    tokenizer_ = std::move(opened).value();
  }

  std::unique_ptr<const text::Tokenizer> tokenizer_;
};

TEST_P(Vocabulary, IdsEqualThoseBesideIt) {
  const std::string texts = contents(kFolder + GetParam() + ".gguf.inp");
  std::istringstream ids(contents(kFolder + GetParam() + ".gguf.out"));
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  int count = 0;
  std::size_t begin = 0;
  for (std::string line; std::getline(ids, line); ++count) {
    const std::size_t end = texts.find(kBetween, begin);
    const std::string text = texts.substr(begin, end == std::string::npos ? end : end - begin);
    begin = end == std::string::npos ? texts.size() : end + kBetween.size();
    std::istringstream numbers(line);
    const std::vector<std::int32_t> expected{std::istream_iterator<std::int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer_->encode(text).value(), expected) << text;
  }
  EXPECT_GT(count, 40);
}

TEST_P(Vocabulary, AMegabyteOfOneCharacter) {
  for (const std::string unit : {"a", " ", "=", "\u4E2D", "\U0001F600"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer_->encode(text).value();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 30) << unit;  // a quadratic way takes far longer in every build
    EXPECT_EQ(tokenizer_->decode(ids, false), text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Vocabulary,
                         testing::Values("command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2",
                                         "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact",
                                         "starcoder"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(VocabularyKinds, OthersAreRefusedByName) {
  for (const auto& [name, kind] : {std::pair{"bert-bge", "\"bert\""}, std::pair{"nomic-bert-moe", "\"t5\""}}) {
    const auto opened = open_tokenizer(name);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::kTokenizerUnsupported);
    EXPECT_THAT(opened.error().message, testing::HasSubstr(kind));
  }
  for (const char* name : {"aquila", "baichuan", "gpt-neox"}) EXPECT_TRUE(open_tokenizer(name).ok()) << name;
}

// CASES A4.
TEST(VocabularyKinds, A4_WholeWordsOfLlama3) {
  const auto tokenizer = open_tokenizer("llama-bpe").value();
  const auto ids = tokenizer->encode(" Vi\u1EC7t").value();
  EXPECT_EQ(ids, std::vector<std::int32_t>{101798});
}

}  // namespace
}  // namespace pagoda
