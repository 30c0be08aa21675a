#include "kernels/qkv_postprocess/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/checked.h"

namespace pagoda::kernels {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double llama3_frequency(const RopeSpec& spec, double frequency) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength < spec.original_context / spec.high_freq_factor) return frequency;
  if (wavelength > spec.original_context / spec.low_freq_factor) return frequency / spec.factor;
  const double smooth =
      (spec.original_context / wavelength - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
  return (1 - smooth) * frequency / spec.factor + smooth * frequency;
}

/// The pair (as a real number) that turns `rotations` times within the original context.
double yarn_pair(const RopeSpec& spec, double rotations) {
  const auto dim = static_cast<double>(spec.rotary_dim);
  return dim * std::log(spec.original_context / (rotations * kTwoPi)) / (2 * std::log(spec.theta));
}

/// 1 where a frequency is divided by `factor`, 0 where it is kept, a ramp between.
double yarn_interpolation(const RopeSpec& spec, std::int64_t pair) {
  double low = yarn_pair(spec, spec.beta_fast);
  double high = yarn_pair(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.rotary_dim - 1));
  if (low == high) high += 0.001;  // no division by zero
  return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
}

double yarn_magnitude(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1; }

void fill_row(double* row, const std::vector<double>& frequencies, double position, double magnitude) {
  const std::size_t pairs = frequencies.size();
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    row[pair] = std::cos(position * frequencies[pair]) * magnitude;
    row[pairs + pair] = std::sin(position * frequencies[pair]) * magnitude;
  }
}

}  // namespace

std::vector<double> rope_inverse_frequencies(const RopeSpec& spec) {
  std::vector<double> frequencies(static_cast<std::size_t>(spec.num_pairs()));
  const auto base_dim = static_cast<double>(spec.pairing_dim());
  for (std::int64_t pair = 0; pair < spec.num_pairs(); ++pair) {
    double frequency = std::pow(spec.theta, -2 * static_cast<double>(pair) / base_dim);
    if (spec.kind == RopeKind::kLinear) frequency /= spec.factor;
    if (spec.kind == RopeKind::kLlama3) frequency = llama3_frequency(spec, frequency);
    if (spec.kind == RopeKind::kYarn) {
      const double interpolated = yarn_interpolation(spec, pair);
      frequency = frequency / spec.factor * interpolated + frequency * (1 - interpolated);
    }
    const auto index = static_cast<std::size_t>(pair);
    if (spec.kind == RopeKind::kLongrope) frequency /= spec.pair_factors[index];
    if (!spec.frequency_divisors.empty()) frequency /= spec.frequency_divisors[index];
    frequencies[index] = frequency;
  }
  return frequencies;
}

double rope_attention_factor(const RopeSpec& spec) {
  if (spec.kind != RopeKind::kYarn && spec.kind != RopeKind::kLongrope) return 1;
  if (spec.attention_factor != 0) return spec.attention_factor;
  if (spec.mscale != 0 && spec.mscale_all_dim != 0) {
    return yarn_magnitude(spec.factor, spec.mscale) / yarn_magnitude(spec.factor, spec.mscale_all_dim);
  }
  return yarn_magnitude(spec.factor, 1);
}

RopeTable::RopeTable(const RopeSpec& spec, std::int64_t max_positions)
    : spec_(spec), pairs_(spec.num_pairs()), max_positions_(max_positions) {
  PAGODA_CHECK(spec.rotary_dim % 2 == 0 && spec.rotary_dim <= spec.head_dim && max_positions >= 0,
               "rotary_dim {}, head_dim {}, positions {}", spec.rotary_dim, spec.head_dim, max_positions);
  PAGODA_CHECK(spec.kind != RopeKind::kLongrope || std::ssize(spec.pair_factors) == pairs_, "{} factors for {} pairs",
               spec.pair_factors.size(), pairs_);
  PAGODA_CHECK(spec.frequency_divisors.empty() || std::ssize(spec.frequency_divisors) == pairs_,
               "{} divisors for {} pairs", spec.frequency_divisors.size(), pairs_);
  const std::vector<double> frequencies = rope_inverse_frequencies(spec);
  const double magnitude = rope_attention_factor(spec);
  const std::int64_t steps = ceil_div(max_positions, kStep);
  low_.resize(static_cast<std::size_t>(kStep * 2 * pairs_));
  high_.resize(static_cast<std::size_t>(steps * 2 * pairs_));
  for (std::int64_t i = 0; i < kStep; ++i) {
    fill_row(low_.data() + i * 2 * pairs_, frequencies, static_cast<double>(i), 1);
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    fill_row(high_.data() + i * 2 * pairs_, frequencies, static_cast<double>(i * kStep), magnitude);
  }
}

std::vector<float> RopeTable::rows() const {
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(max_positions_ * pairs_ * 2));
  for (std::int64_t position = 0; position < max_positions_; ++position) {
    for (std::int64_t pair = 0; pair < pairs_; ++pair) {
      const Rotation rotation = at(position, pair);
      rows.push_back(static_cast<float>(rotation.cosine));
      rows.push_back(static_cast<float>(rotation.sine));
    }
  }
  return rows;
}

}  // namespace pagoda::kernels
