#include "io/json_config.h"

#include <gtest/gtest.h>

#include "fixtures/allocations.h"

namespace pagoda::io {
namespace {

RawConfig parse(std::string_view text) { return parse_json_config("c.json", text).value(); }

Error refusal(std::string_view text) {
  const auto config = parse_json_config("c.json", text);
  return config.ok() ? Error{} : config.error();
}

TEST(JsonConfig, TypesOfValues) {
  const RawConfig config = parse(
      R"({"i": 3, "n": -4, "u": 18446744073709551615, "d": 0.5, "e": 1e-05, "t": "héé", "b": true, "none": null})");
  EXPECT_EQ(config.integer("i", 0, 9).value(), 3);
  EXPECT_EQ(config.integer("n", -9, 9).value(), -4);
  EXPECT_NE(config.find("u")->get_if<std::uint64_t>(), nullptr);
  EXPECT_EQ(config.number("d", 0, 1).value(), 0.5);
  EXPECT_EQ(config.number("e", 0, 1).value(), 1e-5);
  EXPECT_EQ(config.text("t").value(), "h\u00e9\u00e9");
  EXPECT_TRUE(config.boolean("b").value());
  EXPECT_FALSE(config.contains("none"));
  EXPECT_EQ(config.size(), 7u);
}

TEST(JsonConfig, InnerObjectsAreRead) {
  const RawConfig config = parse(
      R"({"rope": {"full": {"theta": 5}, "type": "x", "empty": {}}, "list": [{"a": 1}, {"a": 2, "b": {"c": 3}}], "z": 1})");
  EXPECT_EQ(config.integer("rope.full.theta", 0, 9).value(), 5);
  EXPECT_EQ(config.text("rope.type").value(), "x");
  EXPECT_EQ(config.integer("list.0.a", 0, 9).value(), 1);
  EXPECT_EQ(config.integer("list.1.a", 0, 9).value(), 2);
  EXPECT_EQ(config.integer("list.1.b.c", 0, 9).value(), 3);
  EXPECT_EQ(config.size(), 6u);
}

TEST(JsonConfig, AnEmptyObjectIsNoReasonForAFallback) {
  const RawConfig config = parse(R"({"theta": {}, "inner": {"flag": {}}, "list": [{}]})");
  EXPECT_EQ(config.number_or("theta", 1, 0, 9).error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.boolean_or("inner.flag", true).error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.text("theta").error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.integer_or("list", 3, 0, 9).value(), 3);
  EXPECT_FALSE(config.contains("theta"));
  EXPECT_TRUE(config.unread_keys().empty());
}

TEST(JsonConfig, Lists) {
  const RawConfig config = parse(
      R"({"i": [1, 2], "d": [1, 2.5], "s": ["a", "b"], "b": [true, false], "m": [1, "a"], "e": [], "l": [[1], [2, 3]]})");
  EXPECT_EQ(config.integers("i", 0, 9).value(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(config.numbers("d", 0, 9).value(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ((*config.texts("s").value())[1], "b");
  EXPECT_EQ(config.booleans("b").value(), (std::vector<bool>{true, false}));
  for (const char* key : {"m", "e", "l"}) EXPECT_NE(config.find(key)->get_if<Value::List>(), nullptr) << key;
}

TEST(JsonConfig, Refusals) {
  EXPECT_EQ(refusal("3").code, ErrorCode::kConfigType);
  EXPECT_EQ(refusal("null").code, ErrorCode::kConfigType);
  EXPECT_EQ(refusal("{\"a\": NaN}").code, ErrorCode::kJsonSyntax);
  EXPECT_EQ(refusal("{\"a\": 1e999}").code, ErrorCode::kJsonSyntax);
  EXPECT_EQ(refusal("{\"a\": 1} x").code, ErrorCode::kJsonSyntax);
  EXPECT_EQ(refusal("{\"a\": 1, // remark\n}").code, ErrorCode::kJsonSyntax);
  EXPECT_EQ(refusal(R"({"a.b": 1, "a": {"b": 2}})").code, ErrorCode::kJsonKeyDuplicate);
  EXPECT_EQ(refusal(std::string(40, '[') + std::string(40, ']')).code, ErrorCode::kJsonDepth);
}

// Long paths and many small values: memory stays a small multiple of the text.
TEST(JsonConfig, HostileTextsCostLittle) {
  std::string long_path = "{\"" + std::string(100000, 'p') + "\":{";
  for (int i = 0; i < 20000; ++i) long_path += pagoda::format("{}\"{}\":1", i == 0 ? "" : ",", i);
  std::string list = "{\"l\":[1";
  for (int i = 0; i < 1100000; ++i) list += ",1";
  for (const std::string& text : {long_path + "}}", list + "]}"}) {
    const fixtures::AllocationMeter meter;
    EXPECT_EQ(refusal(text).code, ErrorCode::kJsonLimit);
    EXPECT_LT(meter.peak_bytes(), 64 * text.size() + (std::size_t{64} << 20));
  }
}

}  // namespace
}  // namespace pagoda::io
