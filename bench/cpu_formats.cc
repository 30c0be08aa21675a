// How near each weight format comes to the memory's read bandwidth in decode: the products of a dummy model of at least
// 1 GB, one token, beside a plain read of the very same bytes. Prints one JSON object a format, best first kernel.
// Usage: cpu_formats [--threads N] [--rounds N] [--precision standard|high] [--cpu avx2|avx512] [--prefill M] [--gb G]
//                    [FORMAT…]
//
// Passes over the weights and plain reads of them take turns. A product's best time of all rounds counts, as does the
// best of each read: other work on the machine disturbs either alike. The rate of
// --prefill M tokens is of the CPU time that one layer takes. `load` is the system's over a minute.
#include <immintrin.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

#include "base/checked.h"
#include "device/caps.h"
#include "unit/kernels/linear_cases.h"

namespace {

using namespace pagoda;
using namespace pagoda::kernels;
using namespace pagoda::kernels::testing;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Of the formats people run on a CPU: what bench is asked for without names.
constexpr const char* kFormats[] = {"q4_k",  "q5_k",         "q6_k",       "q8_0",      "q4_0",  "iq4_xs",
                                    "mxfp4", "affine4_g64",  "gptq4_g128", "awq4_g128", "nvfp4", "affine8_g64",
                                    "mxfp8", "fp8_block128", "fp8_e4m3",   "bf16"};

struct Options {
  int threads = ThreadPool::default_threads();
  int rounds = 12;
  Precision precision = Precision::kStandard;
  std::int64_t prefill = 0;
  double gb = 1;
  device::CpuIsa isa = device::detect_isa();
  std::vector<std::string> formats;
};

/// The products of one layer of Llama-3.2-1B.
struct Product {
  std::vector<std::int64_t> n;
  std::int64_t k;
};
const Product kLayer[] = {{{2048, 512, 512}, 2048}, {{2048}, 2048}, {{8192, 8192}, 2048}, {{2048}, 8192}};

/// Memory as the program's weights have it: huge pages where the system gives them.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    PAGODA_CHECK(data_ != MAP_FAILED);
    (void)madvise(data_, bytes, MADV_HUGEPAGE);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(data_, bytes_); }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Of all threads together: unlike memory, the operations of many tokens are not slower for what else runs.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

constexpr std::int64_t kUnitBytes = std::int64_t{64} << 10;

struct Read {
  const std::byte* data;
  std::int64_t* sinks;
};

[[gnu::target("avx2")]] void read(const Read& params, device::HostRange range) {
  const std::byte* begin = params.data + range.begin * kUnitBytes;
  const std::byte* end = params.data + range.end * kUnitBytes;
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (const std::byte* at = begin; at < end; at += 256) {
    for (int j = 0; j < 8; ++j) {
      sums[j] = _mm256_add_epi64(sums[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at) + j));
    }
  }
  for (auto& sum : sums) params.sinks[range.worker * 8] += _mm256_extract_epi64(sum, 0);
}

/// A layer's weights in a format, packed once.
class Packed {
 public:
  Packed(const quant::Format& format, const LinearKernel& kernel) : layout_(kernel.layout(format)) {
    for (const Product& product : kLayer) {
      for (std::size_t w = 0; w < product.n.size(); ++w) {
        const WeightShape shape{product.n[w], product.k};
        weights_.push_back(pack_weight(format, *layout_, shape, random_rows(format, shape, 17), {}));
        bytes_ += round_up(weights_.back().bytes.size(), kLayoutAlignment);
      }
      ends_.push_back(bytes_);
    }
  }

  std::size_t bytes() const { return bytes_; }

  /// Where the bytes of product `i` begin.
  std::size_t begin(std::size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }

  /// Copies the weights to `at`; the result's are those copies, in the order of kLayer.
  std::vector<LinearWeight> copy_to(std::byte* at) const {
    std::vector<LinearWeight> copies;
    for (const OwnedWeight& owned : weights_) {
      std::memcpy(at, owned.bytes.data(), owned.bytes.size());
      copies.push_back(owned.weight);
      copies.back().data = at;
      at += round_up(owned.bytes.size(), kLayoutAlignment);
    }
    return copies;
  }

 private:
  const Layout* layout_;
  std::vector<OwnedWeight> weights_;
  std::vector<std::size_t> ends_;
  std::size_t bytes_ = 0;
};

Case case_of(const quant::Format& format, const Product& product, std::int64_t max_m) {
  return {std::vector<std::string>(product.n.size(), std::string(format.name)), product.n, product.k, max_m, false};
}

/// One layer's steps, and room for what they read and write.
class Layer {
 public:
  Layer(const quant::Format& format, const LinearKernel& kernel, const Options& options,
        std::span<const LinearWeight> weights)
      : max_m_(std::max<std::int64_t>(1, options.prefill)), scratch_(0) {
    device::HostDevice device({.kind = device::DeviceKind::kCpu, .isa = options.isa, .name = "bench"});
    std::size_t scratch = 0;
    for (const Product& product : kLayer) {
      const LinearProblem problem = problem_of(case_of(format, product, max_m_), kernel, options.precision);
      auto step = kernel.prepare(problem, weights.first(product.n.size()), device);
      PAGODA_CHECK(step.ok());
      steps_.push_back(std::move(step).value());
      weights = weights.subspan(product.n.size());
      scratch = std::max(scratch, kernel.scratch_bytes(problem, device.caps()));
    }
    scratch_ = AlignedBytes(scratch);
    input_ = activations(max_m_, 8192, Activations::kNormal, 3);
    output_.resize(static_cast<std::size_t>(max_m_ * 16384));
  }

  /// Product `i` of the layer with m tokens.
  void launch(std::size_t i, std::int64_t m, device::HostStream& stream) const {
    const Product& product = kLayer[i];
    LinearArgs args{.input = tensor::matrix(input_.data(), m, product.k), .outputs = {}, .scratch = scratch_.data()};
    float* out = output_.data();
    for (std::size_t w = 0; w < product.n.size(); ++w) {
      args.outputs[w] = tensor::matrix(out, m, product.n[w]);
      out += m * product.n[w];
    }
    steps_[i]->launch(args, stream);
  }

 private:
  std::int64_t max_m_;
  AlignedBytes scratch_;
  std::vector<std::unique_ptr<LinearStep>> steps_;
  mutable std::vector<float> input_;
  mutable std::vector<float> output_;
};

void keep_best(std::vector<double>& bests, std::size_t i, double seconds) {
  if (bests.size() <= i) bests.resize(i + 1, 1e9);
  bests[i] = std::min(bests[i], seconds);
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void bench(const std::string& name, const Options& options, device::HostStream& stream) {
  const quant::Format* format = quant::find_format(name);
  if (format == nullptr) {
    std::fprintf(stderr, "cpu_formats: no format is named %s\n", name.c_str());
    std::exit(2);
  }
  LinearProblem problem{.weights = {}, .num_weights = 1, .k = 2048, .precision = options.precision, .max_m = 1};
  problem.weights[0] = {.format = format, .n = 2048};
  const LinearKernel* kernel =
      first_linear_kernel(problem, {.kind = device::DeviceKind::kCpu, .isa = options.isa, .name = "bench"});
  const Packed packed(*format, *kernel);
  const std::size_t layers = static_cast<std::size_t>(options.gb * 1e9) / packed.bytes() + 1;
  const Pages pages(round_up(layers * packed.bytes(), static_cast<std::size_t>(kUnitBytes)));
  std::vector<Layer> model;
  for (std::size_t i = 0; i < layers; ++i) {
    model.emplace_back(*format, *kernel, options, packed.copy_to(pages.data() + i * packed.bytes()));
  }
  std::vector<std::int64_t> sinks(static_cast<std::size_t>(stream.num_workers()) * 8);
  constexpr std::size_t kProducts = std::size(kLayer);
  std::vector<double> reads, passes, prefill;
  std::int64_t read_units = 0;  // all but the last bytes of each product
  for (int round = 0; round < options.rounds; ++round) {
    read_units = 0;
    for (std::size_t i = 0; i < layers * kProducts; ++i) {
      const std::size_t product = i % kProducts;
      const auto units = static_cast<std::int64_t>(packed.begin(product + 1) - packed.begin(product)) / kUnitBytes;
      read_units += units;
      const std::byte* data = pages.data() + i / kProducts * packed.bytes() + packed.begin(product);
      const double start = now();
      stream.launch(&read, Read{data, sinks.data()}, units, ceil_div<std::int64_t>(units, stream.num_workers()));
      keep_best(reads, i, now() - start);
    }
    for (std::size_t i = 0; i < layers * kProducts; ++i) {
      const double start = now();
      model[i / kProducts].launch(i % kProducts, 1, stream);
      keep_best(passes, i, now() - start);
    }
  }
  for (int round = 0; options.prefill > 0 && round < 4; ++round) {
    for (std::size_t i = 0; i < std::size(kLayer); ++i) {
      const double start = cpu_seconds();
      model[0].launch(i, options.prefill, stream);
      keep_best(prefill, i, (cpu_seconds() - start) / stream.num_workers());
    }
  }
  const double bytes = static_cast<double>(layers * packed.bytes());
  const double read_gb_s = static_cast<double>(read_units * kUnitBytes) / sum(reads) / 1e9;
  const double gb_s = bytes / sum(passes) / 1e9;
  double weights = 0;
  for (const Product& product : kLayer) {
    weights += static_cast<double>(product.k * std::accumulate(product.n.begin(), product.n.end(), std::int64_t{0}));
  }
  double load = 0;
  (void)getloadavg(&load, 1);
  std::printf(
      "{\"op\": \"linear\", \"candidate\": \"%s\", \"format\": \"%s\", \"precision\": \"%s\", \"threads\": %d, "
      "\"layers\": %zu, \"bytes\": %.0f, \"ms\": %.2f, \"gb_s\": %.2f, \"read_gb_s\": %.2f, \"ceiling_share\": %.3f, "
      "\"gweights_s\": %.2f",
      kernel->name.data(), name.c_str(), to_string(options.precision).data(), stream.num_workers(), layers, bytes,
      sum(passes) * 1e3, gb_s, read_gb_s, gb_s / read_gb_s, weights * static_cast<double>(layers) / sum(passes) / 1e9);
  if (options.prefill > 0) {
    std::printf(", \"prefill\": %ld, \"prefill_gop_s\": %.1f", static_cast<long>(options.prefill),
                2 * weights * static_cast<double>(options.prefill) / sum(prefill) / 1e9);
  }
  std::printf(", \"load\": %.1f}\n", load);
  std::fflush(stdout);
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      options.formats.emplace_back(name);
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    if (name == "--threads")
      options.threads = std::atoi(value);
    else if (name == "--rounds")
      options.rounds = std::atoi(value);
    else if (name == "--prefill")
      options.prefill = std::atoi(value);
    else if (name == "--gb")
      options.gb = std::atof(value);
    else if (name == "--cpu")
      options.isa = std::string_view(value) == "avx2" ? device::CpuIsa::kAvx2 : device::CpuIsa::kAvx512;
    else if (name == "--precision")
      options.precision = *value == 'h' ? Precision::kHigh : Precision::kStandard;
    else {
      std::fprintf(stderr, "cpu_formats: %s is no option\n", argv[i]);
      std::exit(2);
    }
  }
  if (options.formats.empty()) options.formats.assign(std::begin(kFormats), std::end(kFormats));
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  ThreadPool pool(std::max(options.threads, 1));
  device::HostStream stream(pool);
  for (const std::string& format : options.formats) bench(format, options, stream);
  return 0;
}
