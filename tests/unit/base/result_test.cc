#include "base/result.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/checked.h"

namespace pagoda {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) { return half(PAGODA_TRY(half(value))); }

TEST(Result, TryHandsUpTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  const auto odd = quarter(6);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().message, "3 is odd");
  EXPECT_EQ(kind_of(odd.error().code), ErrorKind::kUsage);
}

TEST(ResultDeathTest, ReadingTheMissingSideAborts) {
  EXPECT_DEATH((void)half(3).value(), "3 is odd");
  EXPECT_DEATH((void)half(4).error(), "holds a value");
}

TEST(CheckDeathTest, PrintsValues) { EXPECT_DEATH(PAGODA_CHECK(1 > 2, "rows {}", 7), "1 > 2 rows 7"); }

TEST(Checked, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_add<std::int32_t>(1 << 30, 1 << 30), std::nullopt);
  EXPECT_EQ(checked_cast<std::int32_t>(std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(ceil_div(7, 3), 3);
}

}  // namespace
}  // namespace pagoda
