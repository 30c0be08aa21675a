// RoPE's tables against the formulas written out again, and qkv_postprocess against double precision.
#include "kernels/qkv_postprocess/rope.h"

#include <gtest/gtest.h>

#include <numbers>

#include "kernels/qkv_postprocess/qkv_postprocess.h"
#include "unit/kernels/candidate_runs.h"

namespace pagoda::kernels {
namespace {

using tensor::DType;
using tensor::matrix;
using testing::doubles;
using testing::host_candidates;
using testing::largest_relative_error;
using testing::normal_floats;

constexpr std::int64_t kPositions[] = {0, 1000, 8192, 20000};

/// CASES E7: the angle of every pair at every position is position · frequency.
void expect_angles(const RopeSpec& spec, const std::vector<long double>& frequencies, double magnitude) {
  const RopeTable table(spec, 20001);
  ASSERT_EQ(table.num_pairs(), std::ssize(frequencies));
  for (const std::int64_t position : kPositions) {
    for (std::int64_t pair = 0; pair < table.num_pairs(); ++pair) {
      const long double angle = static_cast<long double>(position) * frequencies[static_cast<std::size_t>(pair)];
      const auto [cosine, sine] = table.at(position, pair);
      // 20,000 radians in double precision are good to 4e-12.
      EXPECT_NEAR(cosine, static_cast<double>(cosl(angle)) * magnitude, 2e-11) << position << " " << pair;
      EXPECT_NEAR(sine, static_cast<double>(sinl(angle)) * magnitude, 2e-11) << position << " " << pair;
    }
  }
}

std::vector<long double> plain_frequencies(long double theta, int dim, int pairs) {
  std::vector<long double> out;
  for (int i = 0; i < pairs; ++i) out.push_back(powl(theta, -2.0L * i / dim));
  return out;
}

TEST(Rope, DefaultAndPartial) {
  expect_angles({.theta = 100000, .head_dim = 64, .rotary_dim = 64}, plain_frequencies(100000, 64, 32), 1);
  expect_angles({.theta = 10000, .head_dim = 80, .rotary_dim = 20}, plain_frequencies(10000, 20, 10), 1);
}

TEST(Rope, LinearDividesEveryFrequency) {
  auto frequencies = plain_frequencies(1000000, 256, 128);
  for (auto& frequency : frequencies) frequency /= 8;
  expect_angles({.kind = RopeKind::kLinear, .theta = 1000000, .head_dim = 256, .rotary_dim = 256, .factor = 8},
                frequencies, 1);
}

TEST(Rope, ProportionalTurnsTheFirstPairsOfTheWholeHead) {
  const RopeSpec spec{.kind = RopeKind::kProportional, .theta = 10000, .head_dim = 96, .rotary_dim = 24};
  EXPECT_EQ(spec.pairing_dim(), 96);
  expect_angles(spec, plain_frequencies(10000, 96, 12), 1);
}

TEST(Rope, Llama3KeepsShortWavelengthsAndStretchesLongOnes) {
  const RopeSpec spec{.kind = RopeKind::kLlama3,
                      .theta = 500000,
                      .head_dim = 128,
                      .rotary_dim = 128,
                      .factor = 8,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4,
                      .original_context = 8192};
  auto frequencies = plain_frequencies(500000, 128, 64);
  int kept = 0, stretched = 0;
  for (auto& frequency : frequencies) {
    const long double wavelength = 2 * std::numbers::pi_v<long double> / frequency;
    const long double turns = 8192 / wavelength;
    if (turns > 4) {
      ++kept;
    } else if (turns < 1) {
      frequency /= 8;
      ++stretched;
    } else {
      const long double smooth = (turns - 1) / 3;
      frequency = frequency / 8 * (1 - smooth) + frequency * smooth;
    }
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(stretched, 10);
  EXPECT_LT(kept + stretched, 64);
  expect_angles(spec, frequencies, 1);
}

// The ramp's ends: inside the pairs; the lower below the first; the upper behind the last pair, or even behind the last
// element, to which it is held.
TEST(Rope, YarnMixesByPairAndScalesAttention) {
  for (const auto& [theta, context] : {std::pair(10000.0, 4096), {10000.0, 150}, {10000.0, 131072}, {200.0, 300000}}) {
    RopeSpec spec{.kind = RopeKind::kYarn,
                  .theta = theta,
                  .head_dim = 64,
                  .rotary_dim = 64,
                  .factor = 4,
                  .original_context = static_cast<double>(context)};
    const auto pair_of = [&](long double turns) {
      return 64 * logl(spec.original_context / (turns * 2 * std::numbers::pi_v<long double>)) / (2 * logl(spec.theta));
    };
    for (const bool truncate : {true, false}) {
      spec.truncate = truncate;
      const long double low = std::max(0.0L, truncate ? floorl(pair_of(32)) : pair_of(32));
      const long double high = std::min(63.0L, truncate ? ceill(pair_of(1)) : pair_of(1));
      auto frequencies = plain_frequencies(spec.theta, 64, 32);
      for (int i = 0; i < 32; ++i) {
        const long double ramp = std::min(1.0L, std::max(0.0L, (i - low) / (high - low)));
        auto& frequency = frequencies[static_cast<std::size_t>(i)];
        frequency = frequency * (1 - ramp) + frequency / 4 * ramp;
      }
      expect_angles(spec, frequencies, 0.1 * std::log(4.0) + 1);
    }
  }
}

TEST(Rope, YarnsAttentionFactorIsGivenOrDerived) {
  RopeSpec spec{.kind = RopeKind::kYarn, .head_dim = 64, .rotary_dim = 64, .factor = 40, .original_context = 4096};
  EXPECT_DOUBLE_EQ(rope_attention_factor(spec), 0.1 * std::log(40.0) + 1);
  spec.mscale = 1;
  EXPECT_DOUBLE_EQ(rope_attention_factor(spec), 0.1 * std::log(40.0) + 1);  // one of the pair alone is not enough
  spec.mscale_all_dim = 0.5;
  EXPECT_DOUBLE_EQ(rope_attention_factor(spec), (0.1 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1));
  spec.attention_factor = 1.25;
  EXPECT_DOUBLE_EQ(rope_attention_factor(spec), 1.25);
  spec.attention_factor = 0;
  spec.mscale = 0;
  spec.factor = 0.5;
  EXPECT_DOUBLE_EQ(rope_attention_factor(spec), 1);
}

TEST(Rope, DivisorsOfTheFileComeLast) {
  RopeSpec spec{.theta = 10000, .head_dim = 8, .rotary_dim = 8};
  spec.frequency_divisors = {1, 1, 4, 8};
  auto frequencies = plain_frequencies(10000, 8, 4);
  frequencies[2] /= 4;
  frequencies[3] /= 8;
  expect_angles(spec, frequencies, 1);
}

// A scaling that is not applied is seen at 8192 (and not at 0).
TEST(Rope, ADroppedScalingIsSeen) {
  const RopeSpec plain{.theta = 10000, .head_dim = 64, .rotary_dim = 64};
  RopeSpec scaled = plain;
  scaled.kind = RopeKind::kLinear;
  scaled.factor = 2;
  const RopeTable a(plain, 8193), b(scaled, 8193);
  EXPECT_EQ(a.at(0, 5).cosine, b.at(0, 5).cosine);
  EXPECT_GT(std::fabs(a.at(8192, 5).cosine - b.at(8192, 5).cosine), 0.01);
}

struct QkvCase {
  std::int64_t heads, kv_heads, key_dim, value_dim, rotary_dim;
  QkvNorm norm;
  RopeKind kind;
  RopePairing pairing;
};

constexpr QkvCase kQkvCases[] = {
    {9, 3, 64, 64, 64, QkvNorm::kNone, RopeKind::kDefault, RopePairing::kInterleaved},
    {4, 1, 256, 256, 256, QkvNorm::kQueryKey, RopeKind::kDefault, RopePairing::kHalfSplit},
    {5, 5, 20, 12, 12, QkvNorm::kAll, RopeKind::kDefault, RopePairing::kHalfSplit},
    {7, 1, 36, 8, 10, QkvNorm::kQueryKey, RopeKind::kDefault, RopePairing::kInterleaved},
    {3, 1, 96, 40, 24, QkvNorm::kNone, RopeKind::kProportional, RopePairing::kHalfSplit},
    {2, 1, 600, 16, 600, QkvNorm::kNone, RopeKind::kDefault, RopePairing::kHalfSplit},
    {2, 2, 16, 16, 16, QkvNorm::kAll, RopeKind::kNone, RopePairing::kHalfSplit},
};

struct Qkv {
  std::vector<double> query, key, value;
};

/// The definition, one head after the other.
void process_by_hand(std::vector<double>& x, std::int64_t heads, std::int64_t dim, const std::vector<float>* norm,
                     bool normed, const RopeSpec* rope, std::int64_t position) {
  for (std::int64_t head = 0; head < heads; ++head) {
    double* v = x.data() + head * dim;
    if (normed) {
      double squares = 0;
      for (std::int64_t i = 0; i < dim; ++i) squares += v[i] * v[i];
      const double root = std::sqrt(squares / static_cast<double>(dim) + 1e-6);
      for (std::int64_t i = 0; i < dim; ++i) {
        v[i] = v[i] / root * (norm != nullptr ? (*norm)[static_cast<std::size_t>(i)] + 1.0 : 1.0);
      }
    }
    if (rope == nullptr) continue;
    const auto frequencies = rope_inverse_frequencies(*rope);
    for (std::int64_t pair = 0; pair < rope->num_pairs(); ++pair) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(pair)];
      const bool neighbours = rope->pairing == RopePairing::kInterleaved;
      const std::int64_t a = neighbours ? 2 * pair : pair;
      const std::int64_t b = neighbours ? 2 * pair + 1 : pair + rope->pairing_dim() / 2;
      const double first = v[a], second = v[b];
      v[a] = first * std::cos(angle) - second * std::sin(angle);
      v[b] = second * std::cos(angle) + first * std::sin(angle);
    }
  }
}

template <class T>
Qkv run(const QkvCase& c, const QkvPostprocessKernel& kernel, const device::DeviceCaps& caps,
        const std::vector<std::int64_t>& positions, const std::vector<float>& norm) {
  const auto tokens = std::ssize(positions);
  const QkvPostprocessProblem problem{
      .activation = tensor::dtype_of<T>(),
      .num_heads = c.heads,
      .num_kv_heads = c.kv_heads,
      .key_dim = c.key_dim,
      .value_dim = c.value_dim,
      .norm = c.norm,
      .weight_shift = 1,
      .rope = {.kind = c.kind, .pairing = c.pairing, .head_dim = c.key_dim, .rotary_dim = c.rotary_dim}};
  const auto make = [&](std::int64_t width, unsigned seed) {
    const auto floats = normal_floats(tokens * width, seed);
    return std::vector<T>(floats.begin(), floats.end());
  };
  auto query = make(c.heads * c.key_dim, 1);
  auto key = make(c.kv_heads * c.key_dim, 2);
  auto value = make(c.kv_heads * c.value_dim, 3);
  const auto table = std::make_shared<RopeTable>(problem.rope, 9000);
  device::HostDevice device(caps);
  const auto step = kernel.prepare(problem, {norm.data(), norm.data(), table}, device).value();
  ThreadPool pool(2, false);
  device::HostStream stream(pool);
  step.launch({matrix(query.data(), tokens, c.heads * c.key_dim), matrix(key.data(), tokens, c.kv_heads * c.key_dim),
               matrix(value.data(), tokens, c.kv_heads * c.value_dim), positions.data()},
              stream);
  return {{query.begin(), query.end()}, {key.begin(), key.end()}, {value.begin(), value.end()}};
}

Qkv by_hand(const QkvCase& c, const std::vector<std::int64_t>& positions, const std::vector<float>& norm) {
  const RopeSpec rope{.kind = c.kind, .pairing = c.pairing, .head_dim = c.key_dim, .rotary_dim = c.rotary_dim};
  const auto process = [&](std::int64_t heads, std::int64_t dim, unsigned seed, bool is_value) {
    const auto floats = normal_floats(std::ssize(positions) * heads * dim, seed);
    std::vector<double> all;
    for (std::size_t token = 0; token < positions.size(); ++token) {
      const auto begin = floats.begin() + static_cast<std::ptrdiff_t>(token) * heads * dim;
      std::vector<double> one(begin, begin + heads * dim);
      const bool normed = is_value ? c.norm == QkvNorm::kAll : c.norm != QkvNorm::kNone;
      process_by_hand(one, heads, dim, is_value ? nullptr : &norm, normed,
                      is_value || c.kind == RopeKind::kNone ? nullptr : &rope, positions[token]);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  return {process(c.heads, c.key_dim, 1, false), process(c.kv_heads, c.key_dim, 2, false),
          process(c.kv_heads, c.value_dim, 3, true)};
}

TEST(QkvPostprocess, EveryCandidateIsTheDefinition) {
  const std::vector<std::int64_t> positions{0, 1, 63, 64, 8191, 5};
  for (const QkvCase& c : kQkvCases) {
    const std::vector<float> norm = normal_floats(c.key_dim, 9);
    const Qkv want = by_hand(c, positions, norm);
    const auto near = [&](const Qkv& got, double limit, std::string_view name) {
      EXPECT_LT(largest_relative_error(got.query, want.query, 1), limit) << name << " " << c.key_dim;
      EXPECT_LT(largest_relative_error(got.key, want.key, 1), limit) << name << " " << c.key_dim;
      EXPECT_LT(largest_relative_error(got.value, want.value, 1), limit) << name << " " << c.key_dim;
    };
    for (const QkvPostprocessKernel& kernel : qkv_postprocess_kernels()) {
      if (kernel.name != "reference") continue;
      near(run<double>(c, kernel, device::reference_caps(), positions, norm), 1e-11, "reference");
    }
    for (const auto& [kernel, caps] : host_candidates(qkv_postprocess_kernels(), QkvPostprocessProblem{})) {
      near(run<float>(c, *kernel, caps, positions, norm), 1e-6, kernel->name);
    }
  }
}

TEST(QkvPostprocess, ATokensBitsDoNotDependOnItsNeighbours) {
  for (const QkvCase& c : kQkvCases) {
    const std::vector<float> norm = normal_floats(c.key_dim, 9);
    for (const auto& [kernel, caps] : host_candidates(qkv_postprocess_kernels(), QkvPostprocessProblem{})) {
      const Qkv alone = run<float>(c, *kernel, caps, {777}, norm);
      const Qkv many = run<float>(c, *kernel, caps, std::vector<std::int64_t>(70, 777), norm);
      EXPECT_TRUE(std::equal(alone.query.begin(), alone.query.end(), many.query.begin())) << kernel->name;
      EXPECT_TRUE(std::equal(alone.key.begin(), alone.key.end(), many.key.begin())) << kernel->name;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
