// Tokenizers of GGUF files as tokenizer.json declares them: the comparison, and what has no words.
#include "text/gguf_source.h"

#include <gtest/gtest.h>

#include <string>

#include "text/tokenizer_json.h"

namespace pagoda::text {
namespace {

/// Byte-level BPE over a few letters, cut as `pattern` says.
std::string small_json(const std::string& pattern, const std::string& normalizer = "null") {
  std::string vocab;
  int id = 0;
  const auto add = [&](const std::string& token) {
    vocab += (vocab.empty() ? "\"" : ",\"") + token + "\":" + std::to_string(id++);
  };
  for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c));
  for (char c = '0'; c <= '9'; ++c) add(std::string(1, c));
  for (const char* token : {"Ġ", "Ċ", "!", ",", "he", "hel", "Ġh", "12"}) add(token);
  return R"({"version":"1.0","added_tokens":[{"id":)" + std::to_string(id) +
         R"(,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],)" +
         R"("normalizer":)" + normalizer +
         R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + pattern +
         R"("},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)" +
         R"("use_regex":false}]},"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)" +
         R"("use_regex":true},"model":{"type":"BPE","vocab":{)" + vocab + R"(},"merges":["h e","he l","Ġ h","1 2"]}})";
}

const std::string kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

TokenizerSource read(const std::string& json) {
  auto source = read_tokenizer_json({.tokenizer = json, .config = {}, .end_ids = {}});
  EXPECT_TRUE(source.ok()) << source.error().message;
  return std::move(source).value();
}

TEST(GgufSource, AKnownPatternHasAName) {
  const TokenizerSource declared = read(small_json(kQwen, R"({"type":"NFC"})"));
  const auto source = to_gguf_source(declared);
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(source->kind, "gpt2");
  EXPECT_EQ(source->pre, "qwen2");
  EXPECT_EQ(source->merges, (std::vector<std::string>{"h e", "he l", "Ġ h", "1 2"}));
  const auto a = Tokenizer::create(declared).value();
  const auto b = Tokenizer::create(*source).value();
  EXPECT_TRUE(same_tokens(*a, *b).ok());
}

TEST(GgufSource, WhatHasNoWordsIsRefused) {
  const auto refused = [](const std::string& json, const std::string& word) {
    const auto source = to_gguf_source(read(json));
    ASSERT_FALSE(source.ok()) << word;
    EXPECT_EQ(source.error().code, ErrorCode::kTokenizerUnsupported);
    EXPECT_NE(source.error().message.find(word), std::string::npos) << source.error().message;
  };
  refused(small_json("[a-m]+|[n-z]+"), "pre_tokenizer");
  refused(small_json(kQwen, R"({"type":"Lowercase"})"), "normalizer");
}

// The comparison sees a merge that is not there, and a name that cuts numbers otherwise.
TEST(GgufSource, TheComparisonSeesDifferences) {
  const TokenizerSource declared = read(small_json(kQwen, R"({"type":"NFC"})"));
  const auto wanted = Tokenizer::create(declared).value();
  TokenizerSource fewer = to_gguf_source(declared).value();
  fewer.merges.erase(fewer.merges.begin());
  EXPECT_FALSE(same_tokens(*wanted, *Tokenizer::create(fewer).value()).ok());
  TokenizerSource other = to_gguf_source(declared).value();
  other.pre = "llama-bpe";
  EXPECT_FALSE(same_tokens(*wanted, *Tokenizer::create(other).value()).ok());
  TokenizerSource bos = to_gguf_source(declared).value();
  bos.bos = 3;
  bos.add_bos = true;
  EXPECT_FALSE(same_tokens(*wanted, *Tokenizer::create(bos).value()).ok());
}

}  // namespace
}  // namespace pagoda::text
