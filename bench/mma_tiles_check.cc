// mma_tiles, the product of many rows from mma16 weights: against double at odd sizes, then against cuBLASLt (weights
// row by row) at the shapes of two geometries, both on random data. Ends with 1 if a check fails.
#include "device/cuda/blas.h"
#include "gpu_bench.h"
#include "kernels/linear/cuda_mma_tiles.h"

namespace pagoda::bench {
namespace {

using kernels::MmaTilesParams;

struct Variant {
  int block_tokens, stages;
};

device::CompileUnit unit_of(const GpuBench& bench, const Variant& v, int epilogue) {
  return bench.unit("kernels/linear/cuda_mma_tiles.cu",
                    {pagoda::format("BLOCK_TOKENS={}", v.block_tokens), pagoda::format("STAGES={}", v.stages),
                     pagoda::format("EPILOGUE={}", epilogue)});
}

void launch(GpuBench& bench, const Variant& v, int epilogue, const MmaTilesParams& p, bool programmatic = false) {
  const bool gated = epilogue >= 3;
  std::int64_t tiles = 0;
  for (int i = 0; i < (gated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
  const std::int64_t block_tiles = kernels::kMmaTilesBlockTiles / (gated ? 2 : 1);
  const auto shared = static_cast<std::uint32_t>(kernels::mma_tiles_shared_bytes(v.block_tokens, v.stages));
  const auto kernel = bench.kernel<MmaTilesParams>(unit_of(bench, v, epilogue), "mma_tiles");
  kernel.allow_shared_bytes(shared);
  kernel.launch(bench.stream(),
                {.grid = {.x = static_cast<std::uint32_t>((p.m + v.block_tokens - 1) / v.block_tokens),
                          .y = static_cast<std::uint32_t>((tiles + block_tiles - 1) / block_tiles),
                          .z = static_cast<std::uint32_t>(p.splits)},
                 .block = {.x = 256},
                 .shared_bytes = shared,
                 .programmatic = programmatic},
                p);
}

struct Case {
  std::int64_t m, n, k;
  int epilogue, splits;
};

bool check(GpuBench& bench, const Variant& v, const Case& c) {
  std::mt19937 random(static_cast<unsigned>(c.m + c.n));
  const bool gated = c.epilogue >= 3;
  const std::int64_t second = gated ? c.n : 24;  // rows of the second weight
  const std::int64_t stride = c.k + 8;
  const auto x16 = random_bf16(random, c.m * stride), w0 = random_bf16(random, c.n * c.k, 0.1f),
             w1 = random_bf16(random, second * c.k, 0.1f);
  const auto before = random_floats(random, c.m * c.n), bias = random_floats(random, c.n);
  Cutter memory(bench, 64 << 20);
  auto* residual = memory.upload(before);
  auto* sums = memory.take<float>(c.splits * c.m * c.n);
  auto* narrow = memory.take<std::uint16_t>(c.m * c.n);
  auto* other = memory.take<float>(c.splits * c.m * c.n);
  const auto* device_bias = memory.upload(bias);
  const bool wide = c.epilogue == 1 || c.epilogue == 2;
  MmaTilesParams p{};
  p.weights[0] = {memory.upload(pack_mma16(w0, c.n, c.k)), device_bias, nullptr, c.n, c.n};
  p.weights[1] = {memory.upload(pack_mma16(w1, second, c.k)), nullptr, other, second, second};
  p.weights[0].output = c.epilogue == 2 ? static_cast<void*>(residual) : wide ? static_cast<void*>(sums) : narrow;
  p.num_weights = c.epilogue == 2 ? 1 : 2;
  p.input = memory.upload(x16);
  p.input_stride = stride;
  p.m = c.m;
  p.k = c.k;
  p.splits = c.splits;
  p.split_stride = c.m * c.n;
  p.scale = 0.5f;
  launch(bench, v, c.epilogue, p);

  const auto x = floats_of(x16), f0 = floats_of(w0), f1 = floats_of(w1);
  const auto dot = [&](const std::vector<float>& w, std::int64_t row, std::int64_t token) {
    double sum = 0;
    for (std::int64_t i = 0; i < c.k; ++i) {
      sum += static_cast<double>(x[static_cast<std::size_t>(token * stride + i)]) *
             static_cast<double>(w[static_cast<std::size_t>(row * c.k + i)]);
    }
    return sum;
  };
  std::vector<double> want, want_second;
  for (std::int64_t t = 0; t < c.m; ++t) {
    for (std::int64_t r = 0; r < c.n; ++r) {
      const double a = dot(f0, r, t) + static_cast<double>(bias[static_cast<std::size_t>(r)]);
      const double b = gated ? dot(f1, r, t) : 0;
      if (c.epilogue < 2) want.push_back(a);
      if (c.epilogue == 2) want.push_back(static_cast<double>(before[static_cast<std::size_t>(t * c.n + r)]) + 0.5 * a);
      if (c.epilogue == 3) want.push_back(a / (1 + std::exp(-a)) * b);
      if (c.epilogue == 4) want.push_back(0.5 * a * (1 + std::tanh(0.7978845608 * (a + 0.044715 * a * a * a))) * b);
    }
    for (std::int64_t r = 0; c.epilogue == 1 && r < second; ++r) want_second.push_back(dot(f1, r, t));
  }
  const auto added = [&](const float* from, std::int64_t count) {
    const auto all = memory.download(from, (c.splits - 1) * c.m * c.n + count);
    std::vector<float> total(static_cast<std::size_t>(count));
    for (std::int64_t s = 0; s < c.splits; ++s) {
      for (std::int64_t i = 0; i < count; ++i) {
        total[static_cast<std::size_t>(i)] += all[static_cast<std::size_t>(s * c.m * c.n + i)];
      }
    }
    return total;
  };
  const auto got = c.epilogue == 1   ? added(sums, c.m * c.n)
                   : c.epilogue == 2 ? memory.download(residual, c.m * c.n)
                                     : floats_of(memory.download(narrow, c.m * c.n));
  const std::string what = pagoda::format("tiles tokens {} m {} n {} k {} epilogue {} splits {}", v.block_tokens, c.m,
                                          c.n, c.k, c.epilogue, c.splits);
  bool good = report(what, relative_error(got, want), wide ? 2e-6 : 4e-3);
  if (c.epilogue == 1) good &= report(what + ", second", relative_error(added(other, c.m * second), want_second), 2e-6);
  return good;
}

void time(GpuBench& bench, const std::shared_ptr<const Blas>& blas, const Geometry& g, std::int64_t n, std::int64_t k,
          std::int64_t m) {
  std::byte* const weights = bench.weights();
  std::mt19937 random(1);
  Cutter memory(bench, (m * k + m * n) * 2 + (64 << 20));
  const auto* x = memory.upload(random_bf16(random, m * k));
  auto* y = memory.take<std::uint16_t>(m * n);
  auto* workspace = memory.take<std::byte>(32 << 20);
  const std::int64_t copies = std::max<std::int64_t>(2, (300 << 20) / (n * k * 2));
  const BlasPlan plan = must(BlasPlan::prepare(
      blas, {.m = m, .n = n, .k = k, .input_stride = k, .weight_stride = k, .output_stride = n}, 32 << 20));
  const auto print = [&](const std::string& by, float ms) {
    const double us = static_cast<double>(ms) * 1e3 / static_cast<double>(copies);
    std::printf(
        "{\"op\": \"linear\", \"model\": \"%s\", \"n\": %ld, \"k\": %ld, \"m\": %ld, \"by\": \"%s\", \"us\": %.2f, "
        "\"tflops\": %.1f}\n",
        g.name, static_cast<long>(n), static_cast<long>(k), static_cast<long>(m), by.c_str(), us,
        2e-6 * static_cast<double>(m * n * k) / us);
    std::fflush(stdout);
  };
  GraphCapture by_blas(bench.stream());
  for (std::int64_t i = 0; i < copies; ++i) plan.launch(bench.stream(), x, weights + i * n * k * 2, y, workspace);
  print(plan.algorithm(), bench.time_ms(by_blas.finish(), 7));
  for (const Variant& v : {Variant{64, 5}, Variant{128, 4}, Variant{256, 4}}) {
    if (v.block_tokens > 2 * m && v.block_tokens > 64) continue;
    GraphCapture by_tiles(bench.stream());
    for (std::int64_t i = 0; i < copies; ++i) {
      MmaTilesParams p{};
      p.weights[0] = {weights + i * n * k * 2, nullptr, y, n, n};
      p.num_weights = p.splits = 1;
      p.input = x;
      p.input_stride = p.k = k;
      p.m = m;
      launch(bench, v, 0, p);
    }
    print(pagoda::format("mma_tiles of {} rows", v.block_tokens), bench.time_ms(by_tiles.finish(), 7));
  }
}

int run() {
  GpuBench bench;
  const std::vector<Variant> variants = {{64, 5}, {128, 4}, {256, 4}};
  std::vector<device::CompileUnit> units;
  for (const Variant& v : variants) {
    for (const int epilogue : {0, 1, 2, 3, 4}) units.push_back(unit_of(bench, v, epilogue));
  }
  bench.compile(units);
  bool good = true;
  for (const Variant& v : variants) {
    for (const Case& c :
         {Case{37, 200, 72, 0, 1}, Case{300, 328, 456, 0, 1}, Case{300, 328, 456, 1, 1}, Case{70, 136, 1032, 1, 3},
          Case{9, 40, 2056, 1, 4}, Case{133, 328, 456, 2, 1}, Case{133, 344, 200, 3, 1}, Case{65, 72, 456, 4, 1}}) {
      good &= check(bench, v, c);
    }
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (!good) return 1;
  const auto blas = must(Blas::load(bench.context_ptr()));
  for (const Geometry& g : {kGeometries[1], kGeometries[2]}) {
    for (const std::int64_t m : {16, 64, 256, 2048}) {
      time(bench, blas, g, g.query + 2 * g.kv, g.hidden, m);
      time(bench, blas, g, g.hidden, g.query, m);
      time(bench, blas, g, 2 * g.ffn, g.hidden, m);
      time(bench, blas, g, g.hidden, g.ffn, m);
    }
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main() { return pagoda::bench::run(); }
