#include "gpu/parity/parity.h"

#include "gpu/receipt.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::parity {

using device::cuda::CudaDevice;
using device::cuda::CudaStream;
using device::cuda::DeviceAddress;
using tensor::DType;

namespace {

std::unique_ptr<Gpu>& the_gpu() {
  static std::unique_ptr<Gpu> gpu;
  return gpu;
}

int reference_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

Gpu::Gpu(std::unique_ptr<CudaDevice> device)
    : device_(std::move(device)),
      stream_(std::make_unique<CudaStream>(device_->context())),
      reference_(device::reference_caps()),
      pool_(reference_threads(), false),
      host_(pool_) {}

void Gpu::open(const std::string& cache_folder) {
  auto device = CudaDevice::open(0, gpu::make_compiler(cache_folder));
  PAGODA_CHECK(device.ok(), "{}", device.error().message);
  the_gpu().reset(new Gpu(std::move(*device)));
}

Gpu& Gpu::get() {
  PAGODA_CHECK(the_gpu() != nullptr, "no GPU is open");
  return *the_gpu();
}

void Gpu::fill(std::byte* at, std::uint8_t value, std::int64_t bytes) {
  const auto& context = *device_->context();
  context.driver().check(context.api().set_bytes_async(reinterpret_cast<DeviceAddress>(at), value,
                                                       static_cast<std::size_t>(bytes), stream_->handle()),
                         "filling");
}

void Gpu::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto& context = *device_->context();
  context.driver().check(
      context.api().copy_on_device_async(reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from),
                                         static_cast<std::size_t>(bytes), stream_->handle()),
      "copying");
}

void Gpu::download(void* to, const std::byte* from, std::int64_t bytes) {
  if (!staging_ || staging_->bytes() < bytes) {
    staging_.emplace(
        device::cuda::PinnedBytes::create(device_->context(), std::max<std::int64_t>(bytes, 1 << 22)).value());
  }
  staging_->download(0, bytes, from, *stream_);
  std::memcpy(to, staging_->host(), static_cast<std::size_t>(bytes));
}

Matrix::Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride)
    : buffer(rows * std::max(stride, cols) * tensor::size_of(dtype)),
      view{.data = buffer.data(), .dtype = dtype, .rows = rows, .cols = cols, .stride = std::max(stride, cols)} {}

void Matrix::write(const std::vector<float>& values) {
  PAGODA_CHECK(std::ssize(values) == view.rows * view.cols, "{} values", values.size());
  std::vector<std::uint16_t> narrow(static_cast<std::size_t>(view.rows * view.stride), 0xffff);
  std::vector<float> wide(narrow.size(), float_of_bits(0xffffffff));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    for (std::int64_t c = 0; c < view.cols; ++c) {
      const float value = values[static_cast<std::size_t>(r * view.cols + c)];
      const auto at = static_cast<std::size_t>(r * view.stride + c);
      narrow[at] = float_to_bf16(value);
      wide[at] = value;
      PAGODA_CHECK(view.dtype != DType::kBf16 || !std::isfinite(value) || bf16_to_float(narrow[at]) == value,
                   "{} is no bf16", value);
    }
  }
  view.dtype == DType::kBf16 ? buffer.write(narrow) : buffer.write(wide);
}

std::vector<float> Matrix::read() const {
  std::vector<float> out;
  const bool narrow = view.dtype == DType::kBf16;
  const std::vector<std::uint16_t> bf16 = narrow ? buffer.read<std::uint16_t>() : std::vector<std::uint16_t>();
  const std::vector<float> wide = narrow ? std::vector<float>() : buffer.read<float>();
  for (std::int64_t r = 0; r < view.rows; ++r) {
    for (std::int64_t c = 0; c < view.stride; ++c) {
      const auto at = static_cast<std::size_t>(r * view.stride + c);
      if (c < view.cols) {
        out.push_back(narrow ? bf16_to_float(bf16[at]) : wide[at]);
      } else if (narrow ? bf16[at] != 0xffff : bits_of_float(wide[at]) != 0xffffffff) {
        ADD_FAILURE() << "written beyond the end of row " << r;
      }
    }
  }
  return out;
}

void run_every_way(const std::function<void()>& reset, const std::function<void(CudaStream&)>& launch,
                   const std::function<std::vector<float>(const std::string&)>& check) {
  CudaStream& stream = Gpu::get().stream();
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  reset();
  launch(stream);
  const std::vector<float> eager = check("at once");
  device::cuda::GraphCapture capture(stream);
  launch(stream);
  const device::cuda::Graph graph = capture.finish();
  for (const char* way : {"replayed", "replayed again"}) {
    reset();
    graph.launch(stream);
    EXPECT_TRUE(same(check(way), eager)) << "other bits when it is " << way;
  }
  stream.synchronize();
}

GpuWeight gpu_weight(const quant::Format& format, const kernels::Layout& layout, kernels::WeightShape shape,
                     const std::vector<std::byte>& rows, const std::vector<float>& bias) {
  CudaDevice& device = Gpu::get().device();
  const auto bytes = static_cast<std::int64_t>(layout.packed_bytes(format, shape));
  GpuWeight out{.packed = device.allocate(bytes, "a weight").value(), .bias = nullptr, .weight = {}};
  Gpu::get().fill(out.packed.data(), 0xff, bytes);
  Gpu::get().stream().synchronize();
  auto packers = kernels::make_packers(device, 1).value();
  // Two ranges of rows, as a loader with a small buffer packs them.
  const std::int64_t cut = std::min(shape.n, round_up(shape.n / 2, layout.row_multiple));
  for (const auto& [first, end] : {std::pair(std::int64_t{0}, cut), std::pair(cut, shape.n)}) {
    if (first == end) continue;
    const std::int64_t part = (end - first) * format.row_bytes(shape.k);
    const auto staging = packers[0]->staging(part).value();
    std::memcpy(staging.data(), rows.data() + first * format.row_bytes(shape.k), static_cast<std::size_t>(part));
    packers[0]->pack(format, layout, shape, first, end - first, out.packed.data());
  }
  packers[0]->finish();
  if (!bias.empty()) out.bias = std::make_unique<Buffer>(Buffer::of(bias));
  out.weight = {&format, &layout, shape, out.packed.data(), bias.empty() ? nullptr : out.bias->as<float>()};
  return out;
}

std::unique_ptr<WeightPair> make_weight(const WeightCase& c, const kernels::Layout& layout, std::int64_t k,
                                        unsigned seed) {
  const quant::Format& format = *quant::find_format(c.format);
  const kernels::WeightShape shape{c.n, k};
  std::vector<std::byte> rows = kernels::testing::random_rows(format, shape, seed);
  for (std::int64_t row = 0; c.row_scales && row < c.n; ++row) {  // a block begins with its scale
    std::byte* const first = rows.data() + row * format.row_bytes(k);
    for (std::int64_t at = 0; at < format.row_bytes(k); at += format.block_bytes) {
      std::memcpy(first + at, first, sizeof(float));
    }
  }
  auto pair = std::make_unique<WeightPair>();
  for (std::int64_t i = 0; c.bias && i < c.n; ++i) pair->bias.push_back(static_cast<float>(i % 7) * 0.125f - 0.3f);
  pair->gpu = gpu_weight(format, layout, shape, rows, pair->bias);
  note_units(kernels::pack_units(format, layout, Gpu::get().caps()));
  pair->decoded = std::make_unique<kernels::testing::AlignedBytes>(static_cast<std::size_t>(c.n * k) * sizeof(float));
  auto* const decoded = reinterpret_cast<float*>(pair->decoded->data());
  for (std::int64_t row = 0; row < c.n; ++row) {
    float* const values = decoded + row * k;
    format.decode_row(rows.data() + row * format.row_bytes(k), k, values);
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(values[i]) * values[i];
    pair->norms.push_back(std::sqrt(sum));
  }
  pair->reference = {&format, &kernels::kRowsF32Layout, shape, pair->decoded->data(),
                     pair->bias.empty() ? nullptr : pair->bias.data()};
  return pair;
}

Weights make_weights(const std::vector<WeightCase>& weights, std::int64_t k, std::int64_t max_m, unsigned seed) {
  Weights out;
  out.gpu = planned(weights, k, max_m, Gpu::get().caps());
  out.reference = reference_product(out.gpu);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    out.pairs.push_back(make_weight(weights[i], *out.gpu.weights[i].layout, k, seed + static_cast<unsigned>(i)));
  }
  return out;
}

std::vector<float> norm_weights(std::int64_t count, unsigned seed) {
  std::vector<float> weights = normal_floats(count, seed, 0.3);
  for (float& weight : weights) weight += 1;
  return weights;
}

std::vector<float> normal_floats(std::int64_t count, unsigned seed, double scale) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = static_cast<float>(normal(random));
  return out;
}

std::vector<float> bf16_floats(std::vector<float> values) {
  for (float& x : values) x = bf16_to_float(float_to_bf16(x));
  return values;
}

double row_error(const std::vector<float>& got, const std::vector<double>& want, std::int64_t width) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  const auto columns = static_cast<std::size_t>(width);
  for (std::size_t row = 0; row < want.size(); row += columns) {
    double sum = 0;
    for (std::size_t i = row; i < row + columns; ++i) sum += want[i] * want[i];
    const double size = std::sqrt(sum / static_cast<double>(width)) + 1e-30;
    for (std::size_t i = row; i < row + columns; ++i) {
      const double error = std::fabs(static_cast<double>(got[i]) - want[i]) / std::max(size, std::fabs(want[i]));
      if (!(error <= worst)) worst = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

void expect_close(const std::string& operation, const std::string& what, double bound, std::vector<float> got,
                  const std::function<double(const std::vector<float>&)>& error) {
  const double found = error(got);
  gpu::note_error(operation, found);
  EXPECT_LE(found, bound) << operation << ", " << what;
  if (!(found <= bound)) return;
  float largest = 0;
  for (const float value : got) largest = std::max(largest, std::fabs(value));
  for (const std::size_t at : {std::size_t{0}, got.size() / 2, got.size() - 1}) {
    const float before = got[at];
    got[at] += 1 + largest;
    EXPECT_GT(error(got), bound) << operation << ", " << what << ": the comparison is blind to element " << at;
    got[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_GT(error(got), bound) << operation << ", " << what << ": the comparison is blind to NaN";
    got[at] = before;
  }
}

void note_units(const std::vector<CompileUnit>& units) { gpu::note_units(units); }

}  // namespace pagoda::parity
