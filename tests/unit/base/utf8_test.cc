#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/to_float.h"

namespace pagoda {
namespace {

// The borders of Unicode's table 3-7, each behind nine plain bytes: whole words of ASCII are passed over.
TEST(Utf8, WhatIsNoneIsToldByItsFirstByte) {
  const std::string before = "123456789";
  for (const std::string valid : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                  "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(before + valid + "z")) << testing::PrintToString(valid);
    EXPECT_TRUE(check_utf8(valid, "it").ok());
    EXPECT_FALSE(is_utf8(valid + "\x80"));
    if (valid.size() > 1) {
      EXPECT_FALSE(is_utf8(before + valid.substr(0, valid.size() - 1))) << testing::PrintToString(valid);
    }
  }
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string(1, '\0')));
  for (const auto& [invalid, at] : std::vector<std::pair<std::string, std::size_t>>{{"\x80", 9},
                                                                                    {"\xC0\xAF", 9},
                                                                                    {"\xC1\xBF", 9},
                                                                                    {"\xE0\x9F\xBF", 9},
                                                                                    {"\xED\xA0\x80", 9},
                                                                                    {"\xF0\x8F\xBF\xBF", 9},
                                                                                    {"\xF4\x90\x80\x80", 9},
                                                                                    {"\xF5\x80\x80\x80", 9},
                                                                                    {"\xC3\xA9\xE9 ", 11}}) {
    EXPECT_EQ(valid_utf8_length(before + invalid), at) << testing::PrintToString(invalid);
  }
  const Status refused = check_utf8("caf\xE9", "the text");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "the text is no UTF-8: byte 0xe9 at offset 3");
}

TEST(ToFloat, WhatIsOverZeroStaysSo) {
  EXPECT_EQ(to_float(0.7), 0.7f);
  EXPECT_EQ(to_float(0), 0.f);
  EXPECT_EQ(to_float(-2.5), -2.5f);
  for (const double tiny : {1e-300, 5e-324, 1e-45}) {
    EXPECT_GT(to_float(tiny), 0.f) << tiny;
    EXPECT_LT(to_float(-tiny), 0.f) << tiny;
  }
}

}  // namespace
}  // namespace pagoda
