// Small tokenizer.json files, one for each element and flag, against what the library that the format comes from makes
// of hard texts (tests/golden/tokenizer_json.jsonl, written by tools/make_tokenizer_json_goldens.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "text/json_tree.h"
#include "text/stream_decoder.h"
#include "text/tokenizer_json.h"

namespace pagoda::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Kind = JsonValue::Kind;

struct Case {
  std::string text;
  Ids plain;
  Ids marked;
  std::string with_marks;
  std::string without_marks;
};

struct Golden {
  std::string name;
  std::string tokenizer;
  std::vector<Case> cases;
};

Ids ids_of(JsonValue list) {
  Ids out;
  for (const JsonValue& id : list) out.push_back(static_cast<std::int32_t>(*id.integer()));
  return out;
}

Case read_case(JsonValue row) {
  std::vector<JsonValue> parts;
  for (const JsonValue& part : row) parts.push_back(part);
  Case out;
  out.text = parts[0].string();
  out.plain = ids_of(parts[1]);
  out.marked = parts[2].is(Kind::kNull) ? out.plain : ids_of(parts[2]);
  out.with_marks = parts[3].is(Kind::kNull) ? out.text : parts[3].string();
  out.without_marks = parts[4].is(Kind::kNull) ? out.with_marks : parts[4].string();
  return out;
}

Golden read_golden(JsonValue line, std::map<std::string, std::string>& shared) {
  Golden out;
  for (const JsonValue& field : line) {
    if (field.key() == "name") out.name = field.string();
    if (field.key() == "tokenizer") out.tokenizer = field.string();
    if (field.key() != "cases") continue;
    for (const JsonValue& row : field) out.cases.push_back(read_case(row));
  }
  if (out.cases.empty()) shared["\"" + out.name + "\""] = out.tokenizer;
  for (const auto& [name, text] : shared) {
    if (const std::size_t at = out.tokenizer.find(name); at != std::string::npos) {
      out.tokenizer.replace(at, name.size(), text);
    }
  }
  return out;
}

std::vector<Golden> read_goldens() {
  std::ifstream file(std::string(PAGODA_SOURCE_DIR) + "/tests/golden/tokenizer_json.jsonl");
  std::map<std::string, std::string> shared;
  std::vector<Golden> out;
  for (std::string line; std::getline(file, line);) {
    const JsonTree tree = JsonTree::parse(line, "golden").value();
    Golden golden = read_golden(tree.root(), shared);
    if (!golden.cases.empty()) out.push_back(std::move(golden));
  }
  return out;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string out;
  for (const std::int32_t id : ids) out += decoder.push(id);
  return out + decoder.finish();
}

void expect_case(const Tokenizer& tokenizer, const Case& golden) {
  const auto plain = tokenizer.encode(golden.text);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  const auto is_mark = [&](std::int32_t id) { return tokenizer.is_control(id); };
  if (std::ranges::any_of(golden.plain, is_mark) && golden.text.find('<') != std::string::npos) {
    // The library lets a model make marks out of text: "<s>" is a piece like any other. Here text never becomes a mark.
    for (const std::string mark : {"<s>", "</s>"}) {
      EXPECT_EQ(std::ranges::count(plain.value(), *tokenizer.find(mark)), 0) << golden.text;
    }
  } else {
    EXPECT_EQ(plain.value(), golden.plain) << golden.text;
  }
  EXPECT_EQ(tokenizer.encode(golden.text, SpecialTokens::all()).value(), golden.marked) << golden.text;
  EXPECT_EQ(repair_utf8(tokenizer.decode(golden.marked, false)), golden.with_marks) << golden.text;
  EXPECT_EQ(repair_utf8(tokenizer.decode(golden.marked, true)), golden.without_marks) << golden.text;
  EXPECT_EQ(streamed(tokenizer, golden.marked, false), golden.with_marks);
  EXPECT_EQ(streamed(tokenizer, golden.marked, true), golden.without_marks);
}

class TokenizerJson : public testing::TestWithParam<Golden> {};

TEST_P(TokenizerJson, EqualsTheLibrary) {
  auto source = read_tokenizer_json({.tokenizer = GetParam().tokenizer, .config = {}, .end_ids = {}});
  ASSERT_TRUE(source.ok()) << source.error().message;
  const auto tokenizer = Tokenizer::create(std::move(source).value());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  for (const Case& golden : GetParam().cases) {
    expect_case(**tokenizer, golden);
    std::string longer;
    for (int i = 0; i < 30; ++i) longer += golden.text;
    for (const auto& special : {SpecialTokens::none(), SpecialTokens::all()}) {
      const auto ids = (*tokenizer)->encode(longer, special);
      if (ids.ok()) {
        EXPECT_LE((*tokenizer)->least_tokens(longer), std::ssize(*ids)) << golden.text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, TokenizerJson, testing::ValuesIn(read_goldens()), [](const auto& param) {
  std::string name;
  for (const char c : param.param.name) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace pagoda::text
