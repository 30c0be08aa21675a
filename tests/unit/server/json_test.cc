#include "server/json/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pagoda::server {
namespace {

TEST(Json, KeepsOrderAndDigits) {
  const std::string text = R"({"b":1.50,"a":[true,null,"\u0001\"\\x"],"c":{"d":-0,"e":1e30}})";
  const auto json = parse_json(text);
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_EQ(to_text(*json), text);
}

TEST(Json, FaultsNameTheTopLevelMember) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a":1,"b":NaN})", "b"}, {R"({"a":{"x":[1,}})", "a"},
      {R"({"a":1)", ""},           {R"({"a":"\ud800"})", "a"},
      {R"({"a":"\ude00"})", "a"},  {R"({"a":{"x\ude00":1}})", "a"},
      {R"({"b\ude00":1})", ""},    {R"({"a":{"x":1,"x":2}})", "a"},
      {R"({"a":1,"a":2})", "a"},   {"{\"a\":\"\xff\"}", "a"},
      {R"({"a":+1})", "a"},        {R"([1,])", ""},
      {R"({"a":1}x)", ""},         {R"({"a":01})", ""},
  };
  for (const auto& [text, param] : cases) {
    const auto json = parse_json(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.error().param, param) << text;
  }
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64)).ok());
  EXPECT_FALSE(parse_json(nested(65)).ok());
  EXPECT_FALSE(parse_json(std::string(5'000'000, '[')).ok());
}

// 32 MiB of "0," would be gigabytes of values.
TEST(Json, ValuesAreCounted) {
  const auto list_of = [](std::size_t count) {
    std::string text = "{\"prompt\":[0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text + "]}";
  };
  EXPECT_TRUE(parse_json(list_of((1 << 21) - 2)).ok());
  const Result<Json> over = parse_json(list_of((1 << 21) - 1));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().param, "prompt");
}

TEST(Json, NumbersAreWhatTheyAre) {
  const auto number = [](const char* text) { return Json{.kind = Json::Kind::kNumber, .text = text}; };
  EXPECT_EQ(number("1e400").number(), std::nullopt);
  EXPECT_EQ(number("1e-400").number(), 0.0);
  EXPECT_EQ(number("1.5").integer(), std::nullopt);
  EXPECT_EQ(number("1.0").integer(), 1);
  EXPECT_EQ(number("2E2").integer(), 200);
  EXPECT_EQ(number("9223372036854775807").integer(), INT64_MAX);
  EXPECT_EQ(number("9223372036854775808").integer(), std::nullopt);
  EXPECT_EQ(number("-9223372036854775808").integer(), INT64_MIN);
}

TEST(JsonWriter, IsValidAndFinite) {
  JsonWriter out;
  out.open_object().member("a", -INFINITY).key("b").open_array().value(1.5f).null().value(true).close_array();
  out.key("c").open_object().close_object().member("d\n", "\x01\x1f\"\\").close_object();
  EXPECT_EQ(out.text(), R"({"a":-9999,"b":[1.5,null,true],"c":{},"d\n":"\u0001\u001f\"\\"})");
  EXPECT_TRUE(parse_json(out.text()).ok());
}

}  // namespace
}  // namespace pagoda::server
