// The elementwise kernels on a GPU against double, at odd sizes, outputs poisoned. Ends with 1 if a check fails.
#include "gpu_bench.h"
#include "kernels/gated_activation/cuda_gated_activation.h"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"
#include "kernels/residual/cuda_residual.h"
#include "kernels/rms_norm/cuda_rms_norm.h"
#include "kernels/stages/cuda_softcap.h"

namespace pagoda::bench {
namespace {

using namespace kernels;  // NOLINT: a bench's own file
using Values = std::vector<double>;

Values doubles_of(const std::vector<float>& values) { return Values(values.begin(), values.end()); }

void norm_row(double* x, std::int64_t dim, const float* weight, double shift, double epsilon) {
  double square = 0;
  for (std::int64_t i = 0; i < dim; ++i) square += x[i] * x[i];
  const double factor = 1 / std::sqrt(square / static_cast<double>(dim) + epsilon);
  for (std::int64_t i = 0; i < dim; ++i)
    x[i] *= weight != nullptr ? factor * (static_cast<double>(weight[i]) + shift) : factor;
}

struct QkvCase {
  std::int64_t heads, kv_heads, key_dim, value_dim, pairs, pairing_dim, block_size;
  int norm;
  bool interleaved, input_float, fp8, bias, rope;
};
constexpr QkvCase kQkvCases[] = {
    {9, 3, 64, 64, 32, 64, 16, 0, true, false, false, false, true},
    {14, 2, 128, 128, 64, 128, 16, 1, false, false, false, true, true},
    {4, 1, 256, 256, 128, 256, 8, 1, false, true, true, false, true},
    {5, 5, 80, 48, 13, 26, 32, 2, false, true, false, true, true},
    {6, 2, 96, 96, 10, 96, 16, 2, false, false, true, true, true},
    {3, 3, 72, 72, 20, 40, 64, 1, true, true, true, true, true},
    {2, 1, 64, 128, 32, 64, 16, 0, false, false, false, false, false},
    {7, 1, 64, 64, 32, 64, 8, 2, false, false, true, true, true},  // wide: odd numbers of heads a warp
    {3, 2, 256, 256, 128, 256, 16, 0, false, false, false, false, false},
    {5, 1, 128, 128, 20, 128, 16, 1, false, false, false, false, true},  // turned in part: not wide
};

device::CompileUnit qkv_unit(const GpuBench& bench, const QkvCase& c) {
  return bench.unit(
      "kernels/qkv_postprocess/cuda_qkv_store.cu",
      {pagoda::format("KEY_DIM={}", c.key_dim), pagoda::format("VALUE_DIM={}", c.value_dim),
       pagoda::format("INPUT_FLOAT={}", c.input_float ? 1 : 0), pagoda::format("NORM={}", c.norm),
       pagoda::format("INTERLEAVED={}", c.interleaved ? 1 : 0), pagoda::format("KV_FP8={}", c.fp8 ? 1 : 0), "WARPS=4"});
}

/// Bias, norm and rotation of one head in double.
void expect_head(const QkvCase& c, double* x, std::int64_t dim, const float* bias, const float* norm, bool normed,
                 bool rotated, const float* table) {
  for (std::int64_t i = 0; bias != nullptr && i < dim; ++i) x[i] += static_cast<double>(bias[i]);
  if (normed) norm_row(x, dim, norm, 0.25, 1e-5);
  for (std::int64_t pair = 0; rotated && pair < c.pairs; ++pair) {
    double& a = c.interleaved ? x[2 * pair] : x[pair];
    double& b = c.interleaved ? x[2 * pair + 1] : x[pair + c.pairing_dim / 2];
    const double cosine = static_cast<double>(table[2 * pair]), sine = static_cast<double>(table[2 * pair + 1]);
    const double turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }
}

bool check_qkv(GpuBench& bench, const QkvCase& c) {
  std::mt19937 random(static_cast<unsigned>(c.key_dim + c.heads));
  Cutter memory(bench, 8 << 20);
  const std::int64_t tokens = 7, pages = 5, positions = 50;
  const std::vector<std::int64_t> slots = {3,  -1,          c.block_size * 4 + c.block_size - 1, c.block_size * 2, 5,
                                           -1, c.block_size};
  std::vector<std::int64_t> place;
  for (std::int64_t t = 0; t < tokens; ++t) place.push_back(static_cast<std::int64_t>(random() % 50));
  const std::int64_t widths[3] = {c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * c.value_dim};
  const std::int64_t stride = widths[0] + widths[1] + widths[2] + 8;  // q, k and v of a token lie together
  const auto input16 = random_bf16(random, tokens * stride);
  const auto input = floats_of(input16);
  const auto bias = random_floats(random, stride), norms = random_floats(random, 2 * c.key_dim, 1, 0.2f);
  const auto table = random_floats(random, positions * c.pairs * 2);
  const std::int64_t element = c.fp8 ? 1 : 2;
  const std::int64_t page_elements = c.kv_heads * c.block_size * (c.key_dim + c.value_dim);
  const std::int64_t block_stride = page_elements * element + 64;
  const float key_scale = c.fp8 ? 0.75f : 1, value_scale = c.fp8 ? 1.5f : 1;
  const auto* device_input = c.input_float ? reinterpret_cast<const std::byte*>(memory.upload(input))
                                           : reinterpret_cast<const std::byte*>(memory.upload(input16));
  const auto* device_bias = memory.upload(bias);
  const auto* device_norms = memory.upload(norms);
  auto* cache = memory.upload(std::vector<std::uint8_t>(static_cast<std::size_t>(pages * block_stride), 0xa5));
  auto* query_out = memory.take<std::uint16_t>(tokens * widths[0]);
  const std::int64_t size = c.input_float ? 4 : 2;
  CudaQkvStoreParams p{};
  p.query = device_input;
  p.key = device_input + widths[0] * size;
  p.value = device_input + (widths[0] + widths[1]) * size;
  p.query_bias = c.bias ? device_bias : nullptr;
  p.key_bias = c.bias ? device_bias + widths[0] : nullptr;
  p.value_bias = c.bias ? device_bias + widths[0] + widths[1] : nullptr;
  p.query_norm = device_norms;
  p.key_norm = device_norms + c.key_dim;
  p.rope = c.rope ? memory.upload(table) : nullptr;
  p.positions = memory.upload(place);
  p.write_slots = memory.upload(slots);
  p.query_out = query_out;
  p.pages = cache;
  p.query_stride = p.key_stride = p.value_stride = stride;
  p.query_out_stride = widths[0];
  p.block_stride = block_stride;
  p.tokens = tokens;
  p.num_heads = static_cast<int>(c.heads);
  p.num_kv_heads = static_cast<int>(c.kv_heads);
  p.block_size = static_cast<int>(c.block_size);
  p.num_pairs = static_cast<int>(c.pairs);
  p.pairing_dim = static_cast<int>(c.pairing_dim);
  p.epsilon = 1e-5f;
  p.weight_shift = 0.25f;
  p.key_scale = key_scale;
  p.value_scale = value_scale;
  const int heads_a_warp = qkv_store_heads(c.key_dim, c.value_dim, c.interleaved);
  p.wide = heads_a_warp > 0 && (!c.rope || 2 * c.pairs == c.key_dim) ? 1 : 0;
  const std::int64_t heads_a_block = 4 * (p.wide != 0 ? heads_a_warp : 1);
  const auto blocks = static_cast<std::uint32_t>((c.heads + 2 * c.kv_heads + heads_a_block - 1) / heads_a_block);
  bench.kernel<CudaQkvStoreParams>(qkv_unit(bench, c), "qkv_store")
      .launch(bench.stream(), {.grid = {.x = blocks, .y = 3}, .block = {.x = 128}}, p);

  Values queries, stored;
  std::vector<float> got_stored;
  const auto got_cache = memory.download(cache, pages * block_stride);
  std::vector<bool> touched(got_cache.size(), false);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::int64_t at = 0;
    for (std::int64_t head = 0; head < c.heads + 2 * c.kv_heads; ++head) {
      const bool query = head < c.heads, value = head >= c.heads + c.kv_heads;
      const std::int64_t dim = value ? c.value_dim : c.key_dim;
      Values x(input.begin() + (t * stride + at), input.begin() + (t * stride + at + dim));
      expect_head(c, x.data(), dim, c.bias ? bias.data() + at : nullptr,
                  value ? nullptr : norms.data() + (query ? 0 : c.key_dim), value ? c.norm == 2 : c.norm >= 1,
                  !value && c.rope, table.data() + place[static_cast<std::size_t>(t)] * c.pairs * 2);
      at += dim;
      if (query) {
        queries.insert(queries.end(), x.begin(), x.end());
        continue;
      }
      const std::int64_t slot = slots[static_cast<std::size_t>(t)];
      if (slot < 0) continue;
      const std::int64_t kv_head = head - c.heads - (value ? c.kv_heads : 0);
      const std::int64_t first = kv_head * c.block_size * (c.key_dim + c.value_dim) +
                                 (value ? c.block_size * c.key_dim : 0) + slot % c.block_size * dim;
      for (std::int64_t i = 0; i < dim; ++i) {
        const auto byte = static_cast<std::size_t>(slot / c.block_size * block_stride + (first + i) * element);
        for (std::int64_t b = 0; b < element; ++b) touched[byte + static_cast<std::size_t>(b)] = true;
        const float factor = value ? value_scale : key_scale;
        if (c.fp8) {
          got_stored.push_back(fp8_e4m3_to_float(got_cache[byte]) * factor);
        } else {
          got_stored.push_back(bf16_to_float(static_cast<std::uint16_t>(got_cache[byte] | got_cache[byte + 1] << 8)));
        }
        stored.push_back(x[static_cast<std::size_t>(i)]);
      }
    }
  }
  std::int64_t stray = 0;
  for (std::size_t i = 0; i < got_cache.size(); ++i) stray += !touched[i] && got_cache[i] != 0xa5;
  const std::string what = pagoda::format("qkv dims {}/{} norm {} interleaved {} fp8 {}", c.key_dim, c.value_dim,
                                          c.norm, c.interleaved, c.fp8);
  bool good =
      report(what + " query", relative_error(floats_of(memory.download(query_out, tokens * widths[0])), queries), 3e-3);
  good &= report(what + " stored", relative_error(got_stored, stored), c.fp8 ? 4e-2 : 3e-3);
  good &= report(what + " bytes written elsewhere", static_cast<double>(stray), 0.5);
  return good;
}

device::CompileUnit gate_unit(const GpuBench& bench, int kind, bool input_float) {
  return bench.unit(
      "kernels/gated_activation/cuda_gated_activation.cu",
      {pagoda::format("KIND={}", kind), pagoda::format("INPUT_FLOAT={}", input_float ? 1 : 0), "THREADS=128"});
}

bool check_gate(GpuBench& bench, int kind, bool input_float) {
  std::mt19937 random(3);
  Cutter memory(bench, 4 << 20);
  const std::int64_t rows = 5, width = 1004, stride = 2 * width + 4;
  const auto both16 = random_bf16(random, rows * stride, 4);
  const auto both = floats_of(both16);
  const auto* input = input_float ? reinterpret_cast<const std::byte*>(memory.upload(both))
                                  : reinterpret_cast<const std::byte*>(memory.upload(both16));
  auto* output = memory.take<std::uint16_t>(rows * width);
  bench.kernel<CudaGatedActivationParams>(gate_unit(bench, kind, input_float), "gated_activation")
      .launch(bench.stream(), {.grid = {.x = 2, .y = 3}, .block = {.x = 128}},
              {input, input + width * (input_float ? 4 : 2), output, stride, stride, width, rows, width, 5.0f});
  Values want;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = static_cast<double>(both[static_cast<std::size_t>(r * stride + i)]);
      const double u = static_cast<double>(both[static_cast<std::size_t>(r * stride + width + i)]);
      const double clamped = std::min(g, 5.0);
      if (kind == 0) want.push_back(g / (1 + std::exp(-g)) * u);
      if (kind == 1) want.push_back(g * (1 + std::tanh(0.7978845608 * (g + 0.044715 * g * g * g))) / 2 * u);
      if (kind == 2) want.push_back(clamped / (1 + std::exp(-1.702 * clamped)) * (std::clamp(u, -5.0, 5.0) + 1));
    }
  }
  return report(pagoda::format("gated activation {} float {}", kind, input_float),
                relative_error(floats_of(memory.download(output, rows * width)), want), 3e-3);
}

device::CompileUnit residual_unit(const GpuBench& bench, bool update_float) {
  return bench.unit("kernels/residual/cuda_residual.cu",
                    {pagoda::format("UPDATE_FLOAT={}", update_float ? 1 : 0), "THREADS=256"});
}
/// `output` as the unit's constant: bf16, float, f16.
device::CompileUnit norm_unit(const GpuBench& bench, int output) {
  return bench.unit("kernels/rms_norm/cuda_rms_norm.cu", {"THREADS=640", pagoda::format("OUTPUT={}", output)});
}

bool check_residual(GpuBench& bench, bool update_float, bool norm) {
  std::mt19937 random(4);
  Cutter memory(bench, 4 << 20);
  const std::int64_t rows = 3, hidden = 2571, stride = hidden + 5;
  const auto update16 = random_bf16(random, rows * stride, 3);
  const auto update = floats_of(update16), before = random_floats(random, rows * hidden),
             weight = random_floats(random, hidden);
  auto* residual = memory.upload(before);
  const void* source = update_float ? static_cast<const void*>(memory.upload(update)) : memory.upload(update16);
  bench.kernel<CudaResidualParams>(residual_unit(bench, update_float), "residual_add")
      .launch(bench.stream(), {.grid = {.x = 3}, .block = {.x = 256}},
              {residual, source, norm ? memory.upload(weight) : nullptr, hidden, stride, hidden, 0.3f, 1e-6f, 1.0f});
  Values want;
  for (std::int64_t r = 0; r < rows; ++r) {
    Values x(update.begin() + r * stride, update.begin() + r * stride + hidden);
    if (norm) norm_row(x.data(), hidden, weight.data(), 1, 1e-6);
    for (std::int64_t i = 0; i < hidden; ++i) {
      want.push_back(static_cast<double>(before[static_cast<std::size_t>(r * hidden + i)]) +
                     static_cast<double>(0.3f) * x[static_cast<std::size_t>(i)]);
    }
  }
  return report(pagoda::format("residual float {} norm {}", update_float, norm),
                relative_error(memory.download(residual, rows * hidden), want), 2e-6);
}

bool check_norm(GpuBench& bench, int slices, int output) {
  const bool float_output = output == 1;
  const float factor = output == 2 ? 0.25f : 1.0f;
  std::mt19937 random(6);
  Cutter memory(bench, 4 << 20);
  const std::int64_t rows = 3, hidden = 2572;
  const auto before = random_floats(random, rows * hidden), weight = random_floats(random, hidden);
  const auto update = random_floats(random, std::max(1, slices) * rows * hidden);
  auto* residual = memory.upload(before);
  auto* wide = memory.take<float>(rows * hidden);
  auto* narrow = memory.take<std::uint16_t>(rows * hidden);
  const CudaRmsNormParams p{.residual = residual,
                            .update = slices > 0 ? memory.upload(update) : nullptr,
                            .weight = memory.upload(weight),
                            .output = float_output ? static_cast<void*>(wide) : narrow,
                            .hidden = hidden,
                            .residual_stride = hidden,
                            .update_stride = hidden,
                            .slice_stride = rows * hidden,
                            .output_stride = hidden,
                            .slices = slices,
                            .scale = 0.7f,
                            .epsilon = 1e-5f,
                            .weight_shift = 1,
                            .output_factor = factor,
                            .rows = nullptr};
  bench.kernel<CudaRmsNormParams>(norm_unit(bench, output), "rms_norm")
      .launch(bench.stream(), {.grid = {.x = 3}, .block = {.x = 640}, .shared_bytes = 2572 * 4}, p);
  Values sums = doubles_of(before);
  for (std::int64_t s = 0; s < slices; ++s) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += static_cast<double>(0.7f) * static_cast<double>(update[static_cast<std::size_t>(s) * sums.size() + i]);
    }
  }
  Values want = sums;
  for (std::int64_t r = 0; r < rows; ++r) norm_row(want.data() + r * hidden, hidden, weight.data(), 1, 1e-5);
  std::vector<float> got = memory.download(wide, rows * hidden);
  const auto halves = memory.download(narrow, rows * hidden);
  for (std::size_t i = 0; !float_output && i < got.size(); ++i) {
    got[i] = output == 2 ? f16_to_float(halves[i]) / factor : bf16_to_float(halves[i]);
  }
  constexpr double kBounds[] = {3e-3, 2e-6, 4e-4};
  bool good = report(pagoda::format("rms norm slices {} output {}", slices, output), relative_error(got, want),
                     kBounds[output]);
  good &= report("its residual", relative_error(memory.download(residual, rows * hidden), sums), 2e-6);
  return good;
}

device::CompileUnit softcap_unit(const GpuBench& bench) {
  return bench.unit("kernels/stages/cuda_softcap.cu", {"THREADS=256"});
}

bool check_softcap(GpuBench& bench) {
  std::mt19937 random(8);
  Cutter memory(bench, 4 << 20);
  const std::int64_t rows = 5, width = 3001, stride = 3003;
  const auto before = random_floats(random, rows * stride, 0, 40);
  auto* logits = memory.upload(before);
  bench.kernel<CudaSoftcapParams>(softcap_unit(bench), "softcap")
      .launch(bench.stream(), {.grid = {.x = 12, .y = 2}, .block = {.x = 256}},
              {logits, stride, rows, width, 30.0f, 1.0f});
  Values want = doubles_of(before);
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (static_cast<std::int64_t>(i) % stride < width) want[i] = 30 * std::tanh(want[i] / 30);
  }
  return report("softcap", relative_error(memory.download(logits, rows * stride), want), 1e-6);
}

int run() {
  GpuBench bench;
  std::vector<device::CompileUnit> units = {softcap_unit(bench)};
  for (const QkvCase& c : kQkvCases) units.push_back(qkv_unit(bench, c));
  for (const bool wide : {false, true}) {
    for (const int kind : {0, 1, 2}) units.push_back(gate_unit(bench, kind, wide));
    units.push_back(residual_unit(bench, wide));
  }
  for (const int output : {0, 1, 2}) units.push_back(norm_unit(bench, output));
  bench.compile(units);
  const bool blind = report("a comparison of 1 and 2 (must fail)", relative_error(Values{1}, Values{2}), 3e-3) |
                     report("a comparison of NaN (must fail)", relative_error(Values{NAN}, Values{2}), 3e-3);
  bool good = !blind;
  for (const QkvCase& c : kQkvCases) good &= check_qkv(bench, c);
  for (const bool wide : {false, true}) {
    for (const int kind : {0, 1, 2}) good &= check_gate(bench, kind, wide);
    for (const bool norm : {false, true}) good &= check_residual(bench, wide, norm);
  }
  for (const int output : {0, 1, 2}) {
    for (const int slices : {0, 1, 4}) good &= check_norm(bench, slices, output);
  }
  good &= check_softcap(bench);
  std::printf("%s\n", good ? "all good" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace pagoda::bench

int main() { return pagoda::bench::run(); }
