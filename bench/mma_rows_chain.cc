// How fast a decode step's products run on a GPU when they stand alone: all layers of a geometry as one graph of
// mma_rows kernels, with weights of their own, against the bytes they read. Prints one JSON line a variant.
//
//   mma_rows_chain [check]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "base/numbers.h"
#include "device/cuda/compiler.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "kernels/cuda/embedded.h"
#include "kernels/linear/cuda_mma_rows.h"

namespace pagoda {
namespace {

using namespace device::cuda;
using kernels::MmaRowsParams;

struct Geometry {
  const char* name;
  std::int64_t hidden, query, kv, ffn, vocab;
  int layers;
};
constexpr Geometry kGeometries[] = {{"Llama-3.2-1B", 2048, 2048, 512, 8192, 128256, 16},
                                    {"Qwen3-4B", 2560, 4096, 1024, 9728, 151936, 36},
                                    {"Llama-3.1-8B", 4096, 4096, 1024, 14336, 128256, 32}};

struct Variant {
  int token_tiles, warps, depth, blocks_per_sm;  // blocks 0: one a tile
  bool programmatic;
};

class Bench {
 public:
  Bench(ContextPtr context, std::shared_ptr<Compiler> compiler)
      : context_(context), loader_(context, std::move(compiler)), stream_(context) {}

  Kernel<MmaRowsParams> kernel(const Variant& v, bool norm, int epilogue) {
    const device::CompileUnit unit{
        .source = "kernels/linear/cuda_mma_rows.cu",
        .defines = {pagoda::format("TOKEN_TILES={}", v.token_tiles), pagoda::format("WARPS={}", v.warps),
                    pagoda::format("DEPTH={}", v.depth), pagoda::format("NORM={}", norm ? 1 : 0),
                    pagoda::format("EPILOGUE={}", epilogue)},
        .architecture = context_->caps().architecture()};
    auto made = loader_.kernel<MmaRowsParams>(unit, "mma_rows");
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.error().message.c_str());
      std::exit(1);
    }
    return *made;
  }

  static std::uint32_t shared_bytes(const Variant& v, const MmaRowsParams& p, bool gated) {
    const std::int64_t x = ((p.k * 2 + 127) / 128 * 128 + 64) * p.m;
    const std::int64_t sums = std::int64_t{v.warps} * (gated ? 2 : 1) * 16 * (v.token_tiles * 8 + 1) * 4;
    return static_cast<std::uint32_t>(x + 2 * sums);
  }

  void launch(const Kernel<MmaRowsParams>& kernel, const Variant& v, const MmaRowsParams& p, bool gated) {
    std::int64_t tiles = 0;
    for (int i = 0; i < (gated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
    if (v.blocks_per_sm > 0) {
      tiles = std::min<std::int64_t>(tiles, std::int64_t{v.blocks_per_sm} * context_->caps().num_sms);
    }
    const LaunchConfig config{.grid = {.x = static_cast<std::uint32_t>(tiles)},
                              .block = {.x = static_cast<std::uint32_t>(v.warps * 32)},
                              .shared_bytes = shared_bytes(v, p, gated),
                              .programmatic = v.programmatic};
    if (config.shared_bytes > 48 * 1024) kernel.allow_shared_bytes(config.shared_bytes);
    kernel.launch(stream_, config, p);
  }

  void chain(const Geometry& g, const Variant& v, int m) {
    const std::int64_t layer = (g.query + 2 * g.kv) * g.hidden + g.query * g.hidden + 3 * g.ffn * g.hidden;
    const std::int64_t weights_bytes = 2 * (layer * g.layers + g.vocab * g.hidden);
    auto range = AddressRange::reserve(context_, weights_bytes + (64 << 20));
    if (!range.ok() || !range->map(weights_bytes + (64 << 20)).ok()) std::exit(1);
    context_->driver().check(
        context_->api().set_bytes_async(reinterpret_cast<DeviceAddress>(range->data()), 0x11,
                                        static_cast<std::size_t>(range->mapped_bytes()), stream_.handle()),
        "filling");
    std::byte* scratch = range->data() + weights_bytes;
    auto* residual = reinterpret_cast<float*>(scratch);
    auto* norm = reinterpret_cast<float*>(scratch + (8 << 20));
    void* wide = scratch + (16 << 20);
    void* logits = scratch + (32 << 20);
    const auto in = kernel(v, true, 0), out = kernel(v, false, 2), gate = kernel(v, true, 3), head = kernel(v, true, 1);
    const auto params = [&](const void* input, std::int64_t k, bool normed) {
      MmaRowsParams p{};
      p.input = input;
      p.norm = normed ? norm : nullptr;
      p.input_stride = k;
      p.k = k;
      p.m = m;
      p.epsilon = 1e-5f;
      p.scale = 1;
      return p;
    };
    GraphCapture capture(stream_);
    std::byte* at = range->data();
    const auto take = [&](std::int64_t n, std::int64_t k) {
      std::byte* mine = at;
      at += n * k * 2;
      return mine;
    };
    for (int l = 0; l < g.layers; ++l) {
      MmaRowsParams qkv = params(residual, g.hidden, true);
      qkv.num_weights = 3;
      const std::int64_t n[3] = {g.query, g.kv, g.kv};
      for (int i = 0; i < 3; ++i) qkv.weights[i] = {take(n[i], g.hidden), nullptr, wide, n[i], n[i]};
      launch(in, v, qkv, false);
      MmaRowsParams o = params(wide, g.query, false);
      o.num_weights = 1;
      o.weights[0] = {take(g.hidden, g.query), nullptr, residual, g.hidden, g.hidden};
      launch(out, v, o, false);
      MmaRowsParams up = params(residual, g.hidden, true);
      up.num_weights = 2;
      up.weights[0] = {take(g.ffn, g.hidden), nullptr, wide, g.ffn, g.ffn};
      up.weights[1] = {take(g.ffn, g.hidden), nullptr, wide, g.ffn, g.ffn};
      launch(gate, v, up, true);
      MmaRowsParams down = params(wide, g.ffn, false);
      down.num_weights = 1;
      down.weights[0] = {take(g.hidden, g.ffn), nullptr, residual, g.hidden, g.hidden};
      launch(out, v, down, false);
    }
    MmaRowsParams last = params(residual, g.hidden, true);
    last.num_weights = 1;
    last.weights[0] = {take(g.vocab, g.hidden), nullptr, logits, g.vocab, g.vocab};
    launch(head, v, last, false);
    const Graph graph = capture.finish();
    std::vector<float> times;
    Event begin(context_, true), end(context_, true);
    for (int i = 0; i < 25; ++i) {
      begin.record(stream_);
      graph.launch(stream_);
      end.record(stream_);
      end.synchronize();
      if (i >= 5) times.push_back(end.elapsed_ms_since(begin));
    }
    std::sort(times.begin(), times.end());
    const float ms = times[times.size() / 2];
    std::printf(
        "{\"op\": \"linear_chain\", \"model\": \"%s\", \"m\": %d, \"token_tiles\": %d, \"warps\": %d, \"depth\": %d, "
        "\"blocks\": %d, "
        "\"programmatic\": %s, \"ms\": %.4f, \"tb_s\": %.3f}\n",
        g.name, m, v.token_tiles, v.warps, v.depth, v.blocks_per_sm, v.programmatic ? "true" : "false", ms,
        static_cast<double>(weights_bytes) / ms / 1e9);
    std::fflush(stdout);
  }

  /// The layout mma16: tiles of 16 rows and 32 columns, zeros past the matrix.
  static std::vector<std::uint16_t> pack(const std::vector<std::uint16_t>& w, std::int64_t n, std::int64_t k) {
    const std::int64_t turns = (k + 31) / 32;
    std::vector<std::uint16_t> out(static_cast<std::size_t>((n + 15) / 16 * turns * 512), 0);
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c < k; ++c) {
        const std::int64_t lane = r % 8 * 4 + c % 32 / 8;
        const std::int64_t at = ((r / 16 * turns + c / 32) * 2 + r % 16 / 8) * 256 + lane * 8 + c % 8;
        out[static_cast<std::size_t>(at)] = w[static_cast<std::size_t>(r * k + c)];
      }
    }
    return out;
  }

  /// One product of odd sizes against double, every epilogue.
  bool check(const Variant& v, std::int64_t n, std::int64_t k, int m, bool norm, int epilogue) {
    std::mt19937 random(static_cast<unsigned>(n * 31 + k + m));
    std::normal_distribution<float> normal;
    const bool gated = epilogue >= 3;
    const auto fill = [&](std::int64_t count) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
      for (auto& value : values) value = float_to_bf16(normal(random));
      return values;
    };
    const auto w0 = fill(n * k), w1 = fill(n * k), x16 = fill(m * k);
    const auto p0 = pack(w0, n, k), p1 = pack(w1, n, k);
    std::vector<float> xf(x16.size()), nw(static_cast<std::size_t>(k)), residual(static_cast<std::size_t>(m * n));
    for (std::size_t i = 0; i < xf.size(); ++i) xf[i] = bf16_to_float(x16[i]);
    for (auto& value : nw) value = 1 + 0.1f * normal(random);
    for (auto& value : residual) value = normal(random);
    auto range = AddressRange::reserve(context_, 256 << 20);
    if (!range.ok() || !range->map(256 << 20).ok()) return false;
    auto staging = PinnedBytes::create(context_, 128 << 20);
    std::byte* at = range->data();
    const auto upload = [&](const void* data, std::size_t bytes) {
      std::memcpy(staging->host(), data, bytes);
      std::byte* place = at;
      staging->upload(0, static_cast<std::int64_t>(bytes), place, stream_);
      at += (bytes + 255) / 256 * 256;
      return place;
    };
    MmaRowsParams p{};
    p.weights[0] = {upload(p0.data(), p0.size() * 2), nullptr, nullptr, n, n};
    p.weights[1] = {upload(p1.data(), p1.size() * 2), nullptr, nullptr, n, n};
    p.num_weights = gated ? 2 : 1;
    p.input = norm ? upload(xf.data(), xf.size() * 4) : upload(x16.data(), x16.size() * 2);
    p.norm = reinterpret_cast<const float*>(upload(nw.data(), nw.size() * 4));
    p.weights[0].output = p.weights[1].output = upload(residual.data(), residual.size() * 4);
    p.input_stride = p.k = k;
    p.m = m;
    p.epsilon = 1e-5f;
    p.scale = 0.5f;
    launch(kernel(v, norm, epilogue), v, p, gated);
    staging->download(0, m * n * 4, p.weights[0].output, stream_);
    const std::byte* got = staging->host();
    double error = 0, size = 0;
    for (int t = 0; t < m; ++t) {
      double square = 0;
      for (std::int64_t i = 0; i < k; ++i)
        square +=
            static_cast<double>(xf[static_cast<std::size_t>(t * k + i)]) * xf[static_cast<std::size_t>(t * k + i)];
      const double factor = 1 / std::sqrt(square / static_cast<double>(k) + 1e-5);
      for (std::int64_t r = 0; r < n; ++r) {
        double a = 0, b = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const double x =
              xf[static_cast<std::size_t>(t * k + i)] * (norm ? factor * nw[static_cast<std::size_t>(i)] : 1);
          a += x * bf16_to_float(w0[static_cast<std::size_t>(r * k + i)]);
          if (gated) b += x * bf16_to_float(w1[static_cast<std::size_t>(r * k + i)]);
        }
        const auto index = static_cast<std::size_t>(t * n + r);
        double want = a;
        if (epilogue == 2) want = residual[index] + 0.5 * a;
        if (epilogue == 3) want = a / (1 + std::exp(-a)) * b;
        if (epilogue == 4) want = 0.5 * a * (1 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) * b;
        double value = 0;
        if (epilogue == 1 || epilogue == 2) {
          float f;
          std::memcpy(&f, got + index * 4, 4);
          value = f;
        } else {
          std::uint16_t h;
          std::memcpy(&h, got + index * 2, 2);
          value = bf16_to_float(h);
        }
        error += (value - want) * (value - want);
        size += want * want;
      }
    }
    const double relative = std::sqrt(error / size);
    const bool good = relative < 6e-3;
    std::printf("%s n %ld k %ld m %d norm %d epilogue %d: relative error %.2e\n", good ? "ok  " : "FAIL",
                static_cast<long>(n), static_cast<long>(k), m, norm, epilogue, relative);
    return good;
  }

 private:
  ContextPtr context_;
  ModuleLoader loader_;
  CudaStream stream_;
};

int run(bool check_only) {
  auto driver = Driver::load();
  if (!driver.ok()) {
    std::fprintf(stderr, "%s\n", driver.error().message.c_str());
    return 4;
  }
  auto context = Context::create(*driver, 0);
  auto nvrtc = Nvrtc::load();
  if (!context.ok() || !nvrtc.ok()) return 4;
  auto compiler = std::make_shared<Compiler>(
      CompilerOptions{.cache_folder = {}, .sources = kernels::embedded_sources(), .nvrtc = *nvrtc, .num_threads = 4});
  Bench bench(*context, compiler);
  bool good = true;
  for (const int epilogue : {0, 1, 2, 3, 4}) {
    for (const bool norm : {false, true}) {
      good &= bench.check({1, 8, 4, 0, false}, 100, 200, 1, norm, epilogue);
      good &= bench.check({1, 4, 2, 2, true}, 33, 1032, 7, norm, epilogue);
      good &= bench.check({2, 8, 3, 1, true}, 2500, 576, 13, norm, epilogue);
    }
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (check_only || !good) return good ? 0 : 1;
  for (const Geometry& g : kGeometries) {
    for (const bool pdl : {false, true}) {
      for (const Variant& v : {Variant{1, 8, 4, 0, pdl}, Variant{1, 8, 4, 2, pdl}, Variant{1, 8, 4, 3, pdl},
                               Variant{1, 4, 4, 4, pdl}, Variant{1, 4, 4, 6, pdl}, Variant{1, 16, 4, 1, pdl},
                               Variant{1, 16, 2, 2, pdl}, Variant{1, 8, 2, 4, pdl}, Variant{1, 8, 8, 1, pdl}}) {
        bench.chain(g, v, 1);
      }
    }
    for (const int m : {2, 4}) bench.chain(g, {1, 8, 4, 2, true}, m);
    if (g.ffn < 10000) bench.chain(g, {1, 8, 4, 2, true}, 8);
  }
  return 0;
}

}  // namespace
}  // namespace pagoda

int main(int argc, char** argv) { return pagoda::run(argc > 1 && std::string(argv[1]) == "check"); }
