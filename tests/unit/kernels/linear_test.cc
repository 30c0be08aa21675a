// The case table of linear: every candidate that this machine runs, against the reference in double.
#include <gtest/gtest.h>

#include <algorithm>

#include <map>

#include "linear_cases.h"

namespace pagoda::kernels {
namespace {

using namespace pagoda::kernels::testing;

const LinearKernel& reference() {
  const auto all = linear_kernels();
  return **std::ranges::find_if(all, [](const LinearKernel* kernel) { return kernel->name == "reference"; });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::int64_t widths[] = {1, 5, 17, 33, 100};
  const std::int64_t blocks[] = {1, 5, 18, 20};
  const std::int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 64, 129};
  std::size_t turn = 0;
  for (const quant::Format* format : quant::all_formats()) {
    const std::string name(format->name);
    const bool wide = format->block_elements == 256;
    for (std::int64_t m : rows) {
      // Those of checkpoints' blocks are many, and alike but for what `decode` says.
      if (format->gguf_type < 0 && m != 1 && m != 4 && m != 9 && m != 17 && m != 33) continue;
      // Sizes take turns: every format meets every m, and over the formats all combinations come up.
      const std::int64_t n = widths[turn % 5];
      std::int64_t k = format->block_elements * blocks[turn % 4];
      if (wide && m > 17) k = format->block_elements * 3;
      if (format->block_elements == 1) k = 1 + (turn * 37) % 1200;
      all.push_back({{name}, {n}, k, m, turn % 3 == 0});
      ++turn;
    }
  }
  all.push_back({{"q4_1", "q4_1", "q4_1"}, {576, 192, 192}, 576, 19, false});
  all.push_back({{"q5_0", "q5_0", "q8_0"}, {100, 33, 17}, 640, 7, true});
  all.push_back({{"q4_k", "q6_k"}, {33, 49}, 2048, 11, false});
  all.push_back({{"q4_1"}, {40}, 1536, 65, false});
  all.push_back({{"q2_k", "q8_0", "f32"}, {20, 5, 9}, 512, 3, true});
  return all;
}

/// Those that differ: only int8 candidates ask for the precision.
std::vector<Precision> precisions(const LinearKernel& kernel) {
  const quant::Format& format = *quant::find_format("q4_1");
  const bool same = kernel.arithmetic(Precision::kStandard, format) == kernel.arithmetic(Precision::kHigh, format);
  return same ? std::vector{Precision::kStandard} : std::vector{Precision::kStandard, Precision::kHigh};
}

/// Calls `visit(case, kernel, precision)` for each case and each candidate but the reference that supports it here.
template <class Visit>
void each_candidate(const std::vector<Case>& table, Visit&& visit) {
  const device::CpuIsa isa = device::detect_isa();
  for (const Case& test : table) {
    for (const LinearKernel* kernel : linear_kernels()) {
      if (kernel == &reference()) continue;
      for (Precision precision : precisions(*kernel)) {
        if (!kernel->supports(problem_of(test, *kernel, precision), caps_of(*kernel, isa))) continue;
        SCOPED_TRACE(::testing::Message() << test.name() << " " << kernel->name << " " << to_string(precision));
        visit(test, *kernel, precision);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

bool rounds_to_int8(const LinearKernel& kernel) { return kernel.name.find("int8") != std::string_view::npos; }

/// Errors over ‖w‖·‖x‖: 8-bit codes of groups of 32 leave about amax/440 an element; 16-bit ones 1/257 of
/// that. The worst of thousands of rows of one group are 7.1e-3 and 3.1e-5.
double tolerance(const LinearKernel& kernel, Precision precision, Activations kind) {
  if (!rounds_to_int8(kernel) || kind != Activations::kNormal) return 2e-6;
  return precision == Precision::kStandard ? 8e-3 : 3.5e-5;
}

TEST(Linear, EveryCandidateMatchesTheReference) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  for (const Case& test : cases()) {
    const Prepared truth(test, reference(), Precision::kExact, device::CpuIsa::kPortable);
    std::map<Activations, std::vector<float>> inputs;
    std::map<Activations, std::vector<double>> wanted;
    for (Activations kind : {Activations::kNormal, Activations::kExactInt8, Activations::kExactInt16}) {
      inputs[kind] = activations(test.m, test.k, kind, 5);
      wanted[kind] = truth.run(widen(inputs[kind]), stream);
    }
    each_candidate({test}, [&](const Case&, const LinearKernel& kernel, Precision precision) {
      const Prepared step(test, kernel, precision, device::detect_isa());
      const Activations exact = precision == Precision::kHigh ? Activations::kExactInt16 : Activations::kExactInt8;
      for (Activations kind : {Activations::kNormal, exact}) {
        const std::vector<float>& x = inputs[kind];
        const std::vector<float> got = step.run(x, stream);
        ASSERT_LE(worst_error(got, wanted[kind], x, truth, test), tolerance(kernel, precision, kind))
            << static_cast<int>(kind);
        const std::vector<float> replayed = step.run(x, stream, true);
        ASSERT_EQ(std::memcmp(got.data(), replayed.data(), got.size() * sizeof(float)), 0) << "in a graph";
      }
    });
    if (HasFatalFailure()) return;
  }
}

TEST(Linear, TheComparisonFailsOnOneWrongWeight) {
  ThreadPool pool(1);
  device::HostStream stream(pool);
  const std::vector<Case> table = {{{"q4_1"}, {33}, 576, 7, false}, {{"q8_0"}, {17}, 640, 3, false}};
  each_candidate(table, [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const Prepared truth(test, reference(), Precision::kExact, device::CpuIsa::kPortable);
    const Prepared step(test, kernel, precision, device::detect_isa());
    const std::vector<float> x = activations(test.m, test.k, Activations::kExactInt8, 5);
    std::vector<double> broken = widen(x);
    broken[static_cast<std::size_t>(test.k) + 70] += 1;  // one column of one row, by the smallest step
    const std::vector<double> want = truth.run(broken, stream);
    ASSERT_GT(worst_error(step.run(x, stream), want, x, truth, test), 2e-6);
  });
}

/// Rows [first, first + count) of x alone.
std::vector<float> slice(const std::vector<float>& x, std::int64_t k, std::int64_t first, std::int64_t count) {
  return {x.begin() + first * k, x.begin() + (first + count) * k};
}

TEST(Linear, ARowsBitsDependOnThatRowAlone) {
  std::vector<Case> table;
  for (const quant::Format* format : quant::all_formats()) {
    const std::int64_t k = format->block_elements == 256 ? 768 : format->block_elements == 1 ? 1043 : 576 + 32 * 5;
    table.push_back({{std::string(format->name)}, {49}, k, 67, true});
  }
  table.push_back({{"q5_0", "q5_0", "q8_0"}, {100, 33, 17}, 640, 40, false});
  each_candidate(table, [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const Prepared step(test, kernel, precision, device::detect_isa());
    const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 9);
    ThreadPool one(1);
    device::HostStream stream_of_one(one);
    const std::vector<float> whole = step.run(x, stream_of_one);
    const std::size_t width = whole.size() / static_cast<std::size_t>(test.m);
    const auto expect_rows = [&](std::int64_t first, std::int64_t count, device::HostStream& stream) {
      const std::vector<float> part = step.run(slice(x, test.k, first, count), stream);
      ASSERT_EQ(
          std::memcmp(part.data(), whole.data() + static_cast<std::size_t>(first) * width, part.size() * sizeof(float)),
          0)
          << "rows " << first << " + " << count << ", workers " << stream.num_workers();
    };
    for (int threads : {1, 2, 3}) {
      ThreadPool pool(threads, false);
      device::HostStream stream(pool);
      for (std::int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33}) {
        expect_rows((test.m - count) * threads / 3, count, stream);
      }
      expect_rows(0, test.m, stream);
    }
  });
}

TEST(Linear, CandidatesOfOneArithmeticAgreeToTheBit) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  std::size_t pairs = 0;
  each_candidate(cases(), [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const auto tags_of = [&](const LinearKernel& of) {
      std::vector<std::string_view> tags;
      for (const std::string& name : test.formats)
        tags.push_back(of.arithmetic(precision, *quant::find_format(name)).name);
      return tags;
    };
    for (const LinearKernel* other : linear_kernels()) {
      if (other == &kernel || other == &reference()) continue;
      if (!other->supports(problem_of(test, *other, precision), caps_of(*other, device::detect_isa()))) continue;
      if (tags_of(*other) != tags_of(kernel)) continue;
      const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 8);
      const Prepared a(test, kernel, precision, device::detect_isa());
      const Prepared b(test, *other, precision, device::detect_isa());
      const std::vector<float> got = a.run(x, stream), same = b.run(x, stream);
      ASSERT_EQ(std::memcmp(got.data(), same.data(), got.size() * sizeof(float)), 0) << other->name;
      ++pairs;
    }
  });
  if (device::detect_isa() >= device::CpuIsa::kAvx512) {
    EXPECT_GT(pairs, 0u);
  }
}

TEST(Linear, WhatIsNotFiniteStaysInItsRow) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  const std::vector<Case> table = {{{"q4_1"}, {33}, 576, 9, false},  {{"q6_k"}, {17}, 512, 7, false},
                                   {{"f32"}, {17}, 77, 7, true},     {{"q8_0"}, {5}, 160, 70, false},
                                   {{"bf16"}, {18}, 131, 70, false}, {{"fp8_e4m3"}, {18}, 131, 7, false},
                                   {{"mxfp8"}, {17}, 96, 7, false}};
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  each_candidate(table, [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const Prepared step(test, kernel, precision, device::detect_isa());
    const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 5);
    const std::vector<float> clean = step.run(x, stream);
    const std::size_t width = clean.size() / static_cast<std::size_t>(test.m);
    for (float value : bad) {
      std::vector<float> poisoned = x;
      poisoned[static_cast<std::size_t>(test.k) * 3 + 50] = value;
      const std::vector<float> got = step.run(poisoned, stream);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i % width == width - 1) continue;
        if (i / width == 3) {
          ASSERT_FALSE(std::isfinite(got[i])) << i;
        } else {
          ASSERT_EQ(got[i], clean[i]) << i;
        }
      }
    }
  });
}

TEST(Linear, ZerosAndTinyInputsGiveTheBias) {
  ThreadPool pool(1);
  device::HostStream stream(pool);
  const std::vector<Case> table = {
      {{"q4_1"}, {33}, 576, 3, true}, {{"q8_0"}, {5}, 160, 2, true}, {{"fp8_e4m3"}, {5}, 160, 2, true}};
  each_candidate(table, [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const Prepared step(test, kernel, precision, device::detect_isa());
    for (float value : {0.0f, -0.0f, 1e-40f, 1e-30f}) {
      const std::vector<float> x(static_cast<std::size_t>(test.m * test.k), value);
      const std::vector<float> got = step.run(x, stream);
      const std::size_t width = got.size() / static_cast<std::size_t>(test.m);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i % width == width - 1) continue;
        ASSERT_FLOAT_EQ(got[i], step.weights()[0].bias[i % width]) << value;
      }
    }
  });
}

/// A power of two changes no digit: neither groups of activations nor codes short of their exponent may lose any.
TEST(Linear, InputsOfAnySizeGiveTheSameDigits) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  const std::vector<Case> table = {{{"fp8_e4m3"}, {35}, 290, 7, false},
                                   {{"fp8_e5m2_g32"}, {17}, 160, 2, false},
                                   {{"mxfp8", "bf16"}, {17, 5}, 96, 3, false},
                                   {{"q6_k"}, {17}, 512, 3, false}};
  each_candidate(table, [&](const Case& test, const LinearKernel& kernel, Precision precision) {
    const Prepared step(test, kernel, precision, device::detect_isa());
    const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 5);
    const std::vector<float> want = step.run(x, stream);
    const std::size_t width = want.size() / static_cast<std::size_t>(test.m);
    for (const int power : {-90, -33, 33, 90}) {
      std::vector<float> scaled = x;
      for (float& value : scaled) value = std::ldexp(value, power);
      const std::vector<float> got = step.run(scaled, stream);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i % width == width - 1) continue;
        ASSERT_EQ(std::ldexp(got[i], -power), want[i]) << i << " at 2^" << power;
      }
    }
  });
}

TEST(Linear, ARowWithACodeThatIsNoNumberIsNoNumber) {
  ThreadPool pool(1);
  device::HostStream stream(pool);
  const std::pair<const char*, int> codes[] = {
      {"fp8_e4m3", 0x7f}, {"fp8_e4m3", 0xff}, {"fp8_e5m2", 0x7c}, {"fp8_e5m2", 0xfe}, {"mxfp8", 0xff}};
  for (const auto& [name, code] : codes) {
    const std::vector<Case> table = {{{name}, {37}, 288, 7, true}};
    const quant::Format& format = *quant::find_format(name);
    each_candidate(table, [&, code = code](const Case& test, const LinearKernel& kernel, Precision precision) {
      const Prepared step(test, kernel, precision, device::detect_isa());
      const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 5);
      const std::vector<float> clean = step.run(x, stream);
      const WeightShape shape{test.n[0], test.k};
      std::vector<std::byte> rows = random_rows(format, shape, 17);
      constexpr std::int64_t kRow = 34;
      const auto last = static_cast<std::size_t>(kRow * format.row_bytes(test.k) + format.row_bytes(256));
      const std::int64_t header = format.block_bytes - format.block_elements;
      rows[last + static_cast<std::size_t>(header) + 31] = static_cast<std::byte>(code);
      const OwnedWeight& weight = step.weights()[0];
      weight.weight.layout->pack(format, shape, 0, shape.n, rows.data(), weight.bytes.data());
      const std::vector<float> got = step.run(x, stream);
      const std::size_t width = clean.size() / static_cast<std::size_t>(test.m);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i % width == kRow) {
          ASSERT_FALSE(std::isfinite(got[i])) << i;
        } else {
          ASSERT_EQ(got[i], clean[i]) << i;
        }
      }
    });
  }
}

TEST(Linear, EachDevicesLastCandidateSupportsEverything) {
  for (const Case& test : cases()) {
    for (auto isa : {device::CpuIsa::kPortable, device::CpuIsa::kAvx2, device::CpuIsa::kAvx512}) {
      LinearProblem problem = problem_of(test, reference(), Precision::kStandard);
      problem.activation = tensor::DType::kF32;
      EXPECT_NE(first_linear_kernel(problem, {device::DeviceKind::kCpu, isa, "test"}), nullptr) << test.name();
      EXPECT_TRUE(problem.weights[0].layout->supports(*problem.weights[0].format));
    }
    LinearProblem exact = problem_of(test, reference(), Precision::kExact);
    EXPECT_EQ(first_linear_kernel(exact, device::reference_caps()), &reference()) << test.name();
  }
}

}  // namespace
}  // namespace pagoda::kernels
