// wgmma_tiles and wgmma_columns, the products of 17 and more rows from mma16 weights on sm_90a: against double at odd
// sizes, a broken input shown to fail; then all products of a step at several batches as one graph, and single products
// beside cuBLASLt (which wants rows, so that an engine with one copy of its weights has to unpack them first). Ends
// with 1 if a check fails.
//
//   wgmma_tiles_check [check | products | time | columns]
//
// `columns`: checks of wgmma_columns, and steps of 17 to 256 rows with its shapes in place of each product's.
#include "device/cuda/blas.h"
#include "wgmma_tiles.h"

namespace pagoda::bench {
namespace {

struct Case {
  std::int64_t m, n, k;
  int epilogue;
  int splits = 1;
};

/// `broken`: two elements of one row of the weight in each other's place; the check has to notice.
bool check(GpuBench& bench, Products& products, WgmmaTilesShape shape, const Case& c, bool broken = false) {
  shape.splits = c.splits;
  std::mt19937 random(static_cast<unsigned>(c.m * 7 + c.n));
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
  auto packed = pack_mma16(w0, c.n, c.k);
  if (broken) std::swap(packed[3], packed[200]);
  WgmmaTilesParams p{};
  p.weights[0] = {memory.upload(packed), device_bias, nullptr, c.n, c.n};
  p.weights[1] = {memory.upload(pack_mma16(w1, second, c.k)), nullptr, other, second, second};
  p.weights[0].output = c.epilogue == 2 ? static_cast<void*>(residual) : wide ? static_cast<void*>(sums) : narrow;
  p.num_weights = c.epilogue == 2 ? 1 : 2;
  p.m = c.m;
  p.k = c.k;
  p.split_stride = c.m * c.n;
  p.scale = 0.5f;
  products.launch(shape, c.epilogue, memory.upload(x16), stride, p);

  const auto x = floats_of(x16), f0 = floats_of(w0), f1 = floats_of(w1);
  const auto dot = [&](const std::vector<float>& w, std::int64_t row, std::int64_t token) {
    const float* a = x.data() + token * stride;
    const float* b = w.data() + row * c.k;
    double sum[4] = {};
    for (std::int64_t i = 0; i < c.k; ++i) sum[i % 4] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum[0] + sum[1] + (sum[2] + sum[3]);
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
    for (std::int64_t slice = 0; slice < c.splits; ++slice) {
      for (std::int64_t i = 0; i < count; ++i) {
        total[static_cast<std::size_t>(i)] += all[static_cast<std::size_t>(slice * c.m * c.n + i)];
      }
    }
    return total;
  };
  const auto got = c.epilogue == 1   ? added(sums, c.m * c.n)
                   : c.epilogue == 2 ? memory.download(residual, c.m * c.n)
                                     : floats_of(memory.download(narrow, c.m * c.n));
  const std::string what = pagoda::format("{}{} m {} n {} k {} epilogue {}", broken ? "BROKEN input " : "",
                                          name_of(shape), c.m, c.n, c.k, c.epilogue);
  if (broken) {
    const double error = relative_error(got, want);
    const bool noticed = !(error < 2e-6);
    std::printf("%s %s: relative error %.2e\n", noticed ? "ok  " : "FAIL", what.c_str(), error);
    return noticed;
  }
  bool good = report(what, relative_error(got, want), wide ? 2e-6 : 4e-3);
  if (c.epilogue == 1) good &= report(what + ", second", relative_error(added(other, c.m * second), want_second), 2e-6);
  return good;
}

/// The shapes of a step's products. The norms between them add the slices of the narrow ones.
struct Step {
  WgmmaTilesShape qkv, out, up, down, head;
};

float time_step(GpuBench& bench, Products& products, const AddressRange& range, const Geometry& g, const Step& step,
                std::int64_t m, const char* chosen) {
  std::byte* at = bench.weights();
  std::byte* next = range.data();
  const auto cut = [&](std::int64_t bytes) {
    std::byte* mine = next;
    next += (bytes + 255) / 256 * 256;
    if (next > range.data() + range.mapped_bytes()) std::abort();
    return mine;
  };
  auto* residual = reinterpret_cast<float*>(cut(m * g.hidden * 4));
  auto* norm = reinterpret_cast<float*>(cut(g.hidden * 4));
  std::byte* normed = cut(m * g.hidden * 2);
  std::byte* queries = cut(m * (g.query + 2 * g.kv) * 2);
  std::byte* inner = cut(m * g.ffn * 2);
  auto* partials = reinterpret_cast<float*>(cut(m * g.hidden * 4 * std::max(step.out.splits, step.down.splits)));
  std::byte* logits = cut(m * g.vocab * 4);
  const auto take = [&](std::int64_t n, std::int64_t k) {
    std::byte* mine = at;
    at += n * k * 2;
    return mine;
  };
  const auto params = [&](std::int64_t k, std::initializer_list<std::int64_t> rows, void* output) {
    WgmmaTilesParams p{};
    p.m = m;
    p.k = k;
    p.split_stride = m * g.hidden;
    for (const std::int64_t n : rows) p.weights[p.num_weights++] = {take(n, k), nullptr, output, n, n};
    return p;
  };
  const auto norms = [&](int slices) {
    products.launch_norm({residual, slices > 0 ? partials : nullptr, norm, normed, g.hidden, g.hidden, g.hidden,
                          m * g.hidden, g.hidden, slices, 1.0f, 1e-5f, 0, 1, nullptr},
                         m);
  };
  GraphCapture capture(bench.stream());
  for (int l = 0; l < g.layers; ++l) {
    norms(l == 0 ? 0 : step.down.splits);
    products.launch(step.qkv, 0, normed, g.hidden, params(g.hidden, {g.query, g.kv, g.kv}, queries));
    products.launch(step.out, 1, queries, g.query, params(g.query, {g.hidden}, partials));
    norms(step.out.splits);
    products.launch(step.up, 3, normed, g.hidden, params(g.hidden, {g.ffn, g.ffn}, inner));
    products.launch(step.down, 1, inner, g.ffn, params(g.ffn, {g.hidden}, partials));
  }
  norms(step.down.splits);
  products.launch(step.head, 1, normed, g.hidden, params(g.hidden, {g.vocab}, logits));
  const float ms = bench.time_ms(capture.finish(), 5);
  std::printf(
      "{\"op\": \"linear_wgmma_chain\", \"model\": \"%s\", \"m\": %ld, \"shapes\": \"%s\", \"qkv\": \"%s\", \"out\": "
      "\"%s\", \"up\": \"%s\", \"down\": \"%s\", \"ms\": %.4f, \"tb_s\": %.3f, \"tflops\": %.1f}\n",
      g.name, static_cast<long>(m), chosen, short_name(step.qkv).c_str(), short_name(step.out).c_str(),
      short_name(step.up).c_str(), short_name(step.down).c_str(), static_cast<double>(ms),
      static_cast<double>(g.weight_bytes()) / static_cast<double>(ms) / 1e9,
      static_cast<double>(g.weight_bytes()) * static_cast<double>(m) / static_cast<double>(ms) / 1e9);
  std::fflush(stdout);
  return ms;
}

/// What an engine gets.
Step chosen_step(GpuBench& bench, const Geometry& g, std::int64_t m) {
  const auto choose = [&](std::array<std::int64_t, 3> n, std::int64_t k, int epilogue) {
    return kernels::choose_wgmma_tiles({.m = m, .n = n, .k = k, .epilogue = epilogue, .may_split = epilogue == 1},
                                       bench.num_sms());
  };
  Step chosen{choose({g.query, g.kv, g.kv}, g.hidden, 0), choose({g.hidden}, g.query, 1),
              choose({g.ffn, g.ffn}, g.hidden, 3), choose({g.hidden}, g.ffn, 1), choose({g.vocab}, g.hidden, 1)};
  chosen.head.splits = 1;
  return chosen;
}

/// One product after the other with other shapes, and slices where they may be added later.
void time_steps(GpuBench& bench, Products& products, const AddressRange& range, const Geometry& g, std::int64_t m,
                const Step& base, const std::vector<WgmmaTilesShape>& shapes) {
  time_step(bench, products, range, g, base, m, "base");
  for (WgmmaTilesShape Step::*const product : {&Step::qkv, &Step::out, &Step::up, &Step::down, &Step::head}) {
    const bool may_split = product == &Step::out || product == &Step::down;
    for (const WgmmaTilesShape& shape : shapes) {
      for (const int splits : {1, 2, 3, 4, 6, 8}) {
        if (splits > 1 && !may_split) break;
        // Slices are for what leaves multiprocessors idle, and no more of them than there are.
        const std::int64_t columns = shape.columns() ? shape.block_columns : shape.warpgroups * 64;
        const std::int64_t blocks = g.hidden / columns * ((m + shape.block_tokens - 1) / shape.block_tokens) * splits;
        if (may_split && (blocks < 88 || blocks > 136)) continue;
        Step other = base;
        other.*product = shape;
        (other.*product).splits = splits;
        time_step(bench, products, range, g, other, m, "other");
      }
    }
  }
}

void print_product(const Geometry& g, std::int64_t n, std::int64_t k, std::int64_t m, const std::string& by,
                   double us) {
  std::printf(
      "{\"op\": \"linear\", \"model\": \"%s\", \"n\": %ld, \"k\": %ld, \"m\": %ld, %s, \"us\": %.2f, \"tflops\": "
      "%.1f}\n",
      g.name, static_cast<long>(n), static_cast<long>(k), static_cast<long>(m), by.c_str(), us,
      2e-6 * static_cast<double>(m * n * k) / us);
  std::fflush(stdout);
}

/// A product of (m, k) and (n, k), alone, over copies of the weight that the second-level cache does not hold, long
/// enough for the clocks that the power limit leaves: about 30 ms a replay. `x_zero`: of an input that costs no power.
void time_product(GpuBench& bench, Products& products, const std::shared_ptr<const Blas>& blas, const Geometry& g,
                  std::int64_t n, std::int64_t k, std::int64_t m, int epilogue,
                  const std::vector<WgmmaTilesShape>& shapes, bool x_zero = false) {
  std::byte* const weights = bench.weights();
  std::mt19937 random(1);
  const std::int64_t some = std::min<std::int64_t>(m * k, 1 << 20);
  Cutter memory(bench, (m * k + m * n * 2) * 2 + (40 << 20));
  auto* x = memory.take<std::uint16_t>(m * k);
  const auto* piece =
      memory.upload(x_zero ? std::vector<std::uint16_t>(static_cast<std::size_t>(some)) : random_bf16(random, some));
  for (std::int64_t i = 0; i < m * k; i += some) {
    const auto bytes = static_cast<std::size_t>(std::min(some, m * k - i) * 2);
    bench.context().driver().check(bench.context().api().copy_on_device_async(reinterpret_cast<DeviceAddress>(x + i),
                                                                              reinterpret_cast<DeviceAddress>(piece),
                                                                              bytes, bench.stream().handle()),
                                   "filling");
  }
  auto* y = memory.take<float>(m * n);
  auto* workspace = memory.take<std::byte>(32 << 20);
  const std::int64_t distinct = std::min<std::int64_t>(std::max<std::int64_t>(2, (300 << 20) / (n * k * 2)),
                                                       (std::int64_t{17} << 30) / (n * k * 2));
  const std::int64_t times = std::max<std::int64_t>(
      distinct,
      static_cast<std::int64_t>(30e-3 * 700e12 / (2.0 * static_cast<double>(m) * static_cast<double>(n * k))));
  const auto each = [&](const Graph& graph) {
    return static_cast<double>(bench.time_ms(graph, 5)) * 1e3 / static_cast<double>(times);
  };
  const char* const note = x_zero ? ", zeros" : "";
  {
    const BlasPlan plan = must(BlasPlan::prepare(
        blas, {.m = m, .n = n, .k = k, .input_stride = k, .weight_stride = k, .output_stride = n}, 32 << 20));
    GraphCapture by_blas(bench.stream());
    for (std::int64_t i = 0; i < times; ++i) {
      plan.launch(bench.stream(), x, weights + i % distinct * n * k * 2, y, workspace);
    }
    print_product(g, n, k, m, "\"by\": \"" + plan.algorithm() + note + "\"", each(by_blas.finish()));
  }
  const bool gated = epilogue >= 3;
  for (const WgmmaTilesShape& shape : shapes) {
    GraphCapture capture(bench.stream());
    for (std::int64_t i = 0; i < times; ++i) {
      WgmmaTilesParams p{};
      std::byte* const mine = weights + i % distinct * n * k * 2;
      const std::int64_t rows = gated ? n / 2 : n;
      p.weights[0] = {mine, nullptr, y, rows, rows};
      p.weights[1] = {mine + rows * k * 2, nullptr, y, rows, rows};
      p.num_weights = gated ? 2 : 1;
      p.m = m;
      p.k = k;
      p.scale = 1;
      products.launch(shape, epilogue, x, k, p);
    }
    static constexpr const char* kEpilogues[] = {"", ", float", ", residual", ", gated", ", gated"};
    print_product(g, n, k, m,
                  std::string("\"by\": \"wgmma_tiles") + kEpilogues[epilogue] + note + "\", " + name_of(shape),
                  each(capture.finish()));
  }
}

int run(const std::string& what) {
  GpuBench bench;
  Products products(bench);
  const std::vector<WgmmaTilesShape> checked = {{1, 16, 4},        {1, 64, 4},        {2, 128, 2},     {2, 256, 2},
                                                {1, 256, 2},       {1, 48, 2},        {2, 96, 2},      {2, 32, 4},
                                                {2, 256, 2, 1, 2}, {2, 192, 2, 1, 2}, {1, 64, 4, 1, 2}};
  const std::vector<WgmmaTilesShape> columns = {
      columns_shape(64, 96),   columns_shape(64, 128),  columns_shape(64, 160),  columns_shape(64, 192),
      columns_shape(64, 224),  columns_shape(64, 256),  columns_shape(256, 96),  columns_shape(256, 128),
      columns_shape(256, 160), columns_shape(128, 96),  columns_shape(128, 128), columns_shape(128, 160),
      columns_shape(128, 192), columns_shape(128, 224), columns_shape(128, 256)};
  const std::vector<WgmmaTilesShape> large = {
      {2, 256, 2, 1, 1}, {2, 256, 2, 1, 2}, {2, 192, 2, 1, 1}, {2, 192, 2, 1, 2}};
  std::vector<device::CompileUnit> units = {products.norm_unit()};
  if (what.empty() || what == "check") {
    for (const auto& shape : checked) {
      for (const int epilogue : {0, 1, 2, 3, 4}) units.push_back(products.unit(shape, epilogue));
    }
  }
  if (what.empty() || what == "time") {
    for (const int tokens : {16, 32, 64, 128, 256}) {
      for (const WgmmaTilesShape& shape :
           {WgmmaTilesShape{1, tokens, 2}, WgmmaTilesShape{1, tokens, 4}, WgmmaTilesShape{2, tokens, 2}}) {
        if (tokens > 128 && shape.stage_turns == 4) continue;
        for (const int epilogue : {0, 1, 3}) units.push_back(products.unit(shape, epilogue));
      }
    }
  }
  if (what != "check") {
    for (const auto& shape : large) {
      for (const int epilogue : {0, 2, 3}) units.push_back(products.unit(shape, epilogue));
    }
  }
  if (what == "columns") {
    for (const WgmmaTilesShape& shape : columns) {
      for (const int epilogue : {0, 1, 2, 3}) units.push_back(products.unit(shape, epilogue));
    }
    for (const int tokens : {32, 64}) {
      for (const WgmmaTilesShape& shape : {WgmmaTilesShape{1, tokens, 4}, WgmmaTilesShape{2, tokens, 2}}) {
        for (const int epilogue : {0, 1, 3}) units.push_back(products.unit(shape, epilogue));
      }
    }
    for (const WgmmaTilesShape& shape : {WgmmaTilesShape{2, 128, 2}, {2, 256, 2}, {1, 128, 4}, {1, 256, 2}}) {
      for (const int epilogue : {0, 1, 3}) units.push_back(products.unit(shape, epilogue));
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  bench.compile(units);
  std::printf("compiled %zu units\n", units.size());
  bool good = true;
  for (std::size_t i = 0; (what.empty() || what == "check") && i < checked.size(); ++i) {
    for (const Case& c : {Case{17, 100, 1208, 0}, Case{33, 516, 576, 1}, Case{1, 100, 200, 1}, Case{100, 2500, 1208, 2},
                          Case{257, 516, 1208, 0}, Case{257, 100, 576, 3}, Case{33, 2500, 200, 4},
                          Case{300, 72, 1208, 1, 4}, Case{33, 100, 200, 1, 3}, Case{70, 2500, 1208, 3}}) {
      good &= check(bench, products, checked[i], c);
    }
    if (i < 2) good &= check(bench, products, checked[i], {17, 100, 200, 1}, true);
  }
  for (std::size_t i = 0; what == "columns" && i < columns.size(); ++i) {
    for (const Case& c : {Case{65, 100, 1208, 0}, Case{257, 516, 576, 1}, Case{100, 500, 1208, 2},
                          Case{257, 100, 576, 3}, Case{300, 72, 1208, 1, 4}}) {
      good &= check(bench, products, columns[i], c);
    }
    if (i == 0) good &= check(bench, products, columns[i], {65, 100, 200, 1}, true);
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (what == "check") return good ? 0 : 1;
  if (what == "columns") {
    const AddressRange range = bench.memory(std::int64_t{512} << 20);
    bench.set_bytes(range, 0x3c);
    const Geometry& four = kGeometries[1];
    for (const int m : {256, 128}) {
      std::vector<WgmmaTilesShape> others = {{2, 128, 2}, {1, m, m == 128 ? 4 : 2}, {2, m, 2}};
      for (const WgmmaTilesShape& shape : columns) {
        if (shape.block_tokens == m || (m == 256 && shape.block_tokens == 128)) others.push_back(shape);
      }
      time_steps(bench, products, range, four, m, chosen_step(bench, four, m), others);
    }
    for (const std::int64_t m : {64, 32, 17}) {
      // What was chosen from wgmma_tiles alone.
      const int tokens = m == 17 ? 32 : static_cast<int>(m);
      const WgmmaTilesShape wide{2, tokens, 2}, narrow{1, tokens, 4};
      Step base{narrow, narrow, narrow, narrow, narrow};
      base.out.splits = base.down.splits = 3;
      time_step(bench, products, range, four, base, m, "before");
      time_steps(bench, products, range, four, m, chosen_step(bench, four, m),
                 {wide, narrow, columns_shape(64, 96), columns_shape(64, 128), columns_shape(64, 160),
                  columns_shape(64, 192), columns_shape(64, 224), columns_shape(64, 256)});
      time_step(bench, products, range, four, base, m, "before");
      time_step(bench, products, range, four, chosen_step(bench, four, m), m, "chosen");
    }
    return good ? 0 : 1;
  }
  const auto blas = must(Blas::load(bench.context_ptr()));
  const Geometry &four = kGeometries[1], &eight = kGeometries[2];
  for (const std::int64_t m : {2048, 4096, 512}) {
    time_product(bench, products, blas, eight, 2 * eight.ffn, eight.hidden, m, 3, large);
    if (m == 4096) continue;
    time_product(bench, products, blas, eight, eight.hidden, eight.ffn, m, 2, large);
    time_product(bench, products, blas, eight, eight.query + 2 * eight.kv, eight.hidden, m, 0, large);
    time_product(bench, products, blas, eight, eight.hidden, eight.query, m, 2, large);
    time_product(bench, products, blas, four, four.hidden, four.query, m, 2, large);
  }
  time_product(bench, products, blas, eight, 2 * eight.ffn, eight.hidden, 2048, 3, {large[0], large[1]}, true);
  if (what == "products") return good ? 0 : 1;
  const AddressRange range = bench.memory(std::int64_t{512} << 20);
  bench.set_bytes(range, 0x3c);
  for (const std::int64_t m : {64, 16, 128, 256, 32}) {
    for (const Geometry& g : {four, eight}) {
      const Step chosen = chosen_step(bench, g, m);
      const int tokens =
          chosen.up.columns() ? static_cast<int>(std::min<std::int64_t>(m, 256)) : chosen.up.block_tokens;
      time_steps(bench, products, range, g, m, chosen,
                 {{1, tokens, 2}, {1, tokens, tokens > 128 ? 2 : 4}, {2, tokens, 2}});
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) { return pagoda::bench::run(argc > 1 ? argv[1] : ""); }
