#include "text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "text/json_tree.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"
#include "unit/text/random_text.h"

namespace pagoda::text {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::ElementsAre;
using testing::HasSubstr;

/// A file with one of each part.
const std::string kFile = R"({
  "version": "1.0", "truncation": {"max_length": 4}, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 11, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\d"}, "behavior": "Isolated", "invert": false}]},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "Fuse"}]},
  "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "_": 3, "a": 4, "b": 5, "1": 6, "2": 7, "ab": 8, "_ab": 9, "aa": 10},
    "merges": [["a", "b"], ["_", "ab"], "a a"]}
})";

Result<std::unique_ptr<const Tokenizer>> open(std::string_view file, std::string_view config = {},
                                              std::span<const std::int64_t> ends = {}) {
  auto source = read_tokenizer_json({.tokenizer = file, .config = config, .end_ids = ends});
  if (!source.ok()) return source.error();
  return Tokenizer::create(std::move(source).value());
}

std::unique_ptr<const Tokenizer> opened(std::string_view file, std::string_view config = {},
                                        std::span<const std::int64_t> ends = {}) {
  auto tokenizer = open(file, config, ends);
  if (!tokenizer.ok()) std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
  return std::move(tokenizer).value();
}

/// `kFile` with `what`, which stands there once, replaced.
std::string edited(std::string_view what, std::string_view with) {
  std::string out = kFile;
  const std::size_t at = out.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  if (at != std::string::npos) out.replace(at, what.size(), with);
  return out;
}

TEST(TokenizerJsonFile, RunsThePartsInTheirOrder) {
  const auto tokenizer = opened(kFile);
  EXPECT_THAT(tokenizer->encode("a ab12 aa").value(), ElementsAre(4, 9, 6, 7, 3, 10));
  EXPECT_THAT(tokenizer->encode("xyz ab").value(), ElementsAre(0, 9));  // unknown ones are fused
  EXPECT_THAT(tokenizer->prefix_ids(), ElementsAre(1));
  EXPECT_TRUE(tokenizer->suffix_ids().empty());
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 9, 6}, true), "a ab1");
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 9, 6}, false), "<s>a ab1");
  EXPECT_EQ(tokenizer->vocabulary_size(), 12);
}

// CASES A2: marks come only from trusted text, also while a normalizer changes the text around them.
TEST(TokenizerJsonFile, A2_MarksComeOnlyFromTrustedText) {
  for (const char* normalized : {"false", "true"}) {
    const std::string mark =
        R"("content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": )";
    const auto tokenizer = opened(edited(mark + "false", mark + normalized));
    const std::string text = "a b<s>a <s>b";
    EXPECT_EQ(std::ranges::count(tokenizer->encode(text).value(), 1), 0);
    EXPECT_EQ(std::ranges::count(tokenizer->encode(text, SpecialTokens::all()).value(), 1), 2);
    const ByteRange second[] = {{8, 11}};
    EXPECT_THAT(tokenizer->encode(text, SpecialTokens::within(second)).value(), ElementsAre(4, 3, 5, 0, 4, 3, 1, 5));
    const ByteRange half[] = {{9, 12}};
    EXPECT_EQ(std::ranges::count(tokenizer->encode(text, SpecialTokens::within(half)).value(), 1), 0);
  }
}

TEST(TokenizerJsonFile, TokensAddedByTheConfiguration) {
  const auto tokenizer = opened(kFile, R"({"added_tokens_decoder": {"12": {"content": "<x>", "lstrip": true,
      "normalized": false, "rstrip": false, "single_word": false, "special": true},
      "11": {"content": "<tool>", "lstrip": false, "normalized": false, "rstrip": true, "single_word": false,
      "special": false}}, "bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<unk>",
      "chat_template": "...", "model_max_length": 1e30})");
  EXPECT_THAT(tokenizer->encode("a <x>b", SpecialTokens::all()).value(), ElementsAre(4, 12, 5));
  EXPECT_THAT(tokenizer->encode("a<tool>  b").value(), ElementsAre(4, 11, 5));
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->padding(), 0);
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));
  EXPECT_THAT(tokenizer->prefix_ids(), ElementsAre(1));
}

TEST(TokenizerJsonFile, NumbersThatAreLeftOutHaveNoToken) {
  const auto tokenizer = opened(kFile, R"({"added_tokens_decoder": {"15": {"content": "<x>", "lstrip": false,
      "normalized": false, "rstrip": false, "single_word": false, "special": true}}})");
  EXPECT_EQ(tokenizer->vocabulary_size(), 16);
  for (std::int64_t id = 0; id < 17; ++id) EXPECT_EQ(tokenizer->has_token(id), id < 12 || id == 15) << id;
}

TEST(TokenizerJsonFile, WhatTheConfigurationPutsAroundATextReplacesTheTemplate) {
  const std::string names = R"("bos_token": "<s>", "eos_token": "</s>")";
  const auto both = opened(kFile, R"({"add_bos_token": true, "add_eos_token": true, )" + names + "}");
  EXPECT_THAT(both->prefix_ids(), ElementsAre(1));
  EXPECT_THAT(both->suffix_ids(), ElementsAre(2));
  const auto none = opened(kFile, R"({"add_bos_token": false, )" + names + "}");
  EXPECT_TRUE(none->prefix_ids().empty());
  EXPECT_FALSE(none->wants_bos());
}

TEST(TokenizerJsonFile, EndIdsOfOtherFiles) {
  const std::int64_t ends[] = {8, 2};
  const auto tokenizer = opened(kFile, {}, ends);
  EXPECT_THAT(tokenizer->end_of_generation_ids(), ElementsAre(2, 8));
  const std::int64_t beyond[] = {12};
  EXPECT_EQ(open(kFile, {}, beyond).error().code, ErrorCode::kTokenizerInvalid);
}

TEST(TokenizerJsonFile, InvalidUtf8ComesBackWhereThereAreBytes) {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    char entry[32];
    std::snprintf(entry, sizeof entry, "\"<0x%02X>\": %d, ", byte, 100 + byte);
    vocabulary += entry;
  }
  std::string file = edited(R"("vocab": {)", R"("vocab": {)" + vocabulary);
  file.replace(file.find(R"("byte_fallback": false)"), 22, R"("byte_fallback": true)");
  file.replace(file.find(R"({"type": "Fuse"})"), 16, R"({"type": "ByteFallback"}, {"type": "Fuse"})");
  const auto tokenizer = opened(file);
  for (const std::string text : {"\xFF", "a\xC3",
                                 "\xE2\x82"
                                 "ab",
                                 "\xED\xA0\x80", "a\x80\x80 b", "\xF0\x9F\x98"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).value(), false), text);
  }
}

/// A byte-level file with a few merges, GPT-2's words and NFC, which random text without marks goes through unchanged.
std::string byte_level_file() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string_view character = byte_level_character(static_cast<unsigned char>(byte));
    const bool quoted = character == "\"" || character == "\\";
    vocabulary.append(quoted ? "\"\\" : "\"")
        .append(character)
        .append("\": ")
        .append(std::to_string(byte))
        .append(", ");
  }
  return R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "decoder": {"type": "ByteLevel"}, "added_tokens": [{"id": 259, "content": "<s>", "special": true}],
      "model": {"type": "BPE", "vocab": {)" +
         vocabulary + R"("th": 256, "the": 257, "Ġthe": 258}, "merges": ["t h", "th e", "Ġ the"]}})";
}

TEST(TokenizerJsonFile, RandomTextComesBackWholeAndStreamed) {
  const auto tokenizer = opened(byte_level_file());
  std::mt19937 random(29);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_text(random, 41);
    if (i % 3 == 0 && !text.empty()) text[random() % text.size()] = static_cast<char>(random());  // rarely UTF-8
    const Ids ids = tokenizer->encode(text).value();
    ASSERT_EQ(tokenizer->decode(ids, false), text);
    StreamDecoder decoder(*tokenizer, true);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += decoder.push(id);
    ASSERT_EQ(streamed + decoder.finish(), repair_utf8(text));
  }
}

TEST(TokenizerJsonFile, AMegabyteOfOneCharacterTakesLittleTime) {
  const auto tokenizer = opened(kFile);
  for (const std::string unit : {"a", " ", "1", "x", "<", "ab", "e\u0301"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(tokenizer->encode(text).value().empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << unit;  // a quadratic way: hours
  }
}

struct Damage {
  std::string name;
  std::string what;
  std::string with;
  ErrorCode code = ErrorCode::kTokenizerInvalid;
  std::string says;
};

constexpr auto kUnsupported = ErrorCode::kTokenizerUnsupported;
constexpr auto kSyntax = ErrorCode::kJsonSyntax;
constexpr auto kEncoding = ErrorCode::kJsonEncoding;
constexpr auto kTwice = ErrorCode::kJsonKeyDuplicate;
constexpr auto kInvalid = ErrorCode::kTokenizerInvalid;

const std::vector<Damage> kDamages = {
    {"NotJson", "\"version\"", "version", kSyntax, "not JSON at byte"},
    {"Truncated", "\"merges\": [[\"a\", \"b\"], [\"_\", \"ab\"], \"a a\"]}\n}", "", kSyntax, "not JSON"},
    {"TextBehind", "\"a a\"]}\n}", "\"a a\"]}\n} x", kSyntax, "not JSON"},
    {"LoneSurrogate", "\"_\": 3", "\"\\ud800\": 3", kEncoding, "not JSON"},
    {"LoneSecondHalf", "\"_\": 3", "\"\\ude00\": 3", kEncoding, "not JSON"},
    {"RawInvalidUtf8", "\"_\": 3", "\"\xFF\": 3", kEncoding, "not JSON"},
    {"Version", "\"1.0\"", "\"2.0\"", kUnsupported, "version \"2.0\""},
    {"UnknownField", "\"padding\": null", "\"padding\": null, \"surprise\": 1", kUnsupported, "\"surprise\""},
    {"TwiceTheField", "\"padding\": null", "\"padding\": null, \"version\": \"1.0\"", kTwice, "\"version\" twice"},
    {"NoModel", "\"model\": {", "\"truncation\": {", kTwice, "twice"},
    {"ModelKind", "\"BPE\"", "\"Transformer\"", kUnsupported, "\"Transformer\""},
    {"NormalizerKind", "{\"type\": \"NFC\"}", "{\"type\": \"Precompiled\"}", kUnsupported,
     "normalizer[0]: the element \"Precompiled\""},
    {"NormalizerField", "{\"type\": \"NFC\"}", "{\"type\": \"NFC\", \"loud\": true}", kUnsupported, "\"loud\""},
    {"NoType", "{\"type\": \"NFC\"}", "{}", kInvalid, "\"type\" is missing"},
    {"PreTokenizerKind", "\"type\": \"Split\"", "\"type\": \"UnicodeScripts\"", kUnsupported, "\"UnicodeScripts\""},
    {"Behavior", "\"Isolated\"", "\"Scattered\"", kUnsupported, "\"Scattered\""},
    {"NoBehavior", "\"behavior\": \"Isolated\", ", "", kUnsupported, "behavior"},
    {"ExpressionSyntax", "\"\\\\d\"", "\"(\\\\d\"", kUnsupported, "cannot be compiled"},
    {"ExpressionEscape", "\"\\\\d\"", "\"\\\\k<a>\"", kUnsupported, "not supported"},
    {"ExpressionSets", "\"\\\\d\"", "\"[a-z&&[^b]]\"", kUnsupported, "intersection"},
    {"ExpressionProperty", "\"\\\\d\"", "\"\\\\p{Klingon}\"", kUnsupported, "cannot be compiled"},
    {"PatternKind", "{\"String\": \" \"}", "{\"Glob\": \" \"}", kInvalid, "\"Regex\" is missing"},
    {"DecoderKind", "{\"type\": \"Fuse\"}", "{\"type\": \"CTC\"}", kUnsupported, "\"CTC\""},
    {"DecoderOrder", "{\"type\": \"Fuse\"}", "{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}", kUnsupported,
     "after tokens were joined"},
    {"PostProcessorKind", "\"TemplateProcessing\"", "\"Magic\"", kUnsupported, "\"Magic\""},
    {"TemplateToken", "\"id\": \"<s>\", \"type_id\"", "\"id\": \"<x>\", \"type_id\"", kInvalid, "\"<x>\""},
    {"TemplateId", "\"ids\": [1]", "\"ids\": [77]", kInvalid, "the id 77"},
    {"TemplateText", "\"id\": \"A\"", "\"id\": \"B\"", kUnsupported, "other texts"},
    {"Dropout", "\"dropout\": null", "\"dropout\": 0.1", kUnsupported, "dropout"},
    {"Unknown", "\"unk_token\": \"<unk>\"", "\"unk_token\": \"<what>\"", kInvalid, "\"<what>\""},
    {"FlagKind", "\"fuse_unk\": true", "\"fuse_unk\": 1", kInvalid, "\"fuse_unk\" is a number"},
    {"VocabularyKind", "\"vocab\": {", "\"vocab\": [], \"more\": {", kInvalid, "\"vocab\" is a list"},
    {"NegativeId", "\"b\": 5", "\"b\": -5", kInvalid, "no whole number"},
    {"FractionalId", "\"b\": 5", "\"b\": 5.5", kInvalid, "no whole number"},
    {"HugeId", "\"b\": 5", "\"b\": 4194303", kInvalid, "has the id 4194303"},
    {"BeyondId", "\"b\": 5", "\"b\": 1e300", kInvalid, "no whole number"},
    {"TokenTwice", "\"b\": 5", "\"a\": 5", kInvalid, "twice"},
    {"IdTwice", "\"b\": 5", "\"b\": 4", kInvalid, "both the id 4"},
    {"MergeOfNoToken", "[\"a\", \"b\"]", "[\"a\", \"q\"]", kInvalid, "merge 0"},
    {"MergeMakesNoToken", "[\"a\", \"b\"]", "[\"b\", \"a\"]", kInvalid, "merge 0"},
    {"MergeOfThree", "[\"a\", \"b\"]", "[\"a\", \"b\", \"a\"]", kInvalid, "merge 0"},
    {"MergeText", "\"a a\"", "\"a a a\"", kInvalid, "merge 2"},
    {"MergeNumber", "\"a a\"", "7", kInvalid, "merge 2"},
    {"AddedIdOfAnother", "\"id\": 11", "\"id\": 10", kInvalid, "\"aa\" has already"},
    {"AddedIdDiffers", "\"id\": 2, \"content\"", "\"id\": 3, \"content\"", kInvalid, "and elsewhere 2"},
    {"AddedIdFarAway", "\"id\": 11", "\"id\": 100000", kInvalid, "one too many"},
    {"AddedIdNegative", "\"id\": 11", "\"id\": -1", kInvalid, "one too many"},
    {"AddedWithoutContent", "\"content\": \"<tool>\", ", "", kInvalid, "\"content\" is missing"},
    {"AddedFlag", "\"lstrip\": false", "\"lstrip\": \"no\"", kInvalid, "\"lstrip\" is a string"},
};

class TokenizerJsonDamage : public testing::TestWithParam<Damage> {};

TEST_P(TokenizerJsonDamage, HasItsCodeAndNamesTheFault) {
  const Damage& damage = GetParam();
  const auto tokenizer = open(edited(damage.what, damage.with));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, damage.code) << tokenizer.error().message;
  EXPECT_THAT(tokenizer.error().message, HasSubstr(damage.says));
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerJsonDamage, testing::ValuesIn(kDamages),
                         [](const auto& param) { return param.param.name; });

TEST(TokenizerJsonDamages, OtherFiles) {
  EXPECT_EQ(open("").error().code, kSyntax);
  EXPECT_EQ(open("[]").error().code, kInvalid);
  EXPECT_EQ(open("{}").error().code, kInvalid);
  EXPECT_EQ(open(std::string(100000, '[')).error().code, ErrorCode::kJsonDepth);
  for (const char* config : {"[", "[]", R"({"bos_token": 1})", R"({"add_bos_token": "yes"})", R"({"eos_token": "<z>"})",
                             R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})",
                             R"({"added_tokens_decoder": {"5": {"content": "<x>"}}})",
                             R"({"added_tokens_decoder": {"12": {"content": "<x>", "color": "red"}}})"}) {
    const auto tokenizer = open(kFile, config);
    ASSERT_FALSE(tokenizer.ok()) << config;
    EXPECT_EQ(kind_of(tokenizer.error().code), ErrorKind::kModel);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer_config.json"));
  }
}

/// A value as JSON again, without spaces; numbers as whole ones.
std::string written(JsonValue value) {
  using Kind = JsonValue::Kind;
  const auto quoted = [](std::string_view text) { return "\"" + std::string(text) + "\""; };
  if (value.is(Kind::kString)) return quoted(value.string());
  if (value.is(Kind::kNumber)) return std::to_string(*value.integer());
  const bool list = value.is(Kind::kArray);
  std::string out = list ? "[" : "{";
  std::uint32_t count = 0;
  for (const JsonValue& inner : value) {
    if (count++ > 0) out += ',';
    out += (list ? "" : quoted(inner.key()) + ":") + written(inner);
  }
  EXPECT_EQ(count, value.count());
  return out + (list ? "]" : "}");
}

TEST(JsonTree, KeepsEveryValueInItsPlace) {
  for (const char* json : {"[]", "{}", R"(["a","b"])", R"([["a","bc"],["","d"],["e",""],["",""]])",
                           R"({"p":["a","b"],"q":[["a","b"]],"":["x","y"]})",
                           R"([["a"],["a","b","c"],["a",1],[1,"b"],[["a","b"],"c"],[{},"b"],["a",[]]])",
                           R"({"a":{"b":["c","d"],"e":[["f","g"],{"h":["i",[["j","k"]]]}]},"l":7})"}) {
    const auto tree = JsonTree::parse(json, "x");
    ASSERT_TRUE(tree.ok()) << json;
    EXPECT_EQ(written(tree->root()), json);
  }
}

TEST(TokenizerJsonDamages, Numbers) {
  for (const char* number : {"0e61", "0e300", "1e-999", "-0", "1E2", "123456789012345678901234567890", "1e308"}) {
    const auto tree = JsonTree::parse(number, "x");
    ASSERT_TRUE(tree.ok()) << number;
    EXPECT_EQ(tree->root().number(), std::strtod(number, nullptr)) << number;
  }
  for (const char* number : {"1e309", "-1e999", "01", "1.", "+1", "NaN", "Infinity", "0x10", "1e"}) {
    EXPECT_EQ(JsonTree::parse(number, "x").error().code, kSyntax) << number;
  }
}

TEST(TokenizerJsonDamages, ScoredVocabularies) {
  const auto with = [](std::string_view vocabulary, std::string_view rest = "") {
    return open(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": )" + std::string(vocabulary) +
                std::string(rest) + "}}");
  };
  EXPECT_TRUE(with(R"([["<unk>", 0], ["a", -1.5]])").ok());
  EXPECT_EQ(with(R"([["<unk>", 0], ["a"]])").error().code, kInvalid);
  EXPECT_EQ(with(R"([["<unk>", 0], ["a", "b"]])").error().code, kInvalid);
  EXPECT_EQ(with(R"([["<unk>", 0], [1, 2]])").error().code, kInvalid);
  EXPECT_EQ(with(R"([["<unk>", 0], ["<unk>", 2]])").error().code, kInvalid);
  EXPECT_EQ(with("[]").error().code, kInvalid);
  EXPECT_EQ(with(R"([["a", 0]])", R"(, "unk_id": 0)").error().code, kTwice);
  EXPECT_EQ(with("[[\"" + std::string(5000, 'a') + "\", 0]]").error().code, kInvalid);
}

/// Cut at every byte: an error, never a crash.
TEST(TokenizerJsonDamages, CutAtEveryByte) {
  for (std::size_t size = 0; size < kFile.size() - 1; ++size) {
    const auto tokenizer = open(std::string_view(kFile).substr(0, size));
    ASSERT_FALSE(tokenizer.ok()) << size;
    ASSERT_EQ(tokenizer.error().code, kSyntax);
  }
}

}  // namespace
}  // namespace pagoda::text
