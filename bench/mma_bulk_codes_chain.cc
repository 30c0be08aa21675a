// How fast a decode step's products of quantised weights run on a GPU when they stand alone: all layers of a geometry
// as one graph of mma_bulk_codes kernels, with weights of their own, against the bytes they read; and products of 8192
// × 8192 one after the other. First checks the kernels against double. Prints one JSON line a variant.
//
//   mma_bulk_codes_chain [check | few [FORMAT…] | sizes | short | tune | shapes | FORMAT]
// (a format: one shape in two arrangements of warps, for a profiler)
#include <algorithm>

#include "device/cuda/blas.h"
#include "gpu_bench.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_mma_bulk_codes.h"
#include "kernels/linear/cuda_pack_codes.h"
#include "kernels/linear/cuda_product_parts.h"
#include "unit/kernels/linear_cases.h"

namespace pagoda::bench {
namespace {

using kernels::MmaBulkCodesParams;

struct Variant {
  int token_tiles, warps, stage_units, at_once, window_kib;
  bool whole = false;  // cuda_whole_bulk_codes.cu
  int rows = 4;        // of that: ROWS
};

class Chain {
 public:
  explicit Chain(GpuBench& bench) : bench_(bench) {}

  device::CompileUnit unit(const quant::Format& f, const Variant& v, bool norm, int epilogue) const {
    return bench_.unit(v.whole ? "kernels/linear/cuda_whole_bulk_codes.cu" : "kernels/linear/cuda_mma_bulk_codes.cu",
                       {kernels::format_define(f),
                        v.whole ? kernels::define("ROWS", v.rows) : kernels::define("TOKEN_TILES", v.token_tiles),
                        kernels::define("WARPS", v.warps), kernels::define("STAGE_UNITS", v.stage_units),
                        kernels::define("AT_ONCE", v.at_once), kernels::define("NORM", norm),
                        kernels::define("EPILOGUE", epilogue), "ELEMENT=0"});
  }
  std::vector<device::CompileUnit> units(const quant::Format& f, const Variant& v, bool norm) const {
    return {unit(f, v, norm, 0), unit(f, v, false, 2), unit(f, v, norm, 3), unit(f, v, false, 0)};
  }

  void launch(const quant::Format& f, const Variant& v, bool norm, int epilogue, MmaBulkCodesParams p) {
    const auto kernel =
        bench_.kernel<MmaBulkCodesParams>(unit(f, v, norm, epilogue), v.whole ? "whole_bulk_codes" : "mma_bulk_codes");
    const int sets = epilogue >= 3 ? 2 : 1;
    std::int64_t tiles = 0;
    for (int i = 0; i < (sets == 2 ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
    const std::int64_t stage = sets * kernels::mma_bulk_codes_set_bytes(*f.coding, v.stage_units);
    const std::int64_t fixed =
        v.whole ? kernels::whole_bulk_codes_fixed_bytes(*f.coding, p.k, p.m, p.splits, v.warps, sets)
                : kernels::mma_bulk_codes_fixed_bytes(*f.coding, p.k, p.m, p.splits, v.warps, sets, v.token_tiles);
    const std::int64_t room = 225 * 1024 - fixed;
    p.stages = static_cast<int>(std::clamp<std::int64_t>(room / stage, 2, 32));
    p.window = static_cast<int>(std::clamp<std::int64_t>((v.window_kib * 1024 + stage / 2) / stage, 1, p.stages));
    const std::int64_t blocks =
        std::min<std::int64_t>(tiles * p.splits, bench_.context().caps().num_sms / p.splits * p.splits);
    kernels::set_windows(p, tiles, blocks / p.splits, p.window);
    const LaunchConfig config{.grid = {.x = static_cast<std::uint32_t>(blocks)},
                              .block = {.x = static_cast<std::uint32_t>(v.warps * 32 + 32)},
                              .shared_bytes = static_cast<std::uint32_t>(p.stages * stage + fixed),
                              .programmatic = true};
    fits_ = fits_ && p.stages * stage <= room;
    if (!fits_) return;
    kernel.allow_shared_bytes(config.shared_bytes);
    kernel.launch(bench_.stream(), config, p);
  }

  /// Weights one after the other in the big buffer, from its beginning again when it ends.
  kernels::MmaCodesWeight take(const quant::Format& f, std::int64_t n, std::int64_t k, void* output) {
    const std::int64_t bytes = (kernels::mma_codes_bytes(*f.coding, n, k) + 255) / 256 * 256;
    if (used_ + bytes > (std::int64_t{16} << 30)) used_ = 0;
    std::byte* at = bench_.weights() + used_;
    used_ += bytes;
    bytes_ += bytes;
    return {at, at + kernels::mma_codes_scales_offset(*f.coding, n, k), nullptr, output, n, n};
  }

  void time(const Geometry& g, const quant::Format& f, const Variant& v, int m) {
    const AddressRange range = bench_.memory(64 << 20);
    bench_.set_bytes(range, 0x3c);
    std::byte* scratch = range.data();
    auto* residual = reinterpret_cast<float*>(scratch);
    auto* norm = reinterpret_cast<float*>(scratch + (8 << 20));
    void* wide = scratch + (16 << 20);
    const bool norms = m <= 2;
    const auto params = [&](const void* input, std::int64_t k) {
      MmaBulkCodesParams p{};
      p.input = input;
      p.norm = norm;
      p.input_stride = p.k = k;
      p.m = m;
      p.num_weights = p.splits = 1;
      p.epsilon = 1e-5f;
      p.scale = 1;
      return p;
    };
    const auto chain = [&] {
      used_ = bytes_ = 0;
      fits_ = true;
      for (int l = 0; l < g.layers; ++l) {
        MmaBulkCodesParams qkv = params(residual, g.hidden);
        qkv.num_weights = 3;
        const std::int64_t n[3] = {g.query, g.kv, g.kv};
        for (int i = 0; i < 3; ++i) qkv.weights[i] = take(f, n[i], g.hidden, wide);
        launch(f, v, norms, 0, qkv);
        MmaBulkCodesParams out = params(wide, g.query);
        out.weights[0] = take(f, g.hidden, g.query, residual);
        launch(f, v, false, 2, out);
        MmaBulkCodesParams up = params(residual, g.hidden);
        up.num_weights = 2;
        for (int i = 0; i < 2; ++i) up.weights[i] = take(f, g.ffn, g.hidden, wide);
        launch(f, v, norms, 3, up);
        MmaBulkCodesParams down = params(wide, g.ffn);
        down.weights[0] = take(f, g.hidden, g.ffn, residual);
        launch(f, v, false, 2, down);
      }
    };
    chain();  // loads what it launches
    GraphCapture capture(bench_.stream());
    chain();
    const Graph graph = capture.finish();
    if (!fits_) return;
    print(g.name, f, v, m, bench_.time_ms(graph, 9), 1);
  }

  /// 24 products of one size, each with weights of its own.
  void time_linear(std::int64_t n, std::int64_t k, const quant::Format& f, const Variant& v, int m) {
    constexpr int kTimes = 24;
    const AddressRange range = bench_.memory(8 << 20);
    bench_.set_bytes(range, 0x3c);
    const auto chain = [&] {
      used_ = bytes_ = 0;
      fits_ = true;
      for (int i = 0; i < kTimes; ++i) {
        MmaBulkCodesParams p{};
        p.input = range.data();
        p.input_stride = p.k = k;
        p.m = m;
        p.num_weights = p.splits = 1;
        p.weights[0] = take(f, n, k, range.data() + (4 << 20));
        launch(f, v, false, 0, p);
      }
    };
    chain();
    GraphCapture capture(bench_.stream());
    chain();
    const Graph graph = capture.finish();
    if (!fits_) return;
    print(pagoda::format("{}x{}", n, k).c_str(), f, v, m, bench_.time_ms(graph, 9), kTimes);
  }

  /// The same by cuBLASLt, of bf16 rows.
  void time_peer(const std::shared_ptr<const Blas>& blas, std::int64_t n, std::int64_t k, int m) {
    constexpr int kTimes = 24;
    const AddressRange range = bench_.memory(48 << 20);
    bench_.set_bytes(range, 0x3c);
    const BlasPlan plan = must(BlasPlan::prepare(
        blas, {.m = m, .n = n, .k = k, .input_stride = k, .weight_stride = k, .output_stride = n}, 32 << 20));
    const auto chain = [&] {
      for (int i = 0; i < kTimes; ++i) {
        plan.launch(bench_.stream(), range.data(), bench_.weights() + i * n * k * 2, range.data() + (4 << 20),
                    range.data() + (16 << 20));
      }
    };
    chain();
    GraphCapture capture(bench_.stream());
    chain();
    const Graph graph = capture.finish();
    std::printf(
        "{\"op\": \"linear\", \"case\": \"%lldx%lld\", \"format\": \"bf16\", \"m\": %d, \"by\": \"%s\", \"us\": "
        "%.2f}\n",
        static_cast<long long>(n), static_cast<long long>(k), m, plan.algorithm().c_str(),
        static_cast<double>(bench_.time_ms(graph, 9)) / kTimes * 1e3);
    std::fflush(stdout);
  }

  /// One product of odd sizes against double, outputs poisoned.
  bool check(const quant::Format& f, const Variant& v, std::int64_t n, std::int64_t k, int m, bool norm, int epilogue,
             int splits = 1) {
    using namespace kernels;
    if (!f.divides(k)) return true;
    std::mt19937 random(static_cast<unsigned>(n * 31 + k + m));
    const bool gated = epilogue >= 3;
    std::vector<float> weights[2];
    const auto x16 = random_bf16(random, m * k);
    const auto xf = floats_of(x16), nw = random_floats(random, std::max(k, n), 1, 0.1f);
    const auto bias = random_floats(random, n, 0, 3), residual = random_floats(random, m * n);
    Cutter memory(bench_, 64 << 20);
    const auto* device_bias = memory.upload(bias);
    auto* device_residual = memory.upload(residual);
    auto* sums = memory.take<float>(splits * m * n);
    auto* narrow = memory.take<std::uint16_t>(m * n);
    MmaBulkCodesParams p{};
    for (int i = 0; i < (gated ? 2 : 1); ++i) {
      const auto rows = kernels::testing::random_rows(f, {n, k}, static_cast<unsigned>(i + 7));
      const auto size = static_cast<std::size_t>(mma_codes_bytes(*f.coding, n, k));
      // Packed on the device; the host's bytes are what they must be.
      auto* packed = memory.take<std::uint8_t>(static_cast<std::int64_t>(size));
      const auto* device_rows = memory.upload(rows);
      const auto pack = bench_.kernel<PackCodesParams>(pack_unit(f), "pack_codes");
      pack.launch(bench_.stream(),
                  {.grid = {.x = grid_size(ceil_div<std::int64_t>(num_units(k), 4)), .y = grid_rows(num_tiles16(n))},
                   .block = {.x = 128}},
                  {device_rows, packed, f.row_bytes(k), 0, n, n, k});
      std::vector<std::byte> wanted(size);
      kMmaCodesLayout.pack(f, {n, k}, 0, n, rows.data(), wanted.data());
      const auto got = memory.download(packed, static_cast<std::int64_t>(size));
      if (std::memcmp(got.data(), wanted.data(), size) != 0) {
        std::printf("FAIL %s: packed otherwise than on the host\n", std::string(f.name).c_str());
        return false;
      }
      weights[i].resize(static_cast<std::size_t>(n * k));
      for (std::int64_t r = 0; r < n; ++r) {
        f.decode_row(rows.data() + r * f.row_bytes(k), k, weights[i].data() + r * k);
      }
      p.weights[i] = {packed, packed + mma_codes_scales_offset(*f.coding, n, k), device_bias, nullptr, n, n};
      if (!check_unpack(f, packed, weights[i], n, k, memory)) return false;
    }
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
    launch(f, v, norm, epilogue, p);
    std::vector<float> got = wide ? memory.download(epilogue == 2 ? device_residual : sums, splits * m * n)
                                  : floats_of(memory.download(narrow, m * n));
    for (int s = 1; s < splits; ++s) {
      for (std::int64_t i = 0; i < m * n; ++i)
        got[static_cast<std::size_t>(i)] += got[static_cast<std::size_t>(s * m * n + i)];
    }
    std::vector<double> all;
    for (int t = 0; t < m; ++t) {
      double square = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double x = xf[static_cast<std::size_t>(t * k + i)];
        square += x * x;
      }
      const double factor = 1 / std::sqrt(square / static_cast<double>(k) + 1e-5);
      for (std::int64_t r = 0; r < n; ++r) {
        double a = bias[static_cast<std::size_t>(r)], b = a;
        for (std::int64_t i = 0; i < k; ++i) {
          const double x =
              xf[static_cast<std::size_t>(t * k + i)] * (norm ? factor * nw[static_cast<std::size_t>(i)] : 1);
          a += x * weights[0][static_cast<std::size_t>(r * k + i)];
          if (gated) b += x * weights[1][static_cast<std::size_t>(r * k + i)];
        }
        double want = a;
        if (epilogue == 2) want = residual[static_cast<std::size_t>(t * n + r)] + 0.5 * a;
        if (epilogue == 3) want = a / (1 + std::exp(-a)) * b;
        if (epilogue == 4) want = 0.5 * a * (1 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) * b;
        all.push_back(want);
      }
    }
    return report(
        pagoda::format("{} n {} k {} m {} norm {} epilogue {} splits {}", f.name, n, k, m, norm, epilogue, splits),
        relative_error(got, all),
        norm   ? 4e-3
        : wide ? 1e-4
               : 4e-3);
  }

  device::CompileUnit pack_unit(const quant::Format& f) const {
    return bench_.unit("kernels/linear/cuda_pack_codes.cu", {kernels::format_define(f), "ELEMENT=0", "THREADS=128"});
  }
  device::CompileUnit unpack_unit(const quant::Format& f) const {
    return bench_.unit("kernels/linear/cuda_unpack_codes.cu", {kernels::format_define(f), "ELEMENT=0", "THREADS=128"});
  }

 private:
  bool check_unpack(const quant::Format& f, const std::uint8_t* packed, const std::vector<float>& weights,
                    std::int64_t n, std::int64_t k, Cutter& memory) {
    const std::int64_t elements = (n + 15) / 16 * ((k + 31) / 32) * 512;
    auto* target = memory.take<std::uint16_t>(elements);
    const auto unpack = bench_.kernel<kernels::UnpackCodesParams>(unpack_unit(f), "unpack_codes");
    unpack.launch(bench_.stream(),
                  {.grid = {.x = kernels::grid_size(ceil_div<std::int64_t>(kernels::num_units(k), 4)),
                            .y = kernels::grid_rows(kernels::num_tiles16(n))},
                   .block = {.x = 128}},
                  {packed, target, n, k});
    const auto got = floats_of(memory.download(target, elements));
    std::vector<std::uint16_t> rounded(weights.size());
    for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = float_to_bf16(weights[i]);
    const double error = relative_error(got, floats_of(pack_mma16(rounded, n, k)));
    if (error < 1e-4) return true;
    return report(std::string(f.name) + " unpacked", error, 1e-4);
  }

  void print(const char* name, const quant::Format& f, const Variant& v, int m, float ms, int times) {
    const double each = static_cast<double>(ms) / times;
    std::printf(
        "{\"op\": \"linear_codes\", \"case\": \"%s\", \"format\": \"%s\", \"m\": %d, \"warps\": %d, \"stage_units\": "
        "%d, \"at_once\": %d, \"window_kib\": %d, \"whole\": %d, \"rows\": %d, \"us\": %.2f, \"bytes\": %lld, "
        "\"tb_s\": %.3f}\n",
        name, std::string(f.name).c_str(), m, v.warps, v.stage_units, v.at_once, v.window_kib, v.whole ? 1 : 0,
        v.whole ? v.rows : 0, each * 1e3, static_cast<long long>(bytes_ / times),
        static_cast<double>(bytes_) / static_cast<double>(ms) / 1e9);
    std::fflush(stdout);
  }

  GpuBench& bench_;
  std::int64_t used_ = 0, bytes_ = 0;
  bool fits_ = true;  // what was launched since the last graph
};

bool has_bytes(const quant::Format& f) {
  const bool whole = f.coding->table == quant::CodeTable::kInteger && f.coding->bits % 2 == 0 && f.coding->bits >= 4;
  return whole || f.coding->table == quant::CodeTable::kE2m1;
}

/// cuda_whole_bulk_codes.cu beside what one to four rows would take otherwise.
int run_few(GpuBench& bench, Chain& chain, const std::vector<std::string>& only) {
  std::vector<const quant::Format*> formats;
  for (const char* name :
       {"mxfp4", "nvfp4", "q6_k", "q4_k", "q4_0", "q8_0", "affine4_g64", "packed4_g128", "affine6_g32"}) {
    if (only.empty() || std::ranges::find(only, name) != only.end()) formats.push_back(quant::find_format(name));
  }
  const auto of = [](int warps, int stage_units, int at_once, int rows, int window_kib = 64) {
    return Variant{1, warps, stage_units, at_once, window_kib, true, rows};
  };
  struct Timed {
    Variant v;
    int m;
  };
  std::vector<Timed> timed;
  for (const int m : {1, 2, 3, 4}) {
    const int rows = m <= 2 ? m : 4;
    timed.push_back({{1, 8, 32, 4, 64}, m});
    for (const Variant& v : {of(8, 64, 8, rows), of(8, 32, 4, rows)}) timed.push_back({v, m});
  }
  std::vector<device::CompileUnit> units;
  for (const quant::Format* f : formats) {
    units.push_back(chain.pack_unit(*f));
    units.push_back(chain.unpack_unit(*f));
    for (const int rows : {1, 2, 4}) {
      units.push_back(chain.unit(*f, of(8, 16, 2, rows), true, 1));
      units.push_back(chain.unit(*f, of(8, 8, 1, rows), false, 3));
      units.push_back(chain.unit(*f, of(8, 32, 4, rows), false, 1));
    }
    for (const Timed& t : timed) units.push_back(chain.unit(*f, t.v, false, 0));
  }
  bench.compile(units);
  bool good = true;
  for (const quant::Format* f : formats) {
    for (const int rows : {1, 2, 4}) {
      good &= chain.check(*f, of(8, 16, 2, rows), 33, 1536, std::min(rows, 2), true, 1);
      good &= chain.check(*f, of(8, 8, 1, rows), 65, 288, rows, false, 3);
      good &= chain.check(*f, of(8, 32, 4, rows), 77, 5376, rows == 4 ? 3 : rows, false, 1);
      good &= chain.check(*f, of(8, 32, 4, rows), 77, 1536, rows, false, 1, 3);
    }
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  std::fflush(stdout);
  const auto blas = must(Blas::load(bench.context_ptr()));
  chain.time_peer(blas, 8192, 8192, 1);
  for (const quant::Format* f : formats) {
    for (const Timed& t : timed) chain.time_linear(8192, 8192, *f, t.v, t.m);
  }
  for (const char* name : {"mxfp4", "nvfp4", "q6_k", "q4_k"}) {
    const quant::Format& f = *quant::find_format(name);
    if (std::ranges::find(formats, &f) == formats.end()) continue;
    const bool whole = f.coding->table == quant::CodeTable::kInteger;
    const Variant before = whole ? of(8, 32, 4, 4) : Variant{1, 8, 32, 4, 64};
    std::vector<device::CompileUnit> both;
    const Variant variants[] = {before, of(8, 32, 4, 1), of(16, 32, 2, 1)};
    for (const Variant& v : variants) {
      for (const auto& unit : chain.units(f, v, true)) both.push_back(unit);
    }
    bench.compile(both);
    for (const Variant& v : variants) chain.time(kGeometries[2], f, v, 1);
  }
  return good ? 0 : 1;
}

/// cuda_whole_bulk_codes.cu with stages and warps of other sizes.
int run_sizes(GpuBench& bench, Chain& chain) {
  std::vector<const quant::Format*> formats;
  for (const char* name : {"mxfp4", "nvfp4", "packed4_g128", "affine4_g64", "q4_k", "q6_k"})
    formats.push_back(quant::find_format(name));
  const auto of = [](int warps, int stage_units, int at_once, int rows, int window_kib = 64) {
    return Variant{1, warps, stage_units, at_once, window_kib, true, rows};
  };
  const auto sizes = [&](int rows) {
    return std::vector<Variant>{of(8, 32, 4, rows), of(8, 64, 8, rows), of(16, 64, 4, rows), of(16, 64, 4, rows, 96),
                                of(12, 48, 4, rows)};
  };
  std::vector<device::CompileUnit> units;
  for (const quant::Format* f : formats) {
    units.push_back(chain.pack_unit(*f));
    units.push_back(chain.unpack_unit(*f));
    for (const int rows : {1, 2, 4}) {
      for (const Variant& v : sizes(rows)) units.push_back(chain.unit(*f, v, false, 0));
      units.push_back(chain.unit(*f, of(16, 64, 4, rows), false, 1));
    }
    for (const Variant& v : sizes(1)) {
      for (const auto& unit : chain.units(*f, v, true)) units.push_back(unit);
    }
  }
  bench.compile(units);
  bool good = true;
  for (const quant::Format* f : formats) {
    for (const int rows : {1, 2, 4}) {
      good &= chain.check(*f, of(16, 64, 4, rows), 77, 5376, rows == 4 ? 3 : rows, false, 1);
    }
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  const auto blas = must(Blas::load(bench.context_ptr()));
  chain.time_peer(blas, 8192, 8192, 1);
  for (const quant::Format* f : formats) {
    for (const int m : {1, 2, 4}) {
      for (const Variant& v : sizes(m)) chain.time_linear(8192, 8192, *f, v, m);
    }
    for (const Variant& v : sizes(1)) chain.time(kGeometries[2], *f, v, 1);
  }
  return good ? 0 : 1;
}

int run(const std::string& what, const std::vector<std::string>& only) {
  GpuBench bench;
  bench.weights();  // nothing is allocated while a graph is captured
  Chain chain(bench);
  if (what == "sizes") return run_sizes(bench, chain);
  if (what == "few") return run_few(bench, chain, only);
  std::vector<const quant::Format*> formats, fast;
  // Of every kind of codes, scales and offsets.
  for (const char* name :
       {"q3_k",        "q4_0",         "q4_1",        "q4_k",         "q5_0",           "q5_k",
        "q6_k",        "q8_0",         "iq4_nl",      "iq4_xs",       "mxfp4",          "mxfp8",
        "nvfp4",       "fp8_e4m3",     "fp8_e5m2",    "affine2_g32",  "affine3_g128",   "affine4_g64",
        "affine6_g64", "affine8_g128", "packed4_g32", "packed4_g128", "affine4_g64_f16"}) {
    formats.push_back(quant::find_format(name));
  }
  for (const char* name :
       {"q4_k", "affine4_g64", "mxfp4", "packed4_g128", "nvfp4", "q6_k", "q8_0", "fp8_e4m3", "affine8_g64"}) {
    if (quant::find_format(name) != nullptr && quant::find_format(name)->coding != nullptr) {
      fast.push_back(quant::find_format(name));
    }
  }
  struct Timed {
    Variant v;
    int m;
  };
  std::vector<Timed> timed;
  if (what == "tune") {
    for (const Variant v : {Variant{1, 16, 32, 2, 48},
                            {1, 16, 32, 2, 96},
                            {1, 16, 64, 2, 96},
                            {1, 8, 32, 2, 96},
                            {1, 8, 32, 4, 48},
                            {1, 8, 32, 4, 96},
                            {1, 16, 16, 1, 96},
                            {1, 8, 16, 2, 96},
                            {1, 12, 24, 2, 48},
                            {1, 12, 48, 2, 96}}) {
      timed.push_back({v, 1});
    }
    fast.resize(2);
  } else {
    timed.push_back({{1, 16, 32, 2, 48}, 1});
    timed.push_back({{1, 16, 16, 1, 48}, 1});
    timed.push_back({{1, 16, 16, 1, 96}, 1});
    timed.push_back({{2, 8, 16, 1, 48}, 16});
    timed.push_back({{2, 8, 16, 2, 48}, 16});
  }
  if (const quant::Format* one = quant::find_format(what); one != nullptr && one->coding != nullptr) {
    std::vector<Variant> variants = {{1, 8, 32, 4, 48}, {1, 16, 32, 2, 48}};
    if (has_bytes(*one)) {
      for (const Variant& v : {Variant{1, 8, 64, 8, 64, true, 1}, Variant{1, 8, 32, 4, 64, true, 1}}) {
        variants.push_back(v);
      }
    }
    for (const Variant& v : variants) {
      bench.compile({chain.unit(*one, v, false, 0)});
      chain.time_linear(8192, 8192, *one, v, 1);
    }
    return 0;
  }
  if (what == "check" || what == "shapes") timed.clear();
  const Variant a{1, 8, 16, 2, 48}, b{1, 16, 16, 1, 48}, c{2, 8, 8, 1, 48};
  std::vector<device::CompileUnit> units;
  for (const quant::Format* f : formats) {
    units.push_back(chain.pack_unit(*f));
    units.push_back(chain.unpack_unit(*f));
    for (const bool norm : {false, true}) units.push_back(chain.unit(*f, a, norm, 1));
    units.push_back(chain.unit(*f, b, false, 0));
    for (const int epilogue : {2, 3}) units.push_back(chain.unit(*f, c, false, epilogue));
  }
  for (const Timed& t : timed) {
    for (const quant::Format* f : fast) {
      for (const auto& unit : chain.units(*f, t.v, t.m <= 2)) units.push_back(unit);
    }
  }
  if (what == "shapes") formats.clear();  // nothing is checked
  bench.compile(what == "shapes" ? std::vector<device::CompileUnit>{} : units);
  bool good = true;
  for (const quant::Format* f : formats) {
    good &= chain.check(*f, a, 100, 768, 1, false, 1);
    good &= chain.check(*f, a, 33, 1536, 2, true, 1);
    good &= chain.check(*f, a, 77, 1536, 7, false, 1, 3);
    good &= chain.check(*f, b, 49, 288, 5, false, 0);
    good &= chain.check(*f, b, 520, 5376, 8, false, 0);
    good &= chain.check(*f, c, 100, 2304, 13, false, 2);
    good &= chain.check(*f, c, 33, 352, 16, false, 2);
    good &= chain.check(*f, c, 65, 768, 9, false, 3);
    good &= chain.check(*f, a, 2500, 512, 6, false, 1, 2);
    if (!has_bytes(*f)) continue;
    const Variant d{1, 8, 16, 2, 48, true}, e{1, 8, 8, 1, 48, true}, g{1, 8, 32, 4, 48, true};
    for (const int rows : {1, 2, 4}) {
      const auto of = [&](Variant v) {
        v.rows = rows;
        return v;
      };
      good &= chain.check(*f, of(d), 100, 768, rows, false, 1);
      good &= chain.check(*f, of(d), 33, 1536, std::min(rows, 2), true, 1);
      good &= chain.check(*f, of(e), 49, 288, rows == 4 ? 3 : rows, false, 0);
      good &= chain.check(*f, of(e), 77, 4864, 1, false, 2);
      good &= chain.check(*f, of(e), 65, 5376, rows, false, 3);
      good &= chain.check(*f, of(d), 77, 1536, rows, false, 1, 3);
      good &= chain.check(*f, of(g), 77, 5376, rows, false, 1);
    }
  }
  std::printf("%s\n", good ? "all good" : "FAILED");
  std::fflush(stdout);
  if (what != "check") {
    const auto blas = must(Blas::load(bench.context_ptr()));
    for (const int m : {1, 16, 64}) chain.time_peer(blas, 8192, 8192, m);
  }
  if (what == "shapes") {
    for (const quant::Format* f : fast) {
      const Variant v = has_bytes(*f)          ? Variant{1, 8, 32, 4, 48, true}
                        : f->coding->bits <= 4 ? Variant{1, 8, 32, 4, 48}
                                               : Variant{1, 16, 32, 2, 48};
      bench.compile({chain.unit(*f, v, false, 0)});
      for (const auto& [n, k] : {std::pair{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {8192, 8192}}) {
        chain.time_linear(n, k, *f, v, 1);
      }
    }
    return good ? 0 : 1;
  }
  for (const quant::Format* f : fast) {
    for (const Timed& t : timed) {
      chain.time(kGeometries[2], *f, t.v, t.m);
      if (t.m == 1 || t.m == 16) chain.time_linear(8192, 8192, *f, t.v, t.m);
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  return pagoda::bench::run(argc > 1 ? argv[1] : "short", {argv + std::min(argc, 2), argv + argc});
}
