#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/text/random_text.h"

namespace pagoda::text {
namespace {

std::vector<std::string> split(std::string_view name, std::string_view text) {
  const PreTokenizerRules* rules = find_pre_tokenizer(name);
  if (rules == nullptr) return {"unknown"};
  const PreTokenizer pre_tokenizer = PreTokenizer::create(*rules).value();
  const auto pieces = pre_tokenizer.split(text).value();
  return {pieces.begin(), pieces.end()};
}

using Pieces = std::vector<std::string>;

// CASES A5: each vocabulary's own steps, in their order.
TEST(PreTokenizer, A5_StepsInOrder) {
  EXPECT_EQ(split("falcon", "2023,12345 (a)---b"), (Pieces{"202", "3", ",", "123", "45", " ", "(", "a", ")---", "b"}));
  EXPECT_EQ(split("qwen2", "x->y (x):\n"), (Pieces{"x", "->", "y", " (", "x", "):\n"}));
  EXPECT_EQ(split("smollm", "a 12 b"), (Pieces{"a", " ", "1", "2", " b"}));
  EXPECT_EQ(split("gpt-2", "a 12 b"), (Pieces{"a", " 12", " b"}));
  EXPECT_EQ(split("llama-bpe", "a 1234 b"), (Pieces{"a", " ", "123", "4", " b"}));
  EXPECT_EQ(split("gpt-4o", "HTTPServer don't"), (Pieces{"HTTPServer", " don't"}));
}

TEST(PreTokenizer, SpacesStayWithTheWordTheyLead) {
  EXPECT_EQ(split("gpt-2", "a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(split("gpt-2", "a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("llama-bpe", "a \n\n b"), (Pieces{"a", " \n\n", " b"}));
  // U+180E has not been a space since Unicode 6.3.
  EXPECT_EQ(split("gpt-2", "a \u180E b"), (Pieces{"a", " \u180E", " b"}));
}

TEST(PreTokenizer, KnowsTheCharactersOfUnicode15) {
  // A letter of Nag Mundari, an ideograph of extension H, a digit of Kawi, a new emoji.
  EXPECT_EQ(split("smollm", "!\U0001E4D0a\U00031350!"), (Pieces{"!", "\U0001E4D0a\U00031350", "!"}));
  EXPECT_EQ(split("smollm", "a\U00011F50"), (Pieces{"a", "\U00011F50"}));
  EXPECT_EQ(split("deepseek-v3", "a \U0001FAE8\U0001FAE8"), (Pieces{"a", " \U0001FAE8\U0001FAE8"}));
  EXPECT_EQ(split("kimi-k2", "a\U00031350"), (Pieces{"a", "\U00031350"}));
}

TEST(PreTokenizer, DigitsInGroupsFromTheRight) {
  EXPECT_EQ(split("superbpe", "1234567"), (Pieces{"1", "234", "567"}));
  EXPECT_EQ(split("tiny_aya", "1234567 12"), (Pieces{"1", "234", "567", " ", "12"}));
  EXPECT_EQ(split("tiny_aya", "1234"), (Pieces{"1", "234"}));
}

TEST(PreTokenizer, DigitsOfBytesAreThoseOfTheByteAlphabet) {
  // The second byte of U+0432 is 0xB2, which byte-level text writes as a superscript two.
  EXPECT_EQ(split("falcon", "\u0432"), (Pieces{"\xD0", "\xB2"}));
}

TEST(PreTokenizer, EveryRuleCompilesAndKeepsEveryByte) {
  std::mt19937 random(3);
  std::vector<std::string> texts = {"", "\xFF\xFE", "a\xC3 b", std::string(1000, ' ') + "x", std::string(999, '7')};
  for (int i = 0; i < 40; ++i) texts.push_back(random_text(random, 30));
  for (const char* name :
       {"default",       "llama-bpe", "deepseek-llm",    "deepseek-coder", "deepseek-v3", "falcon",  "mpt",
        "starcoder",     "gpt-2",     "refact",          "command-r",      "qwen2",       "qwen35",  "stablelm2",
        "olmo",          "dbrx",      "smaug-bpe",       "poro-chat",      "chatglm-bpe", "glm4",    "viking",
        "jais",          "jais-2",    "tekken",          "smollm",         "codeshell",   "bloom",   "gpt3-finnish",
        "exaone",        "exaone4",   "exaone-moe",      "minerva-7b",     "megrez",      "gpt-4o",  "llama4",
        "superbpe",      "trillion",  "granite-docling", "bailingmoe",     "seed-coder",  "kimi-k2", "hunyuan",
        "hunyuan-dense", "chameleon", "afmoe",           "minimax-m2",     "grok-2",      "laguna",  "youtu",
        "tiny_aya",      "spark2_5",  "minicpm5",        "ufakzeka"}) {
    const PreTokenizerRules* rules = find_pre_tokenizer(name);
    ASSERT_NE(rules, nullptr) << name;
    const auto pre_tokenizer = PreTokenizer::create(*rules);
    ASSERT_TRUE(pre_tokenizer.ok()) << name << ": " << pre_tokenizer.error().message;
    for (const std::string& text : texts) {
      const auto pieces = pre_tokenizer->split(text).value();
      std::string joined;
      for (const auto piece : pieces) joined += piece;
      EXPECT_EQ(joined, text) << name;
    }
  }
  EXPECT_EQ(find_pre_tokenizer("nobody"), nullptr);
}

}  // namespace
}  // namespace pagoda::text
