// wgmma_tiles from weights in the layout mma_codes, and what quantises x to e4m3 for it: against double at odd sizes, a
// broken input shown to fail; then products beside cuBLASLt's of bf16. Ends with 1 if a check fails.
//
//   wgmma_codes_check [check | time | batches]      batches: times of codes alone
#include "device/cuda/blas.h"
#include "kernels/linear/cuda_quantize_e4m3.h"
#include "quant/formats/affine.h"
#include "quant/formats/fp8.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/packed.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"
#include "wgmma_tiles.h"

namespace pagoda::bench {
namespace {

using kernels::QuantizeE4m3Params;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kQuantizeThreads = 256;

device::CompileUnit quantize_unit(const GpuBench& bench) {
  return bench.unit("kernels/linear/cuda_quantize_e4m3.cu", {"THREADS=256"});
}

void quantize(GpuBench& bench, const QuantizeE4m3Params& p, std::int64_t rows) {
  const auto kernel = bench.kernel<QuantizeE4m3Params>(quantize_unit(bench), "quantize_e4m3");
  kernel.allow_shared_bytes(p.k * 2);
  kernel.launch(bench.stream(),
                {.grid = {.x = static_cast<std::uint32_t>(rows)},
                 .block = {.x = kQuantizeThreads},
                 .shared_bytes = static_cast<std::uint32_t>(p.k * 2),
                 .programmatic = true},
                p);
}

struct Case {
  std::int64_t m, n, k;
  int epilogue;
};

/// Rows of a format with random codes, and scales that give weights of a usual size.
template <class F>
std::vector<typename F::Block> random_blocks(std::mt19937& random, std::int64_t count) {
  std::vector<typename F::Block> blocks(static_cast<std::size_t>(count));
  for (auto& block : blocks) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(&block);
    for (std::size_t i = 0; i < sizeof(block); ++i) bytes[i] = static_cast<std::uint8_t>(random());
    // 2^-10 … 2^-9 for a whole number's step.
    if constexpr (requires { block.exponent; }) block.exponent = static_cast<std::uint8_t>(117 + random() % 4);
    if constexpr (F::kCoding.scale == quant::ScaleType::kBf16) {
      block.scale = static_cast<std::uint16_t>(0x3a80u | (random() & 0x7fu));
      block.bias = static_cast<std::uint16_t>(0xbb80u | (random() & 0x7fu));
    } else if constexpr (requires {
                           block.scale;
                           block.bias;
                         }) {
      block.scale = static_cast<std::uint16_t>(0x1400u | (random() & 0x3ffu));
      block.bias = static_cast<std::uint16_t>(0xa000u | (random() & 0x3ffu));
    } else if constexpr (requires { block.scale; }) {
      block.scale = static_cast<std::uint16_t>(0x1400u | (random() & 0x3ffu));
    }
    if constexpr (requires { block.scale_and_zero; })
      block.scale_and_zero = static_cast<std::uint32_t>(0x3a800000u | (random() & 0x7fff00u) | random() % 256);
    if constexpr (requires { block.tensor_scale; }) {
      block.tensor_scale = std::ldexp(static_cast<float>(1 + random() % 7), -12);
      for (auto& scale : block.scales) {
        if ((scale & 0x7f) == 0x7f) scale = 0x30;  // not a number
      }
    }
    if constexpr (requires { block.minimum; })
      block.minimum = static_cast<std::uint16_t>(0x1400u | (random() & 0x3ffu));
  }
  return blocks;
}

template <class F>
Bytes pack_codes(const std::vector<typename F::Block>& blocks, std::int64_t n, std::int64_t k) {
  Bytes packed(static_cast<std::size_t>(kernels::mma_codes_bytes(F::kCoding, n, k)));
  const std::int64_t row_bytes =
      (k + F::kBlockElements - 1) / F::kBlockElements * static_cast<std::int64_t>(sizeof(typename F::Block));
  for (std::int64_t tile = 0; tile < kernels::num_tiles16(n); ++tile) {
    for (std::int64_t unit = 0; unit < kernels::num_units(k); ++unit) {
      for (int lane = 0; lane < 32; ++lane) {
        kernels::pack_mma_codes<F>(reinterpret_cast<const std::uint8_t*>(blocks.data()), row_bytes, 0, n, n, k, tile,
                                   unit, lane, packed.data());
      }
    }
  }
  return packed;
}

/// `row_scales`: all of a row's blocks have one scale, as `products` then wants it.
bool check_e4m3(GpuBench& bench, Products& products, bool row_scales, const WgmmaTilesShape& shape, const Case& c,
                bool broken = false) {
  std::mt19937 random(static_cast<unsigned>(c.m * 7 + c.n));
  const bool gated = c.epilogue >= 3;
  const std::int64_t stride = c.k + 8, columns = kernels::e4m3_columns(c.k);
  const auto x16 = random_bf16(random, c.m * stride);
  using F = quant::FP8_E4M3;
  const std::int64_t row_blocks = (c.k + 127) / 128;
  std::vector<F::Block> w[2];
  for (auto& blocks : w) {
    blocks.resize(static_cast<std::size_t>(c.n * row_blocks));
    for (auto& block : blocks) {
      block.scale = 0.01f * static_cast<float>(1 + random() % 100);
      for (auto& code : block.codes) {
        code = static_cast<std::uint8_t>(random());
        if ((code & 0x7f) == 0x7f) code = 0x30;
      }
    }
    for (std::size_t i = 0; row_scales && i < blocks.size(); ++i) {
      blocks[i].scale = blocks[i - i % static_cast<std::size_t>(row_blocks)].scale;
    }
  }
  const auto bias = random_floats(random, c.n), before = random_floats(random, c.m * c.n);
  Cutter memory(bench, 64 << 20);
  auto* quantized = memory.take<std::uint8_t>(c.m * columns);
  auto* input_scales = memory.take<float>(c.m);
  quantize(bench, {memory.upload(x16), quantized, input_scales, c.k, stride}, c.m);
  auto* residual = memory.upload(before);
  auto* sums = memory.take<float>(c.m * c.n);
  auto* narrow = memory.take<std::uint16_t>(c.m * c.n);
  const bool wide = c.epilogue == 1 || c.epilogue == 2;
  Bytes packed = pack_codes<F>(w[0], c.n, c.k);
  if (broken) std::swap(packed[5], packed[700]);
  WgmmaTilesParams p{};
  void* const output = c.epilogue == 2 ? static_cast<void*>(residual) : wide ? static_cast<void*>(sums) : narrow;
  p.weights[0] = {memory.upload(packed), memory.upload(bias), output, c.n, c.n};
  p.weights[1] = {memory.upload(pack_codes<F>(w[1], c.n, c.k)), nullptr, output, c.n, c.n};
  p.num_weights = gated ? 2 : 1;
  p.input_scales = input_scales;
  p.m = c.m;
  p.k = c.k;
  p.split_stride = c.m * c.n;
  p.scale = 0.5f;
  products.launch(shape, c.epilogue, quantized, columns, p);

  // What the first kernel made of x is checked by itself; the product then starts from its numbers.
  const Bytes q = memory.download(quantized, c.m * columns);
  const auto scales = memory.download(input_scales, c.m);
  const auto x = floats_of(x16);
  std::vector<float> exact(static_cast<std::size_t>(c.m * c.k)), rounded(exact.size());
  bool good = true;
  for (std::int64_t t = 0; t < c.m; ++t) {
    float most = 0;
    for (std::int64_t i = 0; i < c.k; ++i) {
      const auto at = static_cast<std::size_t>(t * c.k + i);
      exact[at] = x[static_cast<std::size_t>(t * stride + i)];
      most = std::max(most, std::abs(exact[at]));
      const std::uint8_t byte = q[static_cast<std::size_t>(t * columns + kernels::e4m3_place(i))];
      rounded[at] = fp8_e4m3_to_float(byte) * scales[static_cast<std::size_t>(t)];
      // Half a unit in the last of three places, or half the smallest step.
      const float room = std::max(std::abs(exact[at]) / 16, scales[static_cast<std::size_t>(t)] / 1024) * 1.01f;
      good &= std::abs(rounded[at] - exact[at]) <= room;
    }
    good &= std::abs(scales[static_cast<std::size_t>(t)] * 448 - most) <= most * 1e-6f;
  }
  if (!good) std::printf("FAIL rows of x as e4m3, m %ld k %ld\n", static_cast<long>(c.m), static_cast<long>(c.k));

  std::vector<double> want;
  for (std::int64_t t = 0; t < c.m; ++t) {
    for (std::int64_t r = 0; r < c.n; ++r) {
      double dot[2] = {};
      for (int i = 0; i < (gated ? 2 : 1); ++i) {
        for (std::int64_t j = 0; j < c.k; ++j) {
          dot[i] += static_cast<double>(rounded[static_cast<std::size_t>(t * c.k + j)]) *
                    static_cast<double>(
                        F::decode(w[i][static_cast<std::size_t>(r * row_blocks + j / 128)], static_cast<int>(j % 128)));
        }
      }
      dot[0] += static_cast<double>(bias[static_cast<std::size_t>(r)]);
      double y = dot[0];
      if (c.epilogue == 2) y = static_cast<double>(before[static_cast<std::size_t>(t * c.n + r)]) + 0.5 * y;
      if (gated) y = dot[0] / (1 + std::exp(-dot[0])) * dot[1];
      want.push_back(y);
    }
  }
  const auto got = c.epilogue == 1   ? memory.download(sums, c.m * c.n)
                   : c.epilogue == 2 ? memory.download(residual, c.m * c.n)
                                     : floats_of(memory.download(narrow, c.m * c.n));
  const std::string what =
      pagoda::format("{}e4m3{} {} m {} n {} k {} epilogue {}", broken ? "BROKEN input " : "",
                     row_scales ? " of one scale a row" : "", name_of(shape), c.m, c.n, c.k, c.epilogue);
  // The tensor cores keep 14 bits of a sum while they add: of 128 columns, or of all, cut off at each 32.
  const double most = std::max(wide ? 5e-4 : 4e-3, row_scales ? 1e-6 * static_cast<double>(c.k) : 0);
  if (broken) {
    const double error = relative_error(got, want);
    std::printf("%s %s: relative error %.2e\n", error >= most ? "ok  " : "FAIL", what.c_str(), error);
    return error >= most;
  }
  return report(what, relative_error(got, want), most) && good;
}

template <class F>
bool check_codes(GpuBench& bench, Products& products, bool half, const WgmmaTilesShape& shape, const Case& c,
                 bool broken = false) {
  std::mt19937 random(static_cast<unsigned>(c.m * 7 + c.n));
  const bool gated = c.epilogue >= 3;
  const std::int64_t stride = c.k + 8, row_blocks = c.k / F::kBlockElements;
  auto x = random_floats(random, c.m * stride);
  std::vector<std::uint16_t> x16;
  for (float& value : x) {
    x16.push_back(half ? float_to_f16(value) : float_to_bf16(value));
    value = half ? f16_to_float(x16.back()) : bf16_to_float(x16.back());
  }
  const std::vector<typename F::Block> w[2] = {random_blocks<F>(random, c.n * row_blocks),
                                               random_blocks<F>(random, c.n * row_blocks)};
  const auto bias = random_floats(random, c.n), before = random_floats(random, c.m * c.n);
  Cutter memory(bench, 64 << 20);
  auto* residual = memory.upload(before);
  auto* sums = memory.take<float>(c.m * c.n);
  auto* narrow = memory.take<std::uint16_t>(c.m * c.n);
  const bool wide = c.epilogue == 1 || c.epilogue == 2;
  Bytes packed = pack_codes<F>(w[0], c.n, c.k);
  for (std::size_t i = 5; broken && i < packed.size() / 2; i += 7) packed[i] ^= 0x31;
  WgmmaTilesParams p{};
  void* const output = c.epilogue == 2 ? static_cast<void*>(residual) : wide ? static_cast<void*>(sums) : narrow;
  p.weights[0] = {memory.upload(packed), memory.upload(bias), output, c.n, c.n};
  p.weights[1] = {memory.upload(pack_codes<F>(w[1], c.n, c.k)), nullptr, output, c.n, c.n};
  p.num_weights = gated ? 2 : 1;
  p.m = c.m;
  p.k = c.k;
  p.split_stride = c.m * c.n;
  p.scale = 0.5f;
  p.output_factor = 1;
  products.launch(shape, c.epilogue, memory.upload(x16), stride, p);

  std::vector<float> decoded[2];
  for (int i = 0; i < 2; ++i) {
    for (std::int64_t at = 0; at < c.n * c.k; ++at) {
      const auto& block = w[i][static_cast<std::size_t>(at / F::kBlockElements)];
      decoded[i].push_back(F::decode(block, static_cast<int>(at % F::kBlockElements)));
    }
  }
  std::vector<double> want;
  for (std::int64_t t = 0; t < c.m; ++t) {
    for (std::int64_t r = 0; r < c.n; ++r) {
      double dot[2] = {};
      for (int i = 0; i < (gated ? 2 : 1); ++i) {
        const float* a = x.data() + t * stride;
        const float* b = decoded[i].data() + r * c.k;
        for (std::int64_t j = 0; j < c.k; ++j) dot[i] += static_cast<double>(a[j]) * static_cast<double>(b[j]);
      }
      dot[0] += static_cast<double>(bias[static_cast<std::size_t>(r)]);
      double y = dot[0];
      if (c.epilogue == 2) y = static_cast<double>(before[static_cast<std::size_t>(t * c.n + r)]) + 0.5 * y;
      if (gated) y = dot[0] / (1 + std::exp(-dot[0])) * dot[1];
      want.push_back(y);
    }
  }
  const auto got = c.epilogue == 1   ? memory.download(sums, c.m * c.n)
                   : c.epilogue == 2 ? memory.download(residual, c.m * c.n)
                                     : floats_of(memory.download(narrow, c.m * c.n));
  const std::string what = pagoda::format("{}{} {} {} m {} n {} k {} epilogue {}", broken ? "BROKEN input " : "",
                                          F::kName, half ? "f16" : "bf16", name_of(shape), c.m, c.n, c.k, c.epilogue);
  // Weights are rounded to what x is; the tensor cores keep 14 bits of a sum while they add.
  const double most = wide ? (half ? 8e-4 : 3e-3) : 4e-3;
  const double error = relative_error(got, want);
  if (!broken) return report(what, error, most);
  std::printf("%s %s: relative error %.2e\n", error >= most ? "ok  " : "FAIL", what.c_str(), error);
  return error >= most;
}

/// A product of (m, k) and (n, k), alone, over copies of the weight that the second-level cache does not hold.
template <class Launch>
double time_us(GpuBench& bench, std::int64_t m, std::int64_t n, std::int64_t k, const Launch& launch) {
  const auto times = std::max<std::int64_t>(
      8, static_cast<std::int64_t>(10e-3 / (5e-6 + 2e-15 * static_cast<double>(m * n) * static_cast<double>(k))));
  GraphCapture capture(bench.stream());
  for (std::int64_t i = 0; i < times; ++i) launch(i);
  return static_cast<double>(bench.time_ms(capture.finish(), 5)) * 1e3 / static_cast<double>(times);
}

void print_time(const std::string& by, std::int64_t m, std::int64_t n, std::int64_t k, double us) {
  std::printf("{\"op\": \"linear\", \"n\": %ld, \"k\": %ld, \"m\": %ld, %s, \"us\": %.2f, \"tflops\": %.1f}\n",
              static_cast<long>(n), static_cast<long>(k), static_cast<long>(m), by.c_str(), us,
              2e-6 * static_cast<double>(m * n) * static_cast<double>(k) / us);
  std::fflush(stdout);
}

void time_e4m3(GpuBench& bench, Products& products, std::string_view scales_of, std::int64_t m, std::int64_t n,
               std::int64_t k, int epilogue, const std::vector<WgmmaTilesShape>& shapes) {
  Cutter memory(bench, m * k * 3 + m * n * 4 + (n * 4) + (8 << 20));
  std::mt19937 random(3);
  auto* x = memory.take<std::uint16_t>(m * k);
  const auto piece = random_bf16(random, 1 << 16);
  const auto* some = memory.upload(piece);
  for (std::int64_t i = 0; i < m * k; i += 1 << 16) {
    bench.context().driver().check(
        bench.context().api().copy_on_device_async(
            reinterpret_cast<DeviceAddress>(x + i), reinterpret_cast<DeviceAddress>(some),
            static_cast<std::size_t>(std::min<std::int64_t>(1 << 16, m * k - i) * 2), bench.stream().handle()),
        "filling");
  }
  auto* q = memory.take<std::uint8_t>(m * k);
  auto* scales = memory.take<float>(m);
  auto* y = memory.take<float>(m * n);
  const std::int64_t half = (kernels::mma_codes_bytes(quant::FP8_E4M3::kCoding, n / 2, k) + 255) / 256 * 256;
  const bool gated = epilogue >= 3;
  const std::int64_t copies = std::max<std::int64_t>(2, (300 << 20) / (n * k));
  const auto make_input = [&](std::int64_t) { quantize(bench, {x, q, scales, k, k}, m); };
  print_time("\"by\": \"quantize_e4m3\"", m, n, k, time_us(bench, m, n, k, make_input));
  for (const WgmmaTilesShape& shape : shapes) {
    const double us = time_us(bench, m, n, k, [&](std::int64_t i) {
      WgmmaTilesParams p{};
      std::byte* const mine = bench.weights() + i % copies * half * 2;
      const std::int64_t rows = gated ? n / 2 : n;
      p.weights[0] = {mine, nullptr, y, rows, rows};
      p.weights[1] = {mine + half, nullptr, y, rows, rows};
      p.input_scales = scales;
      p.num_weights = gated ? 2 : 1;
      p.m = m;
      p.k = k;
      p.scale = 1;
      products.launch(shape, epilogue, q, k, p);
    });
    print_time(pagoda::format("\"by\": \"wgmma_tiles e4m3, scales of {}, epilogue {}\", {}", scales_of, epilogue,
                              name_of(shape)),
               m, n, k, us);
  }
}

/// A product and the shapes it is tried with; those with slices leave float sums.
struct CodesTimes {
  std::int64_t m, n, k;
  int epilogue;
  std::vector<WgmmaTilesShape> shapes;
};

/// Of a weight of codes (of gate and up of n rows together): random bytes with scales between. Input is f16 or bf16.
template <class F>
void time_codes(GpuBench& bench, const std::shared_ptr<const Blas>& blas, bool half, const CodesTimes& c) {
  const auto& [m, n, k, epilogue, shapes] = c;
  Products products(bench, kernels::wgmma_tiles_codes(F::kCoding), quant::find_format(F::kName), half);
  constexpr int kMostSplits = 8;
  Cutter memory(bench, m * k * 2 + m * n * 4 * (m > 64 ? 1 : kMostSplits) + (40 << 20));
  std::mt19937 random(3);
  const auto some = random_bf16(random, 1 << 16);
  std::vector<std::uint16_t> input;
  for (std::int64_t i = 0; i < m * k; ++i) {
    const std::uint16_t value = some[static_cast<std::size_t>(i) % some.size()];
    input.push_back(half ? float_to_f16(bf16_to_float(value)) : value);
  }
  auto* x = memory.upload(input);
  auto* y = memory.take<float>(m * n * (m > 64 ? 1 : kMostSplits));
  auto* workspace = memory.take<std::byte>(32 << 20);
  const auto distinct = [&](std::int64_t bytes) { return std::max<std::int64_t>(2, (300 << 20) / bytes); };
  const BlasPlan plan = must(BlasPlan::prepare(
      blas, {.m = m, .n = n, .k = k, .input_stride = k, .weight_stride = k, .output_stride = n}, 32 << 20));
  const double blas_us = time_us(bench, m, n, k, [&](std::int64_t i) {
    plan.launch(bench.stream(), x, bench.weights() + i % distinct(n * k * 2) * n * k * 2, y, workspace);
  });
  print_time("\"by\": \"" + plan.algorithm() + "\"", m, n, k, blas_us);
  const bool gated = epilogue >= 3;
  const std::int64_t rows = gated ? n / 2 : n;
  const std::int64_t bytes = (kernels::mma_codes_bytes(F::kCoding, rows, k) + 255) / 256 * 256;
  for (const WgmmaTilesShape& shape : shapes) {
    const double us = time_us(bench, m, n, k, [&](std::int64_t i) {
      WgmmaTilesParams p{};
      std::byte* const mine = bench.weights() + i % distinct(2 * bytes) * 2 * bytes;
      p.weights[0] = {mine, nullptr, y, rows, rows};
      p.weights[1] = {mine + bytes, nullptr, y, rows, rows};
      p.num_weights = gated ? 2 : 1;
      p.m = m;
      p.k = k;
      p.split_stride = m * n;
      p.scale = 1;
      p.output_factor = 1;
      products.launch(shape, shape.splits > 1 ? 1 : epilogue, x, k, p);
    });
    print_time(
        pagoda::format("\"by\": \"wgmma_tiles {}\", \"input\": \"{}\", \"epilogue\": {}, {}, \"over_cublaslt\": {:.2f}",
                       F::kName, half ? "f16" : "bf16", shape.splits > 1 ? 1 : epilogue, name_of(shape), blas_us / us),
        m, n, k, us);
  }
}

const std::vector<WgmmaTilesShape> kCodeShapes = {
    {2, 256, 1, 1, 2}, {2, 128, 1, 1, 1}, {4, 64, 2, 1, 1}, {2, 64, 4, 1, 1}, {1, 32, 4, 1, 1}};

template <class F>
void add_units(GpuBench& bench, bool half, const std::vector<WgmmaTilesShape>& shapes,
               const std::vector<int>& epilogues, std::vector<device::CompileUnit>& units) {
  const Products products(bench, kernels::wgmma_tiles_codes(F::kCoding), quant::find_format(F::kName), half);
  for (const auto& shape : shapes) {
    for (const int epilogue : epilogues) units.push_back(products.unit(shape, epilogue));
  }
}

/// Whether x is f16: both, where the format takes it so.
template <class F>
std::vector<bool> inputs() {
  return kernels::has_f16_scales(F::kCoding) ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

template <class F>
void add_all(GpuBench& bench, std::vector<device::CompileUnit>& units) {
  for (const bool half : inputs<F>()) add_units<F>(bench, half, kCodeShapes, {0, 1, 3}, units);
}

template <class F>
bool check_format(GpuBench& bench) {
  bool good = true;
  const std::int64_t k = F::kBlockElements <= 64 ? 1152 + 32 * (F::kBlockElements <= 32) : 768;
  for (const bool half : inputs<F>()) {
    Products products(bench, kernels::wgmma_tiles_codes(F::kCoding), quant::find_format(F::kName), half);
    for (std::size_t i = 0; i < kCodeShapes.size(); ++i) {
      for (const Case& c : {Case{65, 100, k, 1}, Case{33, 72, k, 3}, Case{17, 136, k + 256, 0}}) {
        good &= check_codes<F>(bench, products, half, kCodeShapes[i], c);
      }
      if (i < 1) good &= check_codes<F>(bench, products, half, kCodeShapes[i], {17, 100, k, 1}, true);
    }
  }
  return good;
}

template <class... F>
struct Formats {
  static void add(GpuBench& bench, std::vector<device::CompileUnit>& units) { (add_all<F>(bench, units), ...); }
  static bool check(GpuBench& bench) { return (static_cast<int>(check_format<F>(bench)) & ...) != 0; }
};
using Checked = Formats<quant::Q4_0, quant::Q4_1, quant::Q4_K, quant::Q5_K, quant::Q6_K, quant::Q8_0, quant::MXFP4,
                        quant::NVFP4, quant::IQ4_NL, quant::PACKED4_G128, quant::AFFINE4_G64, quant::AFFINE4_G64_F16>;

/// What is timed: `each` is called with a format, whether x is f16, and the products.
template <class Each>
void for_all_times(const Each& each) {
  const std::vector<WgmmaTilesShape> batch = {{2, 64, 4, 2}, {2, 64, 4, 2, 2}, {1, 64, 4, 1}, {4, 64, 2, 4}};
  const CodesTimes square = {64, 8192, 8192, 0, batch}, square32 = {32, 8192, 8192, 0, {{2, 32, 4, 2}, {1, 32, 4, 1}}};
  each(quant::PACKED4_G128{}, false, square);
  each(quant::AFFINE4_G64{}, false, square);
  each(quant::AFFINE4_G64_F16{}, true, square);
  each(quant::MXFP4{}, false, square);
  each(quant::NVFP4{}, false, square);
  for (const bool half : {false, true}) {
    each(quant::Q4_0{}, half, square);
    each(quant::Q4_K{}, half, square);
  }
  each(quant::PACKED4_G128{}, false, square32);
  each(quant::MXFP4{}, false, square32);
  // Llama-8B's.
  each(quant::PACKED4_G128{}, false, CodesTimes{64, 28672, 4096, 3, {{4, 64, 4}, {4, 64, 2}, {2, 64, 4}, {1, 64, 4}}});
  each(quant::PACKED4_G128{}, false, CodesTimes{64, 6144, 4096, 0, {{2, 64, 4}, {1, 64, 4}}});
  each(quant::PACKED4_G128{}, false, CodesTimes{64, 4096, 4096, 2, {{2, 64, 4, 4}, {1, 64, 4}, {1, 64, 4, 2}}});
  each(quant::PACKED4_G128{}, false,
       CodesTimes{64, 4096, 14336, 2, {{4, 64, 2, 8}, {2, 64, 4, 4}, {1, 64, 4}, {1, 64, 4, 2}}});
  const std::vector<WgmmaTilesShape> many = {{2, 256, 1, 1, 1}, {2, 256, 1, 1, 2}};
  each(quant::Q4_0{}, false, CodesTimes{4096, 8192, 8192, 0, many});
  each(quant::MXFP4{}, false, CodesTimes{4096, 8192, 8192, 0, many});
  each(quant::Q4_K{}, true, CodesTimes{2048, 28672, 4096, 3, many});
}

int run(const std::string& what) {
  GpuBench bench;
  Products e4m3(bench, kernels::kWgmmaE4m3, quant::find_format("fp8_e4m3"));
  const std::vector<WgmmaTilesShape> checked = {{2, 128, 2, 1, 2}, {2, 128, 2, 1, 1}, {1, 64, 2, 1, 1}, {2, 48, 2}};
  const std::vector<WgmmaTilesShape> large = {{2, 128, 2, 1, 1}, {2, 128, 2, 1, 2}};
  Products rows(bench, kernels::kWgmmaE4m3Rows, quant::find_format("fp8_e4m3"));
  const std::vector<WgmmaTilesShape> checked_rows = {
      {2, 256, 2, 1, 2}, {2, 256, 2, 1, 1}, {2, 192, 2, 1, 1}, {1, 64, 2}};
  const std::vector<WgmmaTilesShape> large_rows = {{2, 256, 2, 1, 1}, {2, 256, 2, 1, 2}, {2, 192, 2, 1, 1}};
  const std::vector<WgmmaTilesShape> batch_rows = {{2, 64, 2}, {1, 64, 2}};
  std::vector<device::CompileUnit> units = {quantize_unit(bench)};
  for (const auto& shape : checked) {
    for (const int epilogue : {0, 1, 2, 3}) units.push_back(e4m3.unit(shape, epilogue));
  }
  for (const auto& shape : large) {
    for (const int epilogue : {0, 2, 3}) units.push_back(e4m3.unit(shape, epilogue));
  }
  for (const auto& shapes : {checked_rows, large_rows, batch_rows}) {
    for (const auto& shape : shapes) {
      for (const int epilogue : {0, 1, 2, 3}) units.push_back(rows.unit(shape, epilogue));
    }
  }
  if (what == "batches") units.clear();
  if (what == "" || what == "check") Checked::add(bench, units);
  if (what != "check") {
    for_all_times([&]<class F>(F, bool half, const CodesTimes& c) {
      for (const auto& shape : c.shapes) add_units<F>(bench, half, {shape}, {shape.splits > 1 ? 1 : c.epilogue}, units);
    });
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  bench.compile(units);
  bool good = true;
  const bool checks = what == "" || what == "check";
  for (std::size_t i = 0; checks && i < checked.size(); ++i) {
    for (const Case& c : {Case{17, 100, 1208, 0}, Case{33, 516, 576, 1}, Case{100, 500, 1208, 2},
                          Case{257, 516, 200, 0}, Case{257, 100, 576, 3}}) {
      good &= check_e4m3(bench, e4m3, false, checked[i], c);
      good &= check_e4m3(bench, rows, true, checked_rows[i], c);
    }
    good &= check_e4m3(bench, rows, true, checked_rows[i], {33, 100, 14336, 1});
    if (i < 2) {
      good &= check_e4m3(bench, e4m3, false, checked[i], {17, 100, 200, 1}, true);
      good &= check_e4m3(bench, rows, true, checked_rows[i], {17, 100, 200, 1}, true);
      // Scales of blocks are not what that kernel reads.
      good &= check_e4m3(bench, rows, false, checked_rows[i], {33, 100, 576, 1}, true);
    }
  }
  if (checks) good &= Checked::check(bench);
  std::printf("%s\n", good ? "all good" : "FAILED");
  if (what == "check") return good ? 0 : 1;
  bench.weights();
  constexpr std::int64_t kPrefill = 2048;
  constexpr std::int64_t kBatch = 64;
  if (what != "batches") {
    for (const auto& [n, k, epilogue] :
         {std::tuple{28672, 4096, 3}, {4096, 14336, 2}, {6144, 4096, 0}, {4096, 4096, 2}}) {
      time_e4m3(bench, e4m3, "blocks", kPrefill, n, k, epilogue, large);
      time_e4m3(bench, rows, "rows", kPrefill, n, k, epilogue, large_rows);
      time_e4m3(bench, rows, "rows", kBatch, n, k, epilogue, batch_rows);
    }
  }
  const auto blas = must(Blas::load(bench.context_ptr()));
  for_all_times([&]<class F>(F, bool half, const CodesTimes& c) { time_codes<F>(bench, blas, half, c); });
  return good ? 0 : 1;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) { return pagoda::bench::run(argc > 1 ? argv[1] : ""); }
