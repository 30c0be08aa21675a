// Scales and codes for a few values, by least squares over a few candidates.
//
// A candidate gives each value its nearest code; for these codes the best scale (or scale and offset) has a closed
// form. The candidate with the least squared error wins. Sums run in one order: the same values make the same bytes
// anywhere.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/numbers.h"

namespace pagoda::quant {

/// The nearest whole number, ties to even, of a value within ±2^22: its unit is then the last bit of the sum.
inline float nearest(float value) {
  constexpr float kUnits = 0x1.8p23f;
  return (value + kUnits) - kUnits;
}

/// The nearest code in [least, most] of value / scale, given 1 / scale (0 for a scale of 0).
inline int nearest_code(float value, float inverse, int least, int most) {
  return static_cast<int>(nearest(std::clamp(value * inverse, static_cast<float>(least), static_cast<float>(most))));
}

/// 1 / scale; 0 for 0, and for what is so small that its inverse is no number.
inline float inverse_of(float scale) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  return std::isfinite(inverse) ? inverse : 0;
}

/// The value as f16 stores it. One beyond its range becomes an infinity, which whoever checks the block sees.
inline float as_f16(float value) { return f16_to_float(float_to_f16(value)); }

/// The element that is largest in magnitude, with its sign.
template <int kCount>
float largest(const float* values) {
  float found = 0;
  for (int i = 0; i < kCount; ++i) {
    if (std::fabs(values[i]) > std::fabs(found)) found = values[i];
  }
  return found;
}

/// The scale of w = scale·code with codes in [least, most], least < 0 < most.
template <int kCount>
float fit_scale(const float* values, int least, int most) {
  const float peak = largest<kCount>(values);
  if (peak == 0) return 0;
  float best_scale = peak / static_cast<float>(least);
  float best_gain = -1;
  // The peak at the wider end, a little beyond it (where it is cut off) and below it; then at the other end.
  const auto lowest = static_cast<float>(least), highest = static_cast<float>(most);
  for (const float end : {lowest, lowest - 0.35f, lowest - 0.7f, lowest + 0.35f, lowest + 0.7f, highest,
                          highest + 0.35f, highest + 0.7f, highest - 0.35f}) {
    const float inverse = inverse_of(peak / end);
    float products = 0;
    float squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const float code = nearest(std::clamp(values[i] * inverse, lowest, highest));
      products += values[i] * code;
      squares += code * code;
    }
    if (squares == 0) continue;
    const float gain = products / squares * products;  // by how much the squared error is below that of zeros
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = products / squares;
    }
  }
  return best_scale;
}

struct Line {
  float scale = 0;
  float offset = 0;
};

/// w = scale·code + offset with codes in [0, most] and scale ≥ 0. `offset_below_zero`: the format has no offset above
/// 0.
template <int kCount>
Line fit_line(const float* values, int most, bool offset_below_zero) {
  float low = values[0];
  float high = values[0];
  float sum = 0;
  for (int i = 0; i < kCount; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
    sum += values[i];
  }
  if (offset_below_zero) low = std::min(low, 0.0f);
  Line best{.scale = (high - low) / static_cast<float>(most), .offset = low};
  if (high <= low) return {.scale = 0, .offset = low};
  float best_error = HUGE_VALF;
  constexpr float kCountAsFloat = kCount;
  // Codes spread over the whole range, then over less of it, on both sides alike.
  for (const float cut : {0.0f, 0.15f, 0.3f, 0.45f, 0.6f, 0.8f, 1.0f}) {
    const float span = static_cast<float>(most) + cut;
    const float inverse = inverse_of((high - low) / span);
    const float shift = 0.5f * cut;
    float codes = 0, squares = 0, products = 0;
    for (int i = 0; i < kCount; ++i) {
      const float code = nearest(std::clamp((values[i] - low) * inverse - shift, 0.0f, static_cast<float>(most)));
      codes += code;
      squares += code * code;
      products += code * values[i];
    }
    const float determinant = kCountAsFloat * squares - codes * codes;
    if (determinant <= 0) continue;
    Line line{.scale = (kCountAsFloat * products - codes * sum) / determinant,
              .offset = (squares * sum - codes * products) / determinant};
    if (offset_below_zero && line.offset > 0) line = {.scale = products / squares, .offset = 0};
    if (!(line.scale > 0)) continue;
    const float code_of_one = inverse_of(line.scale);
    float error = 0;
    for (int i = 0; i < kCount; ++i) {
      const float code = nearest(std::clamp((values[i] - line.offset) * code_of_one, 0.0f, static_cast<float>(most)));
      const float difference = line.scale * code + line.offset - values[i];
      error += difference * difference;
    }
    if (error < best_error) {
      best_error = error;
      best = line;
    }
  }
  return best;
}

/// Codes 0 … kSize - 1 that stand for values of a table in ascending order.
template <int kSize>
struct CodeBook {
  std::array<float, kSize> values{};

  int nearest_code(float value) const {
    int code = 0;
    for (int i = 0; i + 1 < kSize; ++i) code += value > 0.5f * (values[i] + values[i + 1]) ? 1 : 0;
    return code;
  }

  /// The scale of w = scale·values[code], as fit_scale.
  template <int kCount>
  float fit_scale(const float* of) const {
    const float peak = largest<kCount>(of);
    if (peak == 0) return 0;
    float best_scale = peak / values[0];
    float best_gain = -1;
    for (const float end : {values[0], values[kSize - 1]}) {
      for (const float stretch : {1.0f, 1.05f, 1.1f, 0.95f, 0.9f, 0.85f}) {
        const float inverse = inverse_of(peak / (end * stretch));
        float products = 0;
        float squares = 0;
        for (int i = 0; i < kCount; ++i) {
          const float value = values[static_cast<std::size_t>(nearest_code(of[i] * inverse))];
          products += of[i] * value;
          squares += value * value;
        }
        const float gain = squares == 0 ? -1 : products / squares * products;
        if (gain > best_gain) {
          best_gain = gain;
          best_scale = products / squares;
        }
      }
    }
    return best_scale;
  }
};

}  // namespace pagoda::quant
