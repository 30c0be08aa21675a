#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pagoda {
namespace {

TEST(Numbers, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
      continue;
    }
    ASSERT_EQ(float_to_f16(value), half) << bits;
    ASSERT_EQ(value, static_cast<float>(__builtin_bit_cast(_Float16, half))) << bits;
  }
}

TEST(Numbers, HalfRoundsToNearestEven) {
  // Every midpoint between neighbours and its own neighbours, against the compiler's conversion.
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {
    const float low = f16_to_float(static_cast<std::uint16_t>(half));
    const float high = half == 0x7bff ? 65536.0f : f16_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = (low + high) / 2;
    for (const float value : {std::nextafter(middle, low), middle, std::nextafter(middle, high)}) {
      ASSERT_EQ(float_to_f16(value), __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value))) << value;
      ASSERT_EQ(float_to_f16(-value), __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(-value))) << value;
    }
  }
  EXPECT_EQ(float_to_f16(INFINITY), 0x7c00);
  EXPECT_EQ(float_to_f16(1e9f), 0x7c00);
}

TEST(Numbers, Bf16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(float_of_bits(0x3f808000)), 0x3f80);
  EXPECT_EQ(float_to_bf16(float_of_bits(0x3f818000)), 0x3f82);
  EXPECT_EQ(float_to_bf16(float_of_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(float_to_bf16(float_of_bits(0x7f7fffff)), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(float_of_bits(0x7f800001)))));
}

TEST(Numbers, SmallFloats) {
  EXPECT_EQ(fp8_e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(fp8_e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(fp8_e4m3_to_float(0xb8), -1.0f);
  EXPECT_TRUE(std::isnan(fp8_e4m3_to_float(0xff)));
  EXPECT_EQ(fp8_e5m2_to_float(0x7b), 57344.0f);
  EXPECT_TRUE(std::isinf(fp8_e5m2_to_float(0x7c)));
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(fp4_e2m1_to_float(code), fp4[code]);
    EXPECT_EQ(fp4_e2m1_to_float(static_cast<std::uint8_t>(code | 8)), -fp4[code]);
  }
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_float(1), 0x1p-126f);
  EXPECT_EQ(e8m0_to_float(127), 1.0f);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

}  // namespace
}  // namespace pagoda
