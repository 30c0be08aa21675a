// Benches every host candidate of attention on the shapes of two small models, and prints one JSON object a line.
// Usage: attention_bench [THREADS [CANDIDATE]]
//
// A case has as many layers' pages as a model has, so that a decode step finds them where a real one does; each layer's
// best time counts. The ceiling is the larger of the pages' bytes over the measured read bandwidth and the products
// over the measured rate of the instruction that multiplies (float multiply-add, or bfloat16 dot product).
#include <immintrin.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "base/checked.h"
#include "kernels/attention/attention.h"
#include "kernels/kv_store/kv_store.h"
#include "unit/kernels/candidate_runs.h"
#include "unit/kernels/linear_cases.h"

namespace {

using namespace pagoda;
using namespace pagoda::kernels;
using testing::AlignedBytes;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct AttentionBenchCase {
  const char* name;
  std::int64_t heads, kv_heads, dim, window, layers, start, tokens;
};

constexpr AttentionBenchCase kCases[] = {
    {"9/3 heads of 64, prefill 512", 9, 3, 64, 0, 30, 0, 512},
    {"9/3 heads of 64, prefill 512 after 512", 9, 3, 64, 0, 30, 512, 512},
    {"9/3 heads of 64, decode after 512", 9, 3, 64, 0, 30, 512, 1},
    {"9/3 heads of 64, decode after 2048", 9, 3, 64, 0, 30, 2048, 1},
    {"4/1 heads of 256, window 512, prefill 512", 4, 1, 256, 512, 18, 0, 512},
    {"4/1 heads of 256, window 512, decode after 2048", 4, 1, 256, 512, 18, 2048, 1},
};

struct Spin {
  float* sinks;
};

constexpr int kChains = 12;
constexpr std::int64_t kSpins = 100000;

[[gnu::target("avx512f")]] void spin_fma(const Spin& spin, device::HostRange range) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1);
  __m512 x = _mm512_set1_ps(0.5f);
  for (std::int64_t i = 0; i < kSpins; ++i) {
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, x, x);
    asm volatile("" : "+v"(x));
  }
  for (auto& sum : sums) spin.sinks[range.worker * 16] += _mm512_reduce_add_ps(sum);
}

[[gnu::target("avx512f,avx512bf16")]] void spin_pairs(const Spin& spin, device::HostRange range) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1);
  __m512i x = _mm512_set1_epi32(0x3c003c00);
  for (std::int64_t i = 0; i < kSpins; ++i) {
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(x));
    }
    asm volatile("" : "+v"(x));
  }
  for (auto& sum : sums) spin.sinks[range.worker * 16] += _mm512_reduce_add_ps(sum);
}

struct Read {
  const std::int64_t* data;
  std::int64_t* sinks;
};

/// A unit is 64 KiB.
void read_units(const Read& params, device::HostRange range) {
  std::int64_t total = 0;
  for (std::int64_t i = range.begin * 8192; i < range.end * 8192; ++i) total += params.data[i];
  params.sinks[range.worker * 8] += total;
}

template <class Run>
double best_us(int times, Run&& run) {
  double best = 1e18;
  for (int i = 0; i < times; ++i) {
    const double start = now_us();
    run();
    best = std::min(best, now_us() - start);
  }
  return best;
}

struct Ceilings {
  double read_gb_s = 0, fma_gflop_s = 0, pairs_gflop_s = 0;
};

Ceilings measure(device::HostStream& stream) {
  const std::int64_t workers = stream.num_workers();
  std::vector<std::int64_t> data(12 << 20, 1), sinks(static_cast<std::size_t>(workers) * 8);
  std::vector<float> floats(static_cast<std::size_t>(workers) * 16);
  const std::int64_t units = std::ssize(data) / 8192;
  const auto bytes = static_cast<double>(data.size() * 8);
  const auto spins = static_cast<double>(kSpins * kChains * workers);
  Ceilings out;
  out.read_gb_s = bytes / 1e3 / best_us(20, [&] {
                    stream.launch(&read_units, Read{data.data(), sinks.data()}, units, units / workers);
                  });
  const auto rate = [&](device::HostKernel<Spin> kernel, double flops) {
    return spins * flops / 1e3 / best_us(20, [&] { stream.launch(kernel, Spin{floats.data()}, workers, 1); });
  };
  if (device::detect_isa() >= device::CpuIsa::kAvx512) out.fma_gflop_s = rate(&spin_fma, 32);
  if (device::detect_isa() >= device::CpuIsa::kAvx512Bf16) out.pairs_gflop_s = rate(&spin_pairs, 64);
  return out;
}

/// Keys that all tokens of the case see together.
std::int64_t pairs_of(const AttentionBenchCase& c) {
  std::int64_t pairs = 0;
  for (std::int64_t key = c.start; key < c.start + c.tokens; ++key) {
    pairs += c.window > 0 ? std::min(key + 1, c.window) : key + 1;
  }
  return pairs;
}

/// Microseconds of one layer, its best over the layers and rounds.
double time_case(const AttentionBenchCase& c, const AttentionKernel& kernel, const device::DeviceCaps& caps,
                 device::HostStream& stream) {
  const KvLayout layout{tensor::DType::kF16, 16, c.kv_heads, c.dim, c.dim};
  const AttentionProblem problem{.precision = Precision::kStandard,
                                 .layout = layout,
                                 .num_heads = c.heads,
                                 .scale = 0.125,
                                 .window = c.window,
                                 .max_rows = 1,
                                 .max_context = c.start + c.tokens,
                                 .workers = stream.num_workers()};
  const std::int64_t blocks = ceil_div<std::int64_t>(c.start + c.tokens, 16);
  const std::int64_t bytes = blocks * layout.block_bytes();
  const AlignedBytes pages(static_cast<std::size_t>(bytes * c.layers), 0x21);
  const AlignedBytes scratch(kernel.scratch_bytes(problem, caps));
  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks));
  std::iota(table.rbegin(), table.rend(), 0);
  auto query = testing::normal_floats(c.tokens * c.heads * c.dim, 1);
  auto output = query;
  const std::vector<std::int64_t> offsets{0, c.tokens}, starts{c.start};
  AttentionArgs args{.query = tensor::matrix(query.data(), c.tokens, c.heads * c.dim),
                     .output = tensor::matrix(output.data(), c.tokens, c.heads * c.dim),
                     .step = {c.tokens, 1, nullptr, offsets.data(), starts.data()},
                     .group = {table.data(), blocks, nullptr},
                     .pages = {nullptr, layout.block_bytes()},
                     .scratch = scratch.data()};
  device::HostDevice device(caps);
  const AttentionStep step = kernel.prepare(problem, {}, device).value();
  double best = 1e18;
  for (int round = 0; round < (c.tokens > 1 ? 3 : 20); ++round) {
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      args.pages.data = pages.data() + layer * bytes;
      best = std::min(best, best_us(1, [&] { step.launch(args, stream); }));
    }
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : ThreadPool::default_threads();
  const std::string_view only = argc > 2 ? argv[2] : "";
  ThreadPool pool(threads);
  device::HostStream stream(pool);
  const Ceilings ceilings = measure(stream);
  const std::string device = device::cpu_caps(device::detect_isa()).value().name;
  for (const auto& [kernel, caps] : testing::host_candidates(
           attention_kernels(),
           AttentionProblem{.layout = {.kv_heads = 1, .key_dim = 16, .value_dim = 16}, .num_heads = 1})) {
    if (!only.empty() && kernel->name != only) continue;
    for (const AttentionBenchCase& c : kCases) {
      const double us = time_case(c, *kernel, caps, stream);
      const std::int64_t seen = c.window > 0 ? std::min(c.start + c.tokens, c.window + c.tokens) : c.start + c.tokens;
      const auto bytes = static_cast<double>(seen * c.kv_heads * c.dim * 4);
      const auto flops = static_cast<double>(pairs_of(c) * c.heads * c.dim * 4);
      const bool pairs = kernel->arithmetic.name == "bf16_pairs_f32";
      const double rate = pairs ? ceilings.pairs_gflop_s : ceilings.fma_gflop_s;
      const double floor_us = std::max(bytes / ceilings.read_gb_s / 1e3, rate > 0 ? flops / rate / 1e3 : 0);
      std::printf(
          "{\"op\":\"attention\",\"candidate\":\"%s\",\"case\":\"%s\",\"device\":\"%s, %d threads\",\"us\":%.2f,"
          "\"bytes\":%.0f,\"flops\":%.0f,\"gb_s\":%.2f,\"tflop_s\":%.4f,\"ceiling_share\":%.3f,\"peer\":null,"
          "\"peer_us\":null}\n",
          std::string(kernel->name).c_str(), c.name, device.c_str(), threads, us, bytes, flops, bytes / us / 1e3,
          flops / us / 1e6, floor_us / us);
      std::fflush(stdout);
    }
  }
}
