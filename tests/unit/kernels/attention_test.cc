#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include "unit/kernels/attention_harness.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;
using tensor::DType;
using testing::AttentionCase;
using testing::cpu_outputs;
using testing::in_chunks;
using testing::make_sequence;
using testing::reference_outputs;
using testing::relative_error;
using testing::SequenceData;
using testing::Steps;

// Of the largest output, against double precision on the same rounded keys and values. A score near 50 (the capped
// case) has a last place of 4e-6 in float, and so has its weight.
constexpr double kTolerance = 6e-6;

// Of candidates that round queries, keys, weights and values to 8 bits: of the largest output at ordinary scores; a
// score of size s is itself 2^-9 s off.
constexpr double kRoundedTolerance = 0.01;

double tolerance_of(const AttentionKernel& kernel, const AttentionCase& c) {
  if (kernel.arithmetic.name != "bf16_pairs_f32") return kTolerance;
  return kRoundedTolerance * std::max(1.0, c.gain);
}

const std::vector<AttentionCase>& cases() {
  static const std::vector<AttentionCase> all = {
      {.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64},
      {.heads = 4, .kv_heads = 1, .key_dim = 48, .value_dim = 48, .block_size = 32, .window = 13},
      {.heads = 5, .kv_heads = 5, .key_dim = 24, .value_dim = 40, .block_size = 8},
      {.heads = 7, .kv_heads = 1, .key_dim = 20, .value_dim = 36, .block_size = 16, .window = 8},
      {.heads = 3, .kv_heads = 3, .key_dim = 96, .value_dim = 80, .block_size = 256, .dtype = DType::kBf16},
      {.heads = 12, .kv_heads = 3, .key_dim = 32, .value_dim = 112, .block_size = 64, .window = 300, .sinks = true},
      {.heads = 1,
       .kv_heads = 1,
       .key_dim = 17,
       .value_dim = 5,
       .block_size = 8,
       .window = 13,
       .softcap = 5,
       .gain = 8},
      {.heads = 6,
       .kv_heads = 2,
       .key_dim = 128,
       .value_dim = 64,
       .softcap = 50,
       .sinks = true,
       .dtype = DType::kF32,
       .gain = 30},
      {.heads = 4, .kv_heads = 1, .key_dim = 256, .value_dim = 256, .window = 200},
  };
  return all;
}

struct Candidate {
  const AttentionKernel* kernel;
  DeviceCaps caps;
};

/// Every candidate of this machine, with the least set of instructions that has it.
std::vector<Candidate> candidates() {
  std::vector<Candidate> out;
  for (const AttentionKernel& kernel : attention_kernels()) {
    for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
      if (isa > device::detect_isa()) continue;
      const DeviceCaps caps = device::cpu_caps(isa).value();
      const AttentionProblem problem{.layout = {.kv_heads = 1, .key_dim = 16, .value_dim = 16}, .num_heads = 1};
      if (!kernel.supports(problem, caps)) continue;
      out.push_back({&kernel, caps});
      break;
    }
  }
  return out;
}

TEST(Attention, EveryCandidateIsNearTheReference) {
  for (const AttentionCase& c : cases()) {
    const std::vector<SequenceData> data{make_sequence(c, 401, 3), make_sequence(c, 128, 4), make_sequence(c, 129, 5),
                                         make_sequence(c, 1, 6)};
    const auto want = reference_outputs(c, data);
    for (const Candidate& candidate : candidates()) {
      const Steps steps{{{0, 401}, {1, 128}, {2, 129}, {3, 1}}};
      const auto got = cpu_outputs(c, *candidate.kernel, candidate.caps, data, steps);
      EXPECT_LT(relative_error(got, want), tolerance_of(*candidate.kernel, c))
          << candidate.kernel->name << ": " << c.name();
    }
  }
}

// CASES E6: chunks and decode give the bits of the whole prompt, on any pages, threads and batches, captured or not.
TEST(Attention, ARowHasTheSameBitsInEveryChunkBatchAndPage) {
  for (const AttentionCase& c : cases()) {
    const std::vector<SequenceData> one{make_sequence(c, 297, 3)};
    const std::vector<SequenceData> three{one[0], make_sequence(c, 130, 4), make_sequence(c, 61, 5)};
    for (const Candidate& candidate : candidates()) {
      if (candidate.caps.isa == CpuIsa::kPortable && c.key_dim > 64) continue;  // the same code, slowly
      const auto outputs = [&](const std::vector<SequenceData>& data, const Steps& steps,
                               const testing::RunOptions& options) {
        return cpu_outputs(c, *candidate.kernel, candidate.caps, data, steps, options)[0];
      };
      const auto whole = outputs(one, in_chunks(297, 297), {});
      unsigned seed = 2;
      for (const std::int64_t chunk : {1, 3, 16, 17, 64}) {
        const testing::RunOptions options{.page_seed = seed,
                                          .threads = 1 + static_cast<int>(seed % 3),
                                          .captured = seed % 2 == 0,
                                          .padding = static_cast<std::int64_t>(seed % 3)};
        EXPECT_EQ(outputs(one, in_chunks(297, chunk), options), whole)
            << candidate.kernel->name << " in chunks of " << chunk << ": " << c.name();
        ++seed;
      }
      // A decode and a prefill and a row that ends, in one step.
      const Steps mixed{{{0, 200}, {1, 3}}, {{1, 1}, {0, 1}, {2, 60}}, {{2, 1}, {0, 95}, {1, 126}}, {{0, 1}}};
      EXPECT_EQ(outputs(three, mixed, {.page_seed = 9, .threads = 2}), whole) << candidate.kernel->name << c.name();
    }
  }
}

TEST(Attention, CandidatesOfOneArithmeticAgreeBitForBit) {
  int pairs = 0;
  const std::vector<Candidate> all = candidates();
  for (const AttentionCase& c : cases()) {
    const std::vector<SequenceData> data{make_sequence(c, 150, 8)};
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        if (!(all[a].kernel->arithmetic == all[b].kernel->arithmetic)) continue;
        const Steps steps{{{0, 149}}, {{0, 1}}};
        EXPECT_EQ(cpu_outputs(c, *all[a].kernel, all[a].caps, data, steps),
                  cpu_outputs(c, *all[b].kernel, all[b].caps, data, steps))
            << all[a].kernel->name << " and " << all[b].kernel->name << ": " << c.name();
        ++pairs;
      }
    }
  }
  if (device::detect_isa() >= CpuIsa::kAvx512) {
    EXPECT_GT(pairs, 0);
  }
}

// CASES E4: a query sees itself and the w - 1 keys before it; one more or one fewer is told apart.
TEST(Attention, AWindowIsNotOneKeyWiderOrNarrower) {
  AttentionCase c{.heads = 3, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .window = 8};
  for (std::int64_t length = 8; length <= 20; ++length) {
    const std::vector<SequenceData> data{make_sequence(c, length, 11)};
    const auto want = reference_outputs(c, data);
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{5}, length}) {
      const auto got = [&](std::int64_t window) {
        AttentionCase other = c;
        other.window = window;
        const DeviceCaps caps = device::cpu_caps(device::detect_isa()).value();
        return relative_error(
            cpu_outputs(other, testing::attention_named("cpu_portable"), caps, data, in_chunks(length, chunk)), want);
      };
      EXPECT_LT(got(8), kTolerance);
      EXPECT_GT(got(7), 1e-3);
      if (length > 8) {
        EXPECT_GT(got(9), 1e-3);
      }
    }
  }
}

// The reference's own window, by its definition: keys outside it may hold anything.
TEST(Attention, TheReferenceSeesExactlyWKeys) {
  AttentionCase c{.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4, .window = 8, .dtype = DType::kF32};
  SequenceData data = make_sequence(c, 12, 1);
  const auto before = reference_outputs(c, {data});
  const auto last = [](const std::vector<std::vector<double>>& out) {
    return std::vector(out[0].end() - 4, out[0].end());
  };
  for (std::int64_t key = 0; key < 12; ++key) {
    SequenceData changed = data;
    for (std::int64_t i = 0; i < 4; ++i) changed.value[static_cast<std::size_t>(key * 4 + i)] += 1;
    const bool seen = last(reference_outputs(c, {changed})) != last(before);
    EXPECT_EQ(seen, key >= 4) << key;
  }
}

// CASES E11: the capped result is told apart from the uncapped one.
TEST(Attention, ACapIsNotDropped) {
  AttentionCase capped{.heads = 2, .kv_heads = 1, .key_dim = 32, .value_dim = 32, .softcap = 5, .gain = 20};
  AttentionCase plain = capped;
  plain.softcap = 0;
  const std::vector<SequenceData> data{make_sequence(capped, 100, 3)};
  const auto want = reference_outputs(capped, data);
  for (const Candidate& candidate : candidates()) {
    const auto error = [&](const AttentionCase& c) {
      return relative_error(cpu_outputs(c, *candidate.kernel, candidate.caps, data, in_chunks(100, 33)), want);
    };
    EXPECT_LT(error(capped), tolerance_of(*candidate.kernel, capped) / 3);
    EXPECT_GT(error(plain), 0.1);
  }
}

// CASES E10: pages far beyond 2^31 elements apart. Only the touched pages of the sparse memory are ever backed.
TEST(Attention, OffsetsAreSixtyFourBitsWide) {
  AttentionCase c{.heads = 3, .kv_heads = 1, .key_dim = 16, .value_dim = 16};
  const std::vector<SequenceData> data{make_sequence(c, 40, 3)};
  const auto [kernel, caps] = candidates().front();
  const auto low = cpu_outputs(c, *kernel, caps, data, in_chunks(40, 40));
  EXPECT_EQ(testing::outputs_at_huge_stride(c, *kernel, caps, data[0], std::int64_t{3} << 32), low[0]);
}

// The comparison itself: one wrong element, a NaN, and an error of 1e-5 are seen.
TEST(Attention, TheComparisonCanFail) {
  const std::vector<std::vector<double>> want{{1.0, 0.5, -0.25}};
  EXPECT_EQ(relative_error({{1.0f, 0.5f, -0.25f}}, want), 0);
  EXPECT_GT(relative_error({{1.0f, 0.50001f, -0.25f}}, want), kTolerance);
  EXPECT_GT(relative_error({{1.0f, std::nanf(""), -0.25f}}, want), kTolerance);
  EXPECT_GT(relative_error({{1.0f, 0.5f, 0.25f}}, want), 0.1);
}

}  // namespace
}  // namespace pagoda::kernels
