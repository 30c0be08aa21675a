// Encoders with scales of rows, tiles and tensors, and blocks taken apart.
#include "quant/encode_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/numbers.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

constexpr std::int64_t kRows = 131;
constexpr std::int64_t kCols = 304;  // two blocks of 128 and a part; a block of 256 and a part

/// Rows of sizes that differ by thousands.
std::vector<float> weights() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kCols);
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    values[static_cast<std::size_t>(i)] = normal(random) * std::ldexp(1.0f, static_cast<int>(i / kCols % 11) - 8);
  }
  return values;
}

std::vector<float> decode(const Format& format, const std::vector<std::byte>& blocks) {
  std::vector<float> values(kRows * kCols, NAN);
  for (std::int64_t row = 0; row < kRows; ++row) {
    format.decode_row(blocks.data() + row * format.row_bytes(kCols), kCols, values.data() + row * kCols);
  }
  return values;
}

std::vector<std::byte> room(const Format& format) {
  return std::vector<std::byte>(static_cast<std::size_t>(kRows * format.row_bytes(kCols)), std::byte{0xa5});
}

TEST(EncodeRows, Fp8OfChannelsIsWithinHalfAStepOfEachValue) {
  const Format& format = *find_format("fp8_e4m3");
  const auto values = weights();
  auto blocks = room(format);
  encode_fp8_channels(values.data(), kRows, kCols, blocks.data());
  const auto decoded = decode(format, blocks);
  for (std::size_t row = 0; row < kRows; ++row) {
    float peak = 0;
    for (std::size_t i = row * kCols; i < (row + 1) * kCols; ++i) peak = std::max(peak, std::fabs(values[i]));
    for (std::size_t i = row * kCols; i < (row + 1) * kCols; ++i) {
      const float smallest = peak / 448 * 0x1p-9f;  // the unit of subnormal codes
      ASSERT_LE(std::fabs(decoded[i] - values[i]), std::max(std::fabs(values[i]) / 16, smallest) * 1.001f) << i;
    }
  }
}

TEST(EncodeRows, TilesShareAScaleAndNothingElse) {
  const Format& format = *find_format("fp8_e4m3");
  const auto values = weights();
  auto blocks = room(format);
  encode_fp8_tiles(values.data(), kRows, kCols, blocks.data());
  const auto* all = reinterpret_cast<const FP8_E4M3::Block*>(blocks.data());
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t b = 0; b < 3; ++b) EXPECT_EQ(all[row * 3 + b].scale, all[row / 128 * 128 * 3 + b].scale);
  }
  EXPECT_NE(all[0].scale, all[1].scale);
  const auto decoded = decode(format, blocks);
  float peak = 0, of_decoded = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    for (std::size_t row = 0; row < 128; ++row) {
      peak = std::max(peak, std::fabs(values[row * kCols + i]));
      of_decoded = std::max(of_decoded, std::fabs(decoded[row * kCols + i]));
    }
  }
  EXPECT_NEAR(of_decoded, peak, peak * 1e-6) << "the largest value is kept";
}

TEST(EncodeRows, Nvfp4) {
  const Format& format = *find_format("nvfp4");
  auto values = weights();
  float peak = 0;
  for (const float value : values) peak = std::max(peak, std::fabs(value));
  auto blocks = room(format);
  encode_nvfp4(values.data(), kRows, kCols, nvfp4_divisor(peak), blocks.data());
  const auto decoded = decode(format, blocks);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (static_cast<double>(decoded[i]) - values[i]) * (static_cast<double>(decoded[i]) - values[i]);
    size += static_cast<double>(values[i]) * values[i];
  }
  EXPECT_LT(std::sqrt(error / size), 0.1);
  EXPECT_GT(std::sqrt(error / size), 0.05);
  EXPECT_EQ(nvfp4_divisor(0), 1);
}

// What is taken apart says what `decode` says.
TEST(EncodeRows, PartsAreTheBlocks) {
  const Format& format = *find_format("nvfp4");
  const auto values = weights();
  auto blocks = room(format);
  encode_nvfp4(values.data(), kRows, kCols, nvfp4_divisor(30), blocks.data());
  const auto decoded = decode(format, blocks);
  SplitRow parts;
  find_splitter(format)(blocks.data() + 7 * format.row_bytes(kCols), kCols, parts);
  ASSERT_EQ(parts.codes.size(), static_cast<std::size_t>(kCols / 2));
  ASSERT_EQ(parts.scales.size(), static_cast<std::size_t>(kCols / 16));
  for (std::size_t i = 0; i < kCols; ++i) {
    const auto code = static_cast<std::uint8_t>(parts.codes[i / 2] >> (i % 2 * 4) & 15);
    const float scale = fp8_e4m3_to_float(static_cast<std::uint8_t>(parts.scales[i / 16]));
    EXPECT_EQ(fp4_e2m1_to_float(code) * scale * (1 / nvfp4_divisor(30)), decoded[7 * kCols + i]);
  }
  EXPECT_EQ(find_splitter(*find_format("f16")), nullptr);
}

}  // namespace
}  // namespace pagoda::quant
