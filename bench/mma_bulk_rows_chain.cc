// How fast a decode step's products run on a GPU when they stand alone: all layers of a geometry as one graph of
// mma_bulk_rows kernels (and norms), with weights of their own, against the bytes they read. First checks the kernels
// against double. Prints one JSON line a variant.
//
//   mma_bulk_rows_chain [check]
#include "gpu_bench.h"
#include "kernels/linear/cuda_mma_bulk_rows.h"
#include "kernels/linear/cuda_product_parts.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::bench {
namespace {

using kernels::CudaRmsNormParams;
using kernels::MmaBulkRowsParams;

struct Variant {
  int token_tiles, warps, stage_turns, release;
  int norms;  // kernels: 0 none, the products norm; 1 before every product of the residual; 2 only after down
  int out_splits, down_splits;
  int blocks_per_sm;
  int shared_kib;  // of a block
  int window = 0;  // 0: all
  bool programmatic = true;
};

class Chain {
 public:
  explicit Chain(GpuBench& bench) : bench_(bench) {}

  device::CompileUnit unit(const Variant& v, bool norm, int epilogue) const {
    return bench_.unit("kernels/linear/cuda_mma_bulk_rows.cu",
                       {pagoda::format("TOKEN_TILES={}", v.token_tiles), pagoda::format("WARPS={}", v.warps),
                        pagoda::format("STAGE_TURNS={}", v.stage_turns), pagoda::format("RELEASE={}", v.release),
                        pagoda::format("NORM={}", norm ? 1 : 0), pagoda::format("EPILOGUE={}", epilogue)});
  }
  device::CompileUnit norm_unit() const {
    return bench_.unit("kernels/rms_norm/cuda_rms_norm.cu", {"THREADS=1024", "OUTPUT=0"});
  }
  std::vector<device::CompileUnit> units(const Variant& v) const {
    if (v.norms == 2) return {unit(v, false, 0), unit(v, false, 2), unit(v, true, 3), unit(v, false, 1), norm_unit()};
    if (v.norms == 1) return {unit(v, false, 0), unit(v, false, 1), unit(v, false, 3), norm_unit()};
    return {unit(v, true, 0), unit(v, false, 2), unit(v, true, 3), unit(v, true, 1)};
  }
  void launch(const Variant& v, bool norm, int epilogue, MmaBulkRowsParams p) {
    const auto kernel = bench_.kernel<MmaBulkRowsParams>(unit(v, norm, epilogue), "mma_bulk_rows");
    const int sets = epilogue >= 3 ? 2 : 1;
    std::int64_t tiles = 0;
    for (int i = 0; i < (sets == 2 ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
    const std::int64_t stage = kernels::mma_bulk_rows_stage_bytes(v.stage_turns, sets);
    const std::int64_t fixed = kernels::mma_bulk_rows_fixed_bytes(p.k, p.m, p.splits, v.warps, sets, v.token_tiles);
    p.stages =
        static_cast<int>(std::clamp<std::int64_t>((std::int64_t{v.shared_kib} * 1024 - 1024 - fixed) / stage, 2, 32));
    p.window = v.window > 0 ? std::min(v.window, p.stages) : p.stages;
    const std::int64_t blocks = std::min<std::int64_t>(
        tiles * p.splits, std::int64_t{v.blocks_per_sm} * bench_.context().caps().num_sms / p.splits * p.splits);
    if (v.window > 0) kernels::set_windows(p, tiles, blocks / p.splits, v.window);
    const LaunchConfig config{.grid = {.x = static_cast<std::uint32_t>(blocks)},
                              .block = {.x = static_cast<std::uint32_t>(v.warps * 32 + 32)},
                              .shared_bytes = static_cast<std::uint32_t>(p.stages * stage + fixed),
                              .programmatic = v.programmatic};
    fits_ = fits_ && config.shared_bytes + 1024 <= bench_.context().caps().shared_bytes_per_block;
    if (!fits_) return;
    if (config.shared_bytes > 48 * 1024) kernel.allow_shared_bytes(config.shared_bytes);
    kernel.launch(bench_.stream(), config, p);
  }

  void launch_norm(const CudaRmsNormParams& p, int m, bool programmatic) {
    const auto kernel = bench_.kernel<CudaRmsNormParams>(norm_unit(), "rms_norm");
    kernel.launch(bench_.stream(),
                  {.grid = {.x = static_cast<std::uint32_t>(m)},
                   .block = {.x = 1024},
                   .shared_bytes = static_cast<std::uint32_t>(p.hidden * 4),
                   .programmatic = programmatic},
                  p);
  }

  void time(const Geometry& g, const Variant& v, int m) {
    std::byte* at = bench_.weights();
    const AddressRange scratch_range = bench_.memory(64 << 20);
    bench_.set_bytes(scratch_range, 0x3c);
    std::byte* scratch = scratch_range.data();
    auto* residual = reinterpret_cast<float*>(scratch);
    auto* norm = reinterpret_cast<float*>(scratch + (4 << 20));
    void* normed = scratch + (8 << 20);
    void* wide = scratch + (12 << 20);
    auto* partials = reinterpret_cast<float*>(scratch + (20 << 20));
    void* logits = scratch + (32 << 20);
    const auto params = [&](const void* input, std::int64_t k, bool normed_here) {
      MmaBulkRowsParams p{};
      p.input = input;
      p.norm = normed_here ? norm : nullptr;
      p.input_stride = p.k = k;
      p.m = m;
      p.num_weights = p.splits = 1;
      p.epsilon = 1e-5f;
      p.scale = 1;
      return p;
    };
    const auto take = [&](std::int64_t n, std::int64_t k) {
      std::byte* mine = at;
      at += n * k * 2;
      return mine;
    };
    const void* x = v.norms > 0 ? normed : residual;
    const auto norms = [&](int slices) {
      launch_norm({.residual = residual,
                   .update = slices > 0 ? partials : nullptr,
                   .weight = norm,
                   .output = normed,
                   .hidden = g.hidden,
                   .residual_stride = g.hidden,
                   .update_stride = g.hidden,
                   .slice_stride = m * g.hidden,
                   .output_stride = g.hidden,
                   .slices = slices,
                   .scale = 1.0f,
                   .epsilon = 1e-5f,
                   .weight_shift = 0,
                   .output_factor = 1,
                   .rows = nullptr},
                  m, v.programmatic);
    };
    const auto narrow = [&](std::int64_t k, int splits, bool summed_later) {
      MmaBulkRowsParams p = params(wide, k, false);
      p.splits = summed_later ? splits : 1;
      p.split_stride = m * g.hidden;
      p.weights[0] = {take(g.hidden, k), nullptr, summed_later ? partials : residual, g.hidden, g.hidden};
      launch(v, false, summed_later ? 1 : 2, p);
    };
    fits_ = true;
    GraphCapture capture(bench_.stream());
    for (int l = 0; l < g.layers; ++l) {
      if (v.norms > 0) norms(l == 0 ? 0 : v.down_splits);
      MmaBulkRowsParams qkv = params(x, g.hidden, v.norms == 0);
      qkv.num_weights = 3;
      const std::int64_t n[3] = {g.query, g.kv, g.kv};
      for (int i = 0; i < 3; ++i) qkv.weights[i] = {take(n[i], g.hidden), nullptr, wide, n[i], n[i]};
      launch(v, v.norms == 0, 0, qkv);
      narrow(g.query, v.out_splits, v.norms == 1);
      if (v.norms == 1) norms(v.out_splits);
      MmaBulkRowsParams up = params(v.norms == 1 ? x : residual, g.hidden, v.norms != 1);
      up.num_weights = 2;
      for (int i = 0; i < 2; ++i) up.weights[i] = {take(g.ffn, g.hidden), nullptr, wide, g.ffn, g.ffn};
      launch(v, v.norms != 1, 3, up);
      narrow(g.ffn, v.down_splits, v.norms > 0);
    }
    if (v.norms > 0) norms(v.down_splits);
    MmaBulkRowsParams last = params(x, g.hidden, v.norms == 0);
    last.weights[0] = {take(g.vocab, g.hidden), nullptr, logits, g.vocab, g.vocab};
    launch(v, v.norms == 0, 1, last);
    if (!fits_) return;
    const Graph graph = capture.finish();
    const float ms = bench_.time_ms(graph);
    std::printf(
        "{\"op\": \"linear_bulk_chain\", \"model\": \"%s\", \"m\": %d, \"warps\": %d, \"stage_turns\": %d, "
        "\"release\": "
        "%d, \"norm_kernels\": %d, \"splits\": [%d, %d], \"blocks\": %d, \"shared_kib\": %d, \"window\": %d, "
        ""
        "\"programmatic\": %s, "
        "\"ms\": %.4f, \"tb_s\": %.3f}\n",
        g.name, m, v.warps, v.stage_turns, v.release, v.norms, v.out_splits, v.down_splits, v.blocks_per_sm,
        v.shared_kib, v.window, v.programmatic ? "true" : "false", static_cast<double>(ms),
        static_cast<double>(g.weight_bytes()) / static_cast<double>(ms) / 1e9);
    std::fflush(stdout);
  }

  /// One product of odd sizes against double, with its norm or before one (`then_norm`), outputs poisoned.
  bool check(const Variant& v, std::int64_t n, std::int64_t k, int m, bool norm, int epilogue, int splits = 1) {
    std::mt19937 random(static_cast<unsigned>(n * 31 + k + m));
    const bool gated = epilogue >= 3;
    const bool then_norm = splits > 1;
    const auto w0 = random_bf16(random, n * k), w1 = random_bf16(random, n * k), x16 = random_bf16(random, m * k);
    const auto xf = floats_of(x16), nw = random_floats(random, std::max(k, n), 1, 0.1f);
    const auto bias = random_floats(random, n, 0, 3), residual = random_floats(random, m * n);
    Cutter memory(bench_, 32 << 20);
    const auto* device_bias = memory.upload(bias);
    auto* device_residual = memory.upload(residual);
    auto* sums = memory.take<float>(splits * m * n);
    auto* narrow = memory.take<std::uint16_t>(m * n);
    MmaBulkRowsParams p{};
    p.weights[0] = {memory.upload(pack_mma16(w0, n, k)), device_bias, nullptr, n, n};
    p.weights[1] = {memory.upload(pack_mma16(w1, n, k)), device_bias, nullptr, n, n};
    p.num_weights = gated ? 2 : 1;
    p.input = norm ? static_cast<const void*>(memory.upload(xf)) : memory.upload(x16);
    p.norm = memory.upload(nw);
    const bool wide = epilogue == 1 || epilogue == 2;
    p.weights[0].output = epilogue == 2 ? static_cast<void*>(device_residual)
                          : wide        ? static_cast<void*>(sums)
                                        : narrow;
    p.input_stride = p.k = k;
    p.m = m;
    p.splits = splits;
    p.split_stride = m * n;
    p.epsilon = 1e-5f;
    p.scale = 0.5f;
    launch(v, norm, epilogue, p);
    if (then_norm) {
      launch_norm({.residual = device_residual,
                   .update = sums,
                   .weight = p.norm,
                   .output = narrow,
                   .hidden = n,
                   .residual_stride = n,
                   .update_stride = n,
                   .slice_stride = m * n,
                   .output_stride = n,
                   .slices = splits,
                   .scale = 0.5f,
                   .epsilon = 1e-5f,
                   .weight_shift = 1.0f,
                   .output_factor = 1,
                   .rows = nullptr},
                  m, v.programmatic);
    }
    const auto got = wide && !then_norm ? memory.download(epilogue == 2 ? device_residual : sums, m * n)
                                        : floats_of(memory.download(narrow, m * n));
    std::vector<double> all;
    for (int t = 0; t < m; ++t) {
      double square = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double x = xf[static_cast<std::size_t>(t * k + i)];
        square += x * x;
      }
      const double factor = 1 / std::sqrt(square / static_cast<double>(k) + 1e-5);
      std::vector<double> wanted(static_cast<std::size_t>(n));
      double after = 0;
      for (std::int64_t r = 0; r < n; ++r) {
        double a = bias[static_cast<std::size_t>(r)], b = a;
        for (std::int64_t i = 0; i < k; ++i) {
          const double x =
              xf[static_cast<std::size_t>(t * k + i)] * (norm ? factor * nw[static_cast<std::size_t>(i)] : 1);
          a += x * bf16_to_float(w0[static_cast<std::size_t>(r * k + i)]);
          if (gated) b += x * bf16_to_float(w1[static_cast<std::size_t>(r * k + i)]);
        }
        double want = a;
        if (epilogue == 2 || then_norm) want = residual[static_cast<std::size_t>(t * n + r)] + 0.5 * a;
        if (epilogue == 3) want = a / (1 + std::exp(-a)) * b;
        if (epilogue == 4) want = 0.5 * a * (1 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) * b;
        wanted[static_cast<std::size_t>(r)] = want;
        after += want * want;
      }
      const double again = 1 / std::sqrt(after / static_cast<double>(n) + 1e-5);
      for (std::int64_t r = 0; r < n; ++r) {
        double want = wanted[static_cast<std::size_t>(r)];
        if (then_norm) want *= again * (nw[static_cast<std::size_t>(r)] + 1);
        all.push_back(want);
      }
    }
    return report(pagoda::format("n {} k {} m {} norm {} epilogue {} splits {}", n, k, m, norm, epilogue, splits),
                  relative_error(got, all), 6e-3);
  }

 private:
  GpuBench& bench_;
  bool fits_ = true;  // what was launched since the last graph
};

int run(bool check_only) {
  GpuBench bench;
  Chain chain(bench);
  struct Timed {
    Variant v;
    int m;
  };
  std::vector<Timed> timed;
  for (const int warps : {8, 16}) {
    for (const int window : {3, 4, 6}) timed.push_back({{1, warps, 16, 1, 0, 1, 1, 1, 226, window}, 1});
    for (const int m : {2, 4, 8}) timed.push_back({{1, warps, 16, 1, 0, 1, 1, 1, 226, 3}, m});
    for (const int m : {4, 8}) timed.push_back({{1, warps, 16, 1, 2, 1, 3, 1, 226, 3}, m});
    for (const int m : {2, 4, 8}) timed.push_back({{1, warps, 16, 1, 1, 1, 3, 1, 226, 3}, m});
  }
  timed.push_back({{1, 8, 16, 0, 0, 1, 1, 1, 113, 3}, 1});
  timed.push_back({{1, 8, 16, 1, 0, 1, 1, 1, 226, 3, false}, 1});
  timed.push_back({{2, 8, 16, 1, 1, 1, 4, 1, 226, 3}, 16});
  timed.push_back({{2, 8, 8, 1, 1, 1, 6, 1, 226, 6}, 16});
  std::vector<device::CompileUnit> units;
  const Variant a{1, 8, 16, 1, 1, 1, 1, 1, 113}, b{1, 4, 8, 2, 1, 1, 1, 2, 56, 2}, c{2, 8, 8, 0, 1, 1, 1, 1, 113, 3};
  for (const Variant& v : {a, b, c}) {
    for (const int epilogue : {0, 1, 2, 3, 4}) {
      for (const bool norm : {false, true}) units.push_back(chain.unit(v, norm, epilogue));
    }
  }
  for (const Timed& t : timed) {
    for (const auto& unit : chain.units(t.v)) units.push_back(unit);
  }
  units.push_back(chain.norm_unit());
  bench.compile(units);
  bool good = true;
  for (const int epilogue : {0, 1, 2, 3, 4}) {
    for (const bool norm : {false, true}) {
      good &= chain.check(a, 100, 200, 1, norm, epilogue);
      good &= chain.check(b, 33, 1032, 7, norm, epilogue);
      good &= chain.check(c, 2500, 576, 13, norm, epilogue);
    }
  }
  good &= chain.check(a, 100, 1208, 3, false, 1, 3);
  good &= chain.check(b, 516, 328, 8, false, 1, 4);
  good &= chain.check(c, 2500, 576, 13, false, 1, 2);
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (check_only || !good) return good ? 0 : 1;
  for (const Geometry& g : kGeometries) {
    for (const Timed& t : timed) chain.time(g, t.v, t.m);
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) { return pagoda::bench::run(argc > 1 && std::string(argv[1]) == "check"); }
