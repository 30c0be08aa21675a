#include "io/raw_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pagoda::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NumberList list_of(std::vector<std::int32_t> values) {
  std::vector<std::byte> bytes(values.size() * sizeof values[0]);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return NumberList(NumberList::Type::kI32, std::move(bytes));
}

RawConfig sample() {
  RawConfig config("model.gguf");
  config.insert("heads", Value{std::int64_t{9}});
  config.insert("epsilon", Value{1e-5});
  config.insert("name", Value{std::string("x\n\x01")});
  config.insert("tied", Value{true});
  config.insert("layers", Value{list_of({3, 1, 3})});
  config.insert("large", Value{std::uint64_t{1} << 63});
  config.insert("nan", Value{std::numeric_limits<double>::quiet_NaN()});
  return config;
}

TEST(RawConfig, MissingTypeAndRangeNameFileKeyFoundAndAllowed) {
  const RawConfig config = sample();
  const auto missing = config.integer("hea'ds", 1, 8);
  EXPECT_EQ(missing.error().code, ErrorCode::kConfigMissing);
  EXPECT_EQ(missing.error().message, "model.gguf: key 'hea\\'ds' is missing");
  const auto type = config.integer("name", 1, 8);
  EXPECT_EQ(type.error().code, ErrorCode::kConfigType);
  EXPECT_EQ(type.error().message, "model.gguf: key 'name' is a string, not an integer");
  const auto range = config.integer("heads", 1, 8);
  EXPECT_EQ(range.error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(range.error().message, "model.gguf: key 'heads' is 9; allowed are 1 to 8");
  EXPECT_EQ(config.integer("epsilon", 0, 8).error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.boolean("heads").error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.text("heads").error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.texts("layers").error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.number("nan", -1e308, 1e308).error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(config.number("tied", 0, 1).error().code, ErrorCode::kConfigType);
  EXPECT_EQ(config.number("epsilon", 0, 1e-6).error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(config.booleans("layers").error().code, ErrorCode::kConfigType);
  EXPECT_THAT(config.integers("layers", 0, 2).error().message, HasSubstr("holds 3 at index 0"));
}

TEST(RawConfig, FallbackOnlyWhereTheKeyIsAbsent) {
  const RawConfig config = sample();
  EXPECT_EQ(*config.integer_or("absent", 5, 1, 2), 5) << "a fallback is the caller's own and not checked";
  EXPECT_EQ(*config.integer_or("heads", 5, 1, 9), 9);
  EXPECT_FALSE(config.integer_or("heads", 5, 1, 8).ok()) << "a bad value is no absent one";
  EXPECT_FALSE(config.boolean_or("heads", true).ok());
  EXPECT_EQ(*config.number_or("heads", 1, 0, 10), 9.0) << "an integer is a number";
  EXPECT_EQ(*config.number("large", 0, 1e20), 0x1p63);
  EXPECT_EQ(*config.text_or("absent", "y"), "y");
  EXPECT_TRUE(*config.boolean_or("tied", false));
}

TEST(RawConfig, OneForAllOrOneForEach) {
  const RawConfig config = sample();
  EXPECT_THAT(*config.integers_each("layers", 3, 1, 3), ElementsAre(3, 1, 3));
  EXPECT_THAT(*config.integers_each("heads", 2, 1, 9), ElementsAre(9, 9));
  EXPECT_EQ(config.integers_each("layers", 4, 1, 3).error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(config.integers_each("absent", 4, 1, 3).error().code, ErrorCode::kConfigMissing);
  EXPECT_EQ(config.integers_each("name", 4, 1, 3).error().code, ErrorCode::kConfigType);
}

TEST(RawConfig, KnowsWhatNobodyRead) {
  const RawConfig config = sample();
  EXPECT_EQ(config.unread_keys().size(), 7u);
  (void)config.contains("heads");
  (void)config.keys();
  EXPECT_EQ(config.unread_keys().size(), 7u) << "looking is not reading";
  (void)config.integer("heads", 0, 100);
  (void)config.number_or("epsilon", 1, 0, 1);
  (void)config.boolean_or("absent", true);
  config.mark_read("name");
  (void)config.text("tied");  // reading with the wrong type still names the key in its error
  EXPECT_THAT(config.unread_keys(), ElementsAre("large", "layers", "nan"));
}

TEST(RawConfig, InsertRefusesASecondValue) {
  RawConfig config("f");
  EXPECT_TRUE(config.insert("a", Value{std::int64_t{1}}));
  EXPECT_FALSE(config.insert("a", Value{std::int64_t{2}}));
  EXPECT_EQ(*config.integer("a", 0, 9), 1);
}

}  // namespace
}  // namespace pagoda::io
