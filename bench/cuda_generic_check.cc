// The kernels that serve every block format, and cuBLASLt, on a GPU against double, at odd sizes; then what the large
// products of two geometries cost with cuBLASLt, and what unpacking mma16 for it costs. Ends with 1 if a check fails.
#include "device/cuda/blas.h"
#include "gpu_bench.h"
#include "kernels/embed/cuda_embed.h"
#include "kernels/linear/cuda_generic_rows.h"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_to_bf16.h"
#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"

namespace pagoda::bench {
namespace {

using kernels::CudaEmbedParams;
using kernels::GenericRowsParams;
using kernels::ToBf16Params;

struct Matrix {
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;  // (n, k)
  std::int64_t n, k, row_bytes;
};

/// Random blocks whose elements are finite and below 64 in size.
template <class Format>
Matrix random_matrix(std::mt19937& random, std::int64_t n, std::int64_t k) {
  using Block = typename Format::Block;
  Matrix m{.bytes = {}, .values = {}, .n = n, .k = k, .row_bytes = 0};
  const std::int64_t blocks = k / Format::kBlockElements;
  m.row_bytes = blocks * static_cast<std::int64_t>(sizeof(Block));
  for (std::int64_t i = 0; i < n * blocks; ++i) {
    for (bool good = false; !good;) {
      std::uint8_t raw[sizeof(Block)];
      for (auto& byte : raw) byte = static_cast<std::uint8_t>(random());
      Block block;
      std::memcpy(&block, raw, sizeof block);
      float decoded[Format::kBlockElements];
      good = true;
      for (int e = 0; e < Format::kBlockElements; ++e) {
        decoded[e] = Format::decode(block, e);
        good = good && std::abs(decoded[e]) < 64;
      }
      if (!good) continue;
      m.bytes.insert(m.bytes.end(), raw, raw + sizeof raw);
      m.values.insert(m.values.end(), decoded, decoded + Format::kBlockElements);
    }
  }
  return m;
}

std::vector<double> product(const std::vector<float>& x, const Matrix& w, std::int64_t m) {
  std::vector<double> y;
  for (std::int64_t t = 0; t < m; ++t) {
    for (std::int64_t r = 0; r < w.n; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < w.k; ++c) {
        sum += static_cast<double>(x[static_cast<std::size_t>(t * w.k + c)]) *
               static_cast<double>(w.values[static_cast<std::size_t>(r * w.k + c)]);
      }
      y.push_back(sum);
    }
  }
  return y;
}

class Checks {
 public:
  explicit Checks(GpuBench& bench) : bench_(bench) {}

  static std::vector<device::CompileUnit> units(const GpuBench& bench, const std::string& f) {
    const std::string format_define = "FORMAT=" + f;
    return {rows_unit(bench, f, 1, false, 1),
            rows_unit(bench, f, 4, true, 2),
            rows_unit(bench, f, 4, true, 0),
            bench.unit("kernels/linear/cuda_to_bf16.cu", {format_define, "FROM_MMA16=0", "TO_MMA16=0", "THREADS=64"}),
            bench.unit("kernels/linear/cuda_to_bf16.cu", {format_define, "FROM_MMA16=0", "TO_MMA16=1", "THREADS=64"}),
            bench.unit("kernels/embed/cuda_embed.cu", {format_define, "FROM_MMA16=0", "THREADS=96"})};
  }
  static device::CompileUnit unpack_unit(const GpuBench& bench) {
    return bench.unit("kernels/linear/cuda_to_bf16.cu", {"FORMAT=BF16", "FROM_MMA16=1", "TO_MMA16=0", "THREADS=128"});
  }
  static device::CompileUnit embed_packed_unit(const GpuBench& bench) {
    return bench.unit("kernels/embed/cuda_embed.cu", {"FORMAT=BF16", "FROM_MMA16=1", "THREADS=96"});
  }

  template <class Format>
  bool check(const std::string& f) {
    std::mt19937 random(77);
    const std::int64_t n = 37, k = Format::kBlockElements == 1 ? 203 : 3 * Format::kBlockElements, m = 5;
    const Matrix w = random_matrix<Format>(random, n, k);
    Cutter memory(bench_, 8 << 20);
    const auto* weight = memory.upload(w.bytes);
    bool good = true;
    good &= rows<Format>(f, memory, weight, w, m, 1, false, 1, random);
    good &= rows<Format>(f, memory, weight, w, m, 4, true, 2, random);
    good &= rows<Format>(f, memory, weight, w, m, 4, true, 0, random);
    good &= narrowed(f, memory, weight, w);
    return good;
  }

  bool blas(std::int64_t m, std::int64_t n, std::int64_t k, bool float_output, bool accumulate, bool bias) {
    std::mt19937 random(5);
    const auto x = random_bf16(random, m * k), w = random_bf16(random, n * k);
    const auto before = random_floats(random, m * n), added = random_floats(random, n, 0, 8);
    std::vector<std::uint16_t> added16, before16;
    for (const float value : added) added16.push_back(float_to_bf16(value));
    for (const float value : before) before16.push_back(float_to_bf16(value));
    Cutter memory(bench_, 32 << 20);
    const void* bias_data = nullptr;
    if (bias) bias_data = float_output ? static_cast<const void*>(memory.upload(added)) : memory.upload(added16);
    const BlasProblem problem{.m = m,
                              .n = n,
                              .k = k,
                              .input_stride = k,
                              .weight_stride = k,
                              .output_stride = n,
                              .float_output = float_output,
                              .accumulate = accumulate,
                              .bias = bias,
                              .scale = 0.5f};
    if (!blas_) blas_ = must(Blas::load(bench_.context_ptr()));
    const BlasPlan plan = must(BlasPlan::prepare(blas_, problem, 4 << 20));
    auto* wide = memory.upload(before);
    auto* narrow = memory.upload(before16);
    void* y = float_output ? static_cast<void*>(wide) : narrow;
    const auto* dx = memory.upload(x);
    const auto* dw = memory.upload(w);
    auto* workspace = memory.take<std::byte>(std::max<std::int64_t>(plan.workspace_bytes(), 1));
    GraphCapture capture(bench_.stream());
    plan.launch(bench_.stream(), dx, dw, y, workspace, bias_data);
    capture.finish().launch(bench_.stream());
    bench_.stream().synchronize();
    Matrix matrix{.bytes = {}, .values = floats_of(w), .n = n, .k = k, .row_bytes = 0};
    auto want = product(floats_of(x), matrix, m);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] *= 0.5;
      if (accumulate) want[i] += static_cast<double>(float_output ? before[i] : bf16_to_float(before16[i]));
      const std::size_t r = i % static_cast<std::size_t>(n);
      if (bias) want[i] += static_cast<double>(float_output ? added[r] : bf16_to_float(added16[r]));
    }
    const auto got = float_output ? memory.download(wide, m * n) : floats_of(memory.download(narrow, m * n));
    return report(pagoda::format("blas m {} n {} k {} float {} accumulate {} bias {}: {}", m, n, k, float_output,
                                 accumulate, bias, plan.algorithm()),
                  relative_error(got, want), float_output ? 1e-5 : 4e-3);
  }

  /// What a large product costs, and unpacking its weight before it.
  void time(const char* model, std::int64_t n, std::int64_t k, std::int64_t m) {
    auto range = bench_.memory((m * k + m * n) * 2 + (1 << 20));
    auto scratch = bench_.memory(n * k * 2 + (64 << 20));
    bench_.set_bytes(range, 0x3c);
    const std::int64_t copies = std::max<std::int64_t>(2, (300 << 20) / (n * k * 2));
    const BlasPlan plan = must(BlasPlan::prepare(
        blas_, {.m = m, .n = n, .k = k, .input_stride = k, .weight_stride = k, .output_stride = n}, 32 << 20));
    const auto unpack = bench_.kernel<ToBf16Params>(unpack_unit(bench_), "to_bf16_rows");
    std::byte* const all = bench_.weights();
    float ms[2];
    for (const bool packed : {false, true}) {
      GraphCapture capture(bench_.stream());
      for (std::int64_t i = 0; i < copies; ++i) {
        const void* weight = all + i * n * k * 2;
        if (packed) {
          unpack.launch(bench_.stream(), grid(k, n, 128, true),
                        {weight, scratch.data() + (64 << 20), 0, n, k, nullptr});
          weight = scratch.data() + (64 << 20);
        }
        plan.launch(bench_.stream(), range.data(), weight, range.data() + m * k * 2, scratch.data());
      }
      ms[packed] = bench_.time_ms(capture.finish(), 5) / static_cast<float>(copies);
    }
    std::printf(
        "{\"op\": \"linear\", \"model\": \"%s\", \"n\": %ld, \"k\": %ld, \"m\": %ld, \"cublaslt_us\": %.2f, "
        "\"unpack_and_cublaslt_us\": %.2f, \"tflops\": %.1f, \"algorithm\": \"%s\"}\n",
        model, static_cast<long>(n), static_cast<long>(k), static_cast<long>(m), static_cast<double>(ms[0]) * 1e3,
        static_cast<double>(ms[1]) * 1e3, 2e-9 * static_cast<double>(m * n * k) / static_cast<double>(ms[0]),
        plan.algorithm().c_str());
  }

 private:
  static device::CompileUnit rows_unit(const GpuBench& bench, const std::string& f, int tokens, bool bf16,
                                       int epilogue) {
    return bench.unit("kernels/linear/cuda_generic_rows.cu", {"FORMAT=" + f, pagoda::format("TOKENS={}", tokens),
                                                              pagoda::format("INPUT_BF16={}", bf16 ? 1 : 0),
                                                              pagoda::format("EPILOGUE={}", epilogue), "ORDERED=0"});
  }
  static LaunchConfig grid(std::int64_t columns, std::int64_t rows, int threads, bool programmatic = false) {
    return {.grid = {.x = static_cast<std::uint32_t>((columns + threads * 8 - 1) / (threads * 8)),
                     .y = static_cast<std::uint32_t>(std::min<std::int64_t>(rows, 4096))},
            .block = {.x = static_cast<std::uint32_t>(threads)},
            .programmatic = programmatic};
  }

  template <class Format>
  bool rows(const std::string& f, Cutter& memory, const void* weight, const Matrix& w, std::int64_t m, int tokens,
            bool bf16, int epilogue, std::mt19937& random) {
    const auto x16 = random_bf16(random, m * w.k);
    const auto x = floats_of(x16), bias = random_floats(random, w.n), before = random_floats(random, m * w.n);
    float* wide = epilogue == 2 ? memory.upload(before) : memory.take<float>(m * w.n);
    auto* narrow = memory.take<std::uint16_t>(m * w.n);
    GenericRowsParams p{};
    p.weight = weight;
    p.bias = memory.upload(bias);
    p.input = bf16 ? static_cast<const void*>(memory.upload(x16)) : memory.upload(x);
    p.output = epilogue == 0 ? static_cast<void*>(narrow) : wide;
    p.row_bytes = w.row_bytes;
    p.input_stride = p.k = w.k;
    p.output_stride = p.n = w.n;
    p.m = m;
    p.scale = 0.25f;
    bench_.kernel<GenericRowsParams>(rows_unit(bench_, f, tokens, bf16, epilogue), "generic_rows")
        .launch(bench_.stream(), {.grid = {.x = static_cast<std::uint32_t>((w.n + 3) / 4)}, .block = {.x = 128}}, p);
    auto want = product(x, w, m);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] += static_cast<double>(bias[i % static_cast<std::size_t>(w.n)]);
      if (epilogue == 2) want[i] = static_cast<double>(before[i]) + 0.25 * want[i];
    }
    const auto got = epilogue == 0 ? floats_of(memory.download(narrow, m * w.n)) : memory.download(wide, m * w.n);
    return report(pagoda::format("{} rows tokens {} bf16 {} epilogue {}", f, tokens, bf16, epilogue),
                  relative_error(got, want), epilogue == 0 ? 4e-3 : 2e-6);
  }

  /// To bf16 rows, to mma16 and back, and embedded: each exact.
  bool narrowed(const std::string& f, Cutter& memory, const void* weight, const Matrix& w) {
    std::vector<float> want;
    for (const float value : w.values) want.push_back(bf16_to_float(float_to_bf16(value)));
    const auto all = units(bench_, f);
    auto* plain = memory.take<std::uint16_t>(w.n * w.k);
    auto* back = memory.take<std::uint16_t>(w.n * w.k);
    auto* packed = memory.take<std::uint16_t>(kernels::mma16_elements(w.n, w.k));
    const std::int64_t columns = (w.k + 31) / 32 * 32;
    bench_.kernel<ToBf16Params>(all[3], "to_bf16_rows")
        .launch(bench_.stream(), grid(columns, w.n, 64), {weight, plain, w.row_bytes, w.n, w.k, nullptr});
    bench_.kernel<ToBf16Params>(all[4], "to_bf16_rows")
        .launch(bench_.stream(), grid(columns, (w.n + 15) / 16 * 16, 64),
                {weight, packed, w.row_bytes, w.n, w.k, nullptr});
    bench_.kernel<ToBf16Params>(unpack_unit(bench_), "to_bf16_rows")
        .launch(bench_.stream(), grid(columns, w.n, 128), {packed, back, 0, w.n, w.k, nullptr});
    bool good = report(f + " to bf16", relative_error(floats_of(memory.download(plain, w.n * w.k)), want), 1e-12);
    good &= report(f + " to mma16 and back", relative_error(floats_of(memory.download(back, w.n * w.k)), want), 1e-12);
    std::vector<std::uint16_t> narrow;
    for (const float value : want) narrow.push_back(float_to_bf16(value));
    const auto expected = pack_mma16(narrow, w.n, w.k);
    good &= report(f + " mma16 with its zeros",
                   memory.download(packed, static_cast<std::int64_t>(expected.size())) == expected ? 0 : 1, 1e-12);

    const std::vector<std::int32_t> ids = {36, 0, 17, -1, 5, 37};
    const auto* device_ids = memory.upload(ids);
    const auto count = static_cast<std::int64_t>(ids.size());
    for (const bool from_packed : {false, true}) {
      auto* rows_out = memory.take<float>(count * w.k);
      bench_.kernel<CudaEmbedParams>(from_packed ? embed_packed_unit(bench_) : all[5], "embed")
          .launch(bench_.stream(), {.grid = {.x = static_cast<std::uint32_t>(count)}, .block = {.x = 96}},
                  {from_packed ? static_cast<const void*>(packed) : weight, device_ids, nullptr, rows_out, w.row_bytes,
                   w.k, w.n, w.k, 1.5f});
      const auto got = memory.download(rows_out, count * w.k);
      bool same = true;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::int32_t id = ids[i / static_cast<std::size_t>(w.k)];
        if (id < 0 || id >= w.n) {
          same = same && std::isnan(got[i]);
          continue;
        }
        const std::size_t at = static_cast<std::size_t>(id * w.k) + i % static_cast<std::size_t>(w.k);
        same = same && got[i] == 1.5f * (from_packed ? want[at] : w.values[at]);
      }
      good &= report(pagoda::format("{} embedded, packed {}", f, from_packed), same ? 0 : 1, 1e-12);
    }
    return good;
  }

  GpuBench& bench_;
  std::shared_ptr<const Blas> blas_;
};

int run() {
  GpuBench bench;
  std::vector<device::CompileUnit> units = {Checks::unpack_unit(bench), Checks::embed_packed_unit(bench)};
  const std::vector<std::string> names = {"BF16", "F16",  "F32",  "IQ4_NL", "IQ4_XS", "MXFP4", "Q2_K", "Q3_K",
                                          "Q4_0", "Q4_1", "Q4_K", "Q5_0",   "Q5_1",   "Q5_K",  "Q6_K", "Q8_0"};
  for (const std::string& name : names) {
    for (auto& unit : Checks::units(bench, name)) units.push_back(std::move(unit));
  }
  bench.compile(units);
  Checks checks(bench);
  using namespace quant;
  bool good = checks.check<BF16>("BF16") & checks.check<F16>("F16") & checks.check<F32>("F32") &
              checks.check<IQ4_NL>("IQ4_NL") & checks.check<IQ4_XS>("IQ4_XS") & checks.check<MXFP4>("MXFP4") &
              checks.check<Q2_K>("Q2_K") & checks.check<Q3_K>("Q3_K") & checks.check<Q4_0>("Q4_0") &
              checks.check<Q4_1>("Q4_1") & checks.check<Q4_K>("Q4_K") & checks.check<Q5_0>("Q5_0") &
              checks.check<Q5_1>("Q5_1") & checks.check<Q5_K>("Q5_K") & checks.check<Q6_K>("Q6_K") &
              checks.check<Q8_0>("Q8_0");
  good &= checks.blas(37, 104, 72, false, false, false);
  good &= checks.blas(200, 1000, 520, true, false, false);
  good &= checks.blas(200, 1000, 520, true, true, false);
  good &= checks.blas(77, 1000, 520, false, false, true);
  good &= checks.blas(77, 1000, 520, true, false, true);
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (!good) return 1;
  for (const Geometry& g : {kGeometries[1], kGeometries[2]}) {
    for (const std::int64_t m : {16, 64, 256, 2048}) {
      checks.time(g.name, g.query + 2 * g.kv, g.hidden, m);
      checks.time(g.name, g.hidden, g.query, m);
      checks.time(g.name, 2 * g.ffn, g.hidden, m);
      checks.time(g.name, g.hidden, g.ffn, m);
    }
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main() { return pagoda::bench::run(); }
