// Benches every candidate of linear on the shapes of two small models, and prints one JSON object a line.
// Usage: linear_bench [THREADS [CANDIDATE]]
//
// Each case has as many copies of its weights as it takes to leave the caches, as decoding does, and each copy's best
// time counts. The ceiling is the larger of bytes over the measured read bandwidth and operations over the measured
// rate of the instruction that multiplies (8-bit dot product or float multiply-add) on as many threads.
#include <immintrin.h>

#include <chrono>
#include <cstdio>
#include <numeric>

#include "device/caps.h"
#include "unit/kernels/linear_cases.h"

namespace {

using namespace pagoda;
using namespace pagoda::kernels;
using namespace pagoda::kernels::testing;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr std::int64_t kSpins = 200000;
constexpr int kChains = 12;

struct Spin {
  std::int64_t* sink;
};

[[gnu::target("avx512f,avx512bw,avx512vnni")]] void spin_dot(const Spin& spin, device::HostRange) {
  __m512i sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i codes = _mm512_set1_epi8(3);
  for (std::int64_t i = 0; i < kSpins; ++i) {
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, codes, codes);
    asm volatile("" : "+v"(codes));
  }
  for (auto& sum : sums) *spin.sink += _mm512_reduce_add_epi32(sum);
}

[[gnu::target("avx512f")]] void spin_fma(const Spin& spin, device::HostRange) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.5f);
  for (std::int64_t i = 0; i < kSpins; ++i) {
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, x, x);
    asm volatile("" : "+v"(x));
  }
  for (auto& sum : sums) *spin.sink += static_cast<std::int64_t>(_mm512_reduce_add_ps(sum));
}

struct Read {
  const std::int64_t* data;
  std::int64_t* sinks;
};

/// A unit is 64 KiB.
[[gnu::target("avx2")]] void read(const Read& params, device::HostRange range) {
  const auto* lines = reinterpret_cast<const __m256i*>(params.data) + range.begin * 2048;
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < (range.end - range.begin) * 2048; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] = _mm256_add_epi64(sums[j], _mm256_loadu_si256(lines + i + j));
  }
  for (auto& sum : sums) params.sinks[range.worker * 8] += _mm256_extract_epi64(sum, 0);
}

struct Ceilings {
  double read_gb_s = 0;
  double dot_gop_s = 0;
  double fma_gop_s = 0;
};

template <class Run>
double best_of(int times, Run&& run) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best;
}

Ceilings measure(device::HostStream& stream) {
  Ceilings ceilings;
  const int workers = stream.num_workers();
  std::vector<std::int64_t> sinks(static_cast<std::size_t>(workers) * 8);
  std::vector<std::int64_t> data(12 << 20, 1);
  const auto units = static_cast<std::int64_t>(data.size() / 8192);
  const Read params{data.data(), sinks.data()};
  ceilings.read_gb_s = static_cast<double>(data.size() * 8) / 1e9 /
                       best_of(40, [&] { stream.launch(&read, params, units, units / workers); });
  if (device::detect_isa() >= device::CpuIsa::kAvx512) {
    const double spins = static_cast<double>(kSpins * kChains * workers) / 1e9;
    const Spin spin{sinks.data()};
    ceilings.dot_gop_s = 128 * spins / best_of(20, [&] { stream.launch(&spin_dot, spin, workers, 1); });
    ceilings.fma_gop_s = 32 * spins / best_of(20, [&] { stream.launch(&spin_fma, spin, workers, 1); });
  }
  return ceilings;
}

/// The products of SmolLM2-135M Q4_1 and of Gemma 3 270M Q4_K_M, and one of each of the other kinds.
const Case kCases[] = {
    {{"q4_1", "q4_1", "q4_1"}, {576, 192, 192}, 576, 0, false},
    {{"q4_1"}, {576}, 576, 0, false},
    {{"q4_1", "q4_1"}, {1536, 1536}, 576, 0, false},
    {{"q4_1"}, {576}, 1536, 0, false},
    {{"q8_0"}, {49152}, 576, 0, false},
    {{"q5_0", "q5_0", "q8_0"}, {1024, 256, 256}, 640, 0, false},
    {{"q4_k"}, {640}, 1024, 0, false},
    {{"q5_0", "q5_0"}, {2048, 2048}, 640, 0, false},
    {{"q4_k"}, {640}, 2048, 0, false},
    {{"q6_k"}, {640}, 2048, 0, false},
    {{"bf16"}, {2048}, 2048, 0, false},
    {{"q3_k"}, {2048}, 2048, 0, false},
};

void bench(const Case& test, const LinearKernel& kernel, Precision precision, device::HostStream& stream,
           const Ceilings& ceilings) {
  const LinearProblem problem = problem_of(test, kernel, precision);
  if (!kernel.supports(problem, caps_of(kernel, device::detect_isa()))) return;
  std::size_t bytes = 0;
  double ops = 0;
  for (const LinearWeightSpec& spec : problem.specs()) {
    bytes += spec.layout->packed_bytes(*spec.format, {spec.n, test.k});
    ops += 2.0 * static_cast<double>(spec.n * test.k * test.m);
  }
  const int copies =
      test.m > 16 ? 1 : static_cast<int>(std::clamp<std::size_t>((std::size_t{96} << 20) / bytes, 1, 60));
  std::vector<Prepared> steps;
  for (int copy = 0; copy < copies; ++copy) steps.emplace_back(test, kernel, precision, device::detect_isa());
  const std::vector<float> x = activations(test.m, test.k, Activations::kNormal, 3);
  std::vector<double> bests(steps.size(), 1e9);
  const double until = now() + 0.5;
  for (int round = 0; round < 3 || now() < until; ++round) {
    for (std::size_t i = 0; i < steps.size(); ++i) bests[i] = std::min(bests[i], steps[i].time(x, stream));
  }
  const double seconds = std::accumulate(bests.begin(), bests.end(), 0.0) / copies;
  const bool int8 = kernel.name.find("int8") != std::string_view::npos;
  const double rate = int8 ? ceilings.dot_gop_s : ceilings.fma_gop_s;
  const double bound = std::max(static_cast<double>(bytes) / 1e9 / ceilings.read_gb_s, rate > 0 ? ops / 1e9 / rate : 0);
  std::printf(
      "{\"op\": \"linear\", \"candidate\": \"%s\", \"case\": \"%s %s\", \"threads\": %d, \"us\": %.2f, "
      "\"bytes\": %zu, \"flops\": %.0f, \"gb_s\": %.2f, \"tflop_s\": %.4f, \"ceiling_share\": %.3f}\n",
      kernel.name.data(), test.name().c_str(), to_string(precision).data(), stream.num_workers(), seconds * 1e6, bytes,
      ops, static_cast<double>(bytes) / seconds / 1e9, ops / seconds / 1e12, bound / seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : ThreadPool::default_threads();
  ThreadPool pool(std::max(threads, 1));
  device::HostStream stream(pool);
  const Ceilings ceilings = measure(stream);
  std::printf(
      "{\"op\": \"ceiling\", \"threads\": %d, \"read_gb_s\": %.1f, \"int8_gop_s\": %.1f, \"f32_gop_s\": %.1f}\n",
      stream.num_workers(), ceilings.read_gb_s, ceilings.dot_gop_s, ceilings.fma_gop_s);
  for (const LinearKernel* kernel : linear_kernels()) {
    if (kernel->name == "reference" || kernel->name.starts_with("cuda") || (argc > 2 && kernel->name != argv[2]))
      continue;
    const bool generic = kernel->name.find("generic") != std::string_view::npos;
    for (Case test : kCases) {
      if (generic && argc <= 2 && test.formats[0] != "q3_k") continue;  // the others have better candidates
      for (std::int64_t m : {1, 4, 16, 512}) {
        if (m > 4 && test.n[0] > 40000) continue;
        test.m = m;
        for (Precision precision : {Precision::kStandard, Precision::kHigh}) {
          const quant::Format& format = *quant::find_format("q4_1");
          const bool same =
              kernel->arithmetic(Precision::kHigh, format) == kernel->arithmetic(Precision::kStandard, format);
          if (precision == Precision::kStandard || !same) bench(test, *kernel, precision, stream, ceilings);
        }
      }
    }
  }
  return 0;
}
