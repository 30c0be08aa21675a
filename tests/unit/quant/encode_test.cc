// Encoders by properties that hold for all formats: nearest codes, bounded errors, and what cannot be stored is seen.
#include "quant/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/numbers.h"

namespace pagoda::quant {
namespace {

std::vector<const Format*> encodable() {
  std::vector<const Format*> formats;
  for (const Format* format : all_formats()) {
    if (find_encoder(*format) != nullptr) formats.push_back(format);
  }
  return formats;
}

std::vector<float> gaussian(std::int64_t count, float size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> encode(const Format& format, const std::vector<float>& values) {
  const auto cols = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> row(static_cast<std::size_t>(format.row_bytes(cols)), std::byte{0xa5});
  find_encoder(format)(values.data(), cols, row.data());
  return row;
}

std::vector<float> decode(const Format& format, const std::vector<std::byte>& row, std::size_t cols) {
  std::vector<float> values(cols, NAN);
  format.decode_row(row.data(), static_cast<std::int64_t>(cols), values.data());
  return values;
}

double relative_error(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (static_cast<double>(decoded[i]) - values[i]) * (static_cast<double>(decoded[i]) - values[i]);
    size += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(error / size);
}

/// Of normally distributed weights; measured, and rounded up by 3 %.
const std::map<std::string_view, double> kMostError = {
    {"f32", 0},        {"f16", 2.2e-4},   {"bf16", 1.75e-3},  {"q4_0", 0.084},  {"q4_1", 0.0755}, {"q5_0", 0.0416},
    {"q5_1", 0.0371},  {"q8_0", 0.0055},  {"q2_k", 0.279},    {"q3_k", 0.148},  {"q4_k", 0.0763}, {"q5_k", 0.0384},
    {"q6_k", 0.01790}, {"iq4_nl", 0.076}, {"iq4_xs", 0.0768}, {"mxfp4", 0.1152}};

TEST(Encode, EveryGgufTypeHasAnEncoderOfBoundedError) {
  for (const Format* format : all_formats()) {
    if (format->gguf_type < 0) continue;
    ASSERT_NE(find_encoder(*format), nullptr) << format->name;
    ASSERT_TRUE(kMostError.contains(format->name)) << format->name;
    for (const float size : {0.03f, 7.0f}) {
      const auto values = gaussian(37 * 256, size, 4);
      const double error = relative_error(values, decode(*format, encode(*format, values), values.size()));
      EXPECT_LE(error, kMostError.at(format->name)) << format->name << " at " << size;
      EXPECT_EQ(error > 0, format->name != "f32") << format->name;
    }
  }
}

// A bit whose change is seen in one element alone belongs to that element's code: no such change may come nearer.
TEST(Encode, NoBitOfACodeComesNearer) {
  for (const Format* format : encodable()) {
    if (format->block_elements == 1) continue;
    std::int64_t tried = 0;
    for (unsigned seed = 0; seed < 5; ++seed) {
      const auto values = gaussian(format->block_elements, 0.02f, seed);
      const auto row = encode(*format, values);
      const auto decoded = decode(*format, row, values.size());
      for (std::size_t bit = 0; bit < row.size() * 8; ++bit) {
        auto changed = row;
        changed[bit / 8] ^= std::byte{1} << (bit % 8);
        const auto other = decode(*format, changed, values.size());
        std::size_t at = 0;
        int differ = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (std::memcmp(&other[i], &decoded[i], 4) != 0) at = i, ++differ;
        }
        if (differ != 1 || std::isnan(other[at])) continue;
        ++tried;
        const float step = std::fabs(decoded[at]) * 1e-6f;  // a tie may go either way
        ASSERT_LE(std::fabs(decoded[at] - values[at]), std::fabs(other[at] - values[at]) + step)
            << format->name << " bit " << bit << " element " << at;
      }
    }
    EXPECT_GT(tried, 5 * format->block_elements) << format->name << ": codes have several bits each";
  }
}

TEST(Encode, ZerosConstantsAndSpikes) {
  for (const Format* format : encodable()) {
    const std::vector<float> zeros(512, 0.0f);
    for (const float value : decode(*format, encode(*format, zeros), zeros.size())) EXPECT_EQ(value, 0) << format->name;
    std::vector<float> constant(512, -0.37f);
    EXPECT_LT(relative_error(constant, decode(*format, encode(*format, constant), 512)), 0.1) << format->name;
    std::vector<float> spike(512, 0.0f);
    spike[301] = 3.1f;
    const auto decoded = decode(*format, encode(*format, spike), 512);
    EXPECT_LT(relative_error(spike, decoded), 0.07) << format->name;
  }
}

// What no scale can hold must not come back as a number that looks right.
TEST(Encode, WhatIsTooLargeBecomesNoNumber) {
  for (const Format* format : encodable()) {
    const bool narrow_scale = format->name == "f16" || (format->gguf_type >= 0 && format->block_elements > 1);
    if (!narrow_scale || format->name == "mxfp4") continue;  // scales of all others have a float's range
    std::vector<float> values(256, 0.25f);
    values[77] = 3e30f;
    bool finite = true;
    for (const float value : decode(*format, encode(*format, values), 256)) finite &= std::isfinite(value);
    EXPECT_FALSE(finite) << format->name;
  }
}

TEST(Encode, WholeRowsAreBlocksOneByOne) {
  for (const Format* format : encodable()) {
    const auto values = gaussian(format->block_elements * 5, 1, 9);
    const auto row = encode(*format, values);
    for (int block = 0; block < 5; ++block) {
      const auto* begin = values.data() + block * format->block_elements;
      const auto one = encode(*format, {begin, begin + format->block_elements});
      EXPECT_EQ(std::memcmp(one.data(), row.data() + block * format->block_bytes, one.size()), 0) << format->name;
    }
  }
}

}  // namespace
}  // namespace pagoda::quant
