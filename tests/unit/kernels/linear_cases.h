// What the tests of linear and embed share: random weights of any format, activations, one launch, errors.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "base/thread_pool.h"
#include "kernels/linear/linear.h"

namespace pagoda::kernels::testing {

/// Memory aligned as packed weights must be, filled with a byte that no result consists of.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes = 0, int fill = 0xa5)
      : size_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64))) {
    std::memset(data_.get(), fill, bytes);
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Bytes of a block that hold a scale or an offset of 16 bits.
inline std::vector<int> half_fields(std::string_view format) {
  if (format.starts_with("affine")) return {0, 2};
  if (format == "q4_1" || format == "q5_1" || format == "q4_k" || format == "q5_k") return {0, 2};
  if (format == "q2_k") return {80, 82};
  if (format == "q3_k") return {108};
  if (format == "q6_k") return {208};
  if (format == "f16" || format == "bf16" || format[0] == 'q' || format[0] == 'i') return {0};
  return {};
}

/// Overwrites the bytes from `begin` on that are no number of an 8-bit float.
inline void make_finite(std::span<std::byte> bytes, bool e5m2) {
  for (std::byte& byte : bytes) {
    const int magnitude = std::to_integer<int>(byte) & 0x7f;
    if (e5m2 ? magnitude >= 0x7c : magnitude == 0x7f) byte = std::byte{0x31};
  }
}

/// Rows of random codes with scales of a plausible size and either sign.
inline std::vector<std::byte> random_rows(const quant::Format& format, WeightShape shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> magnitude(0.002f, 0.03f);
  const auto scale = [&] { return (random() & 1) != 0 ? magnitude(random) : -magnitude(random); };
  std::vector<std::byte> rows(static_cast<std::size_t>(shape.n * format.row_bytes(shape.k)));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  const std::string_view name = format.name;
  const bool halves = name == "f16" || name.ends_with("_f16") || name[0] == 'q' || name[0] == 'i';
  const std::vector<int> fields = half_fields(name);
  for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(format.block_bytes)) {
    const auto block = std::span(rows).subspan(at, static_cast<std::size_t>(format.block_bytes));
    const auto put_float = [&](float value) { std::memcpy(block.data(), &value, sizeof value); };
    for (int field : fields) {
      const std::uint16_t half = halves ? float_to_f16(scale()) : float_to_bf16(scale());
      std::memcpy(block.data() + field, &half, sizeof half);
    }
    if (name == "mxfp4" || name == "mxfp8") block[0] = static_cast<std::byte>(118 + random() % 6);
    if (name == "mxfp8") make_finite(block.subspan(1), false);
    if (name == "f32" || name.starts_with("bnb")) put_float(scale());
    if (name.starts_with("fp8")) {
      put_float(scale() / 32);
      make_finite(block.subspan(4), name.starts_with("fp8_e5m2"));
    }
    if (name == "nvfp4") {
      put_float(scale() / 32);
      make_finite(block.subspan(4, 16), false);
    }
    if (name.starts_with("packed")) {  // the zero point below the scale
      const std::uint32_t zero = static_cast<std::uint32_t>(random()) & ((1u << (name[6] - '0')) - 1);
      put_float(float_of_bits((bits_of_float(scale() / 8) & 0xffffff00u) | zero));
    }
  }
  return rows;
}

/// A weight with the memory it lends.
struct OwnedWeight {
  AlignedBytes bytes;
  std::vector<float> bias;
  LinearWeight weight;
};

inline OwnedWeight pack_weight(const quant::Format& format, const Layout& layout, WeightShape shape,
                               const std::vector<std::byte>& rows, std::vector<float> bias) {
  OwnedWeight owned{AlignedBytes(layout.packed_bytes(format, shape)), std::move(bias), {}};
  // Two ranges of rows, as a loader with a small buffer packs them.
  const std::int64_t cut =
      std::min(shape.n, (shape.n / 2 + layout.row_multiple - 1) / layout.row_multiple * layout.row_multiple);
  layout.pack(format, shape, 0, cut, rows.data(), owned.bytes.data());
  if (cut < shape.n) {
    layout.pack(format, shape, cut, shape.n - cut, rows.data() + cut * format.row_bytes(shape.k), owned.bytes.data());
  }
  owned.weight = {&format, &layout, shape, owned.bytes.data(), owned.bias.empty() ? nullptr : owned.bias.data()};
  return owned;
}

/// A problem with the file bytes of its weights.
struct Case {
  std::vector<std::string> formats;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  std::int64_t m = 0;
  bool bias = false;

  std::string name() const {
    std::string text;
    for (std::size_t w = 0; w < n.size(); ++w) text += formats[w] + " n" + std::to_string(n[w]) + " ";
    return text + "k" + std::to_string(k) + " m" + std::to_string(m);
  }
};

inline device::DeviceCaps caps_of(const LinearKernel& kernel, device::CpuIsa best) {
  if (kernel.name == "reference") return device::reference_caps();
  return {.kind = device::DeviceKind::kCpu, .isa = best, .name = "test"};
}

inline LinearProblem problem_of(const Case& test, const LinearKernel& kernel, Precision precision) {
  LinearProblem problem;
  problem.num_weights = static_cast<int>(test.n.size());
  for (std::size_t w = 0; w < test.n.size(); ++w) {
    const quant::Format* format = quant::find_format(test.formats[w]);
    problem.weights[w] = {format, kernel.layout(*format), test.n[w], test.bias};
  }
  problem.k = test.k;
  problem.max_m = test.m;
  problem.precision = precision;
  problem.activation = kernel.name == "reference" ? tensor::DType::kF64 : tensor::DType::kF32;
  return problem;
}

/// A prepared problem and everything it lends.
class Prepared {
 public:
  Prepared(const Case& test, const LinearKernel& kernel, Precision precision, device::CpuIsa isa)
      : test_(test), problem_(problem_of(test, kernel, precision)), device_(caps_of(kernel, isa)), scratch_(0) {
    std::vector<LinearWeight> weights;
    for (std::size_t w = 0; w < test.n.size(); ++w) {
      const quant::Format& format = *problem_.weights[w].format;
      const WeightShape shape{test.n[w], test.k};
      std::vector<float> bias;
      for (std::int64_t i = 0; test.bias && i < shape.n; ++i) bias.push_back(static_cast<float>(i % 7) * 0.125f - 0.3f);
      owned_.push_back(pack_weight(format, *problem_.weights[w].layout, shape,
                                   random_rows(format, shape, static_cast<unsigned>(17 + w)), std::move(bias)));
      weights.push_back(owned_.back().weight);
    }
    scratch_ = AlignedBytes(kernel.scratch_bytes(problem_, device_.caps()));
    auto prepared = kernel.prepare(problem_, weights, device_);
    PAGODA_CHECK(prepared.ok());
    step_ = std::move(prepared).value();
  }

  const std::vector<OwnedWeight>& weights() const { return owned_; }

  /// Seconds of one launch.
  double time(const std::vector<float>& input, device::HostStream& stream) const {
    double seconds = 0;
    run_timed(input, stream, false, &seconds);
    return seconds;
  }

  /// Rows of `input` (m × k) to the outputs, side by side in one matrix whose rows end in a canary.
  template <class T>
  std::vector<T> run(const std::vector<T>& input, device::HostStream& stream, bool captured = false) const {
    return run_timed(input, stream, captured, nullptr);
  }

 private:
  template <class T>
  std::vector<T> run_timed(const std::vector<T>& input, device::HostStream& stream, bool captured,
                           double* seconds) const {
    const std::int64_t m = static_cast<std::int64_t>(input.size()) / test_.k;
    std::int64_t width = 0;
    for (std::int64_t n : test_.n) width += n;
    std::vector<T> out(static_cast<std::size_t>(m * (width + 1)), T{-777});
    std::vector<T> in = input;
    LinearArgs args{.input = tensor::matrix(in.data(), m, test_.k), .outputs = {}, .scratch = scratch_.data()};
    std::int64_t column = 0;
    for (std::size_t w = 0; w < test_.n.size(); ++w) {
      args.outputs[w] = {out.data() + column, tensor::dtype_of<T>(), m, test_.n[w], width + 1};
      column += test_.n[w];
    }
    if (captured) {
      device::HostGraph graph;
      stream.begin_capture(graph);
      step_->launch(args, stream);
      stream.end_capture();
      stream.replay(graph);
      std::fill(out.begin(), out.end(), T{-777});
      stream.replay(graph);
    } else {
      const auto start = std::chrono::steady_clock::now();
      step_->launch(args, stream);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (seconds != nullptr) *seconds = took.count();
    }
    for (std::int64_t row = 0; row < m; ++row)
      PAGODA_CHECK(out[row * (width + 1) + width] == T{-777}, "written past row {}", row);
    return out;
  }

  Case test_;
  LinearProblem problem_;
  device::HostDevice device_;
  std::vector<OwnedWeight> owned_;
  AlignedBytes scratch_;
  std::unique_ptr<LinearStep> step_;
};

enum class Activations { kNormal, kExactInt8, kExactInt16 };

/// Normal: as activations are, with an outlier here and there. Exact: integers that a group's 8- or 16-bit codes hold
/// exactly, so that nothing but the products' own rounding is left.
inline std::vector<float> activations(std::int64_t m, std::int64_t k, Activations kind, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, 1.0f);
  const int most = kind == Activations::kExactInt8 ? 127 : 32639;
  std::uniform_int_distribution<int> code(-most, most);
  std::vector<float> x(static_cast<std::size_t>(m * k));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (kind == Activations::kNormal) {
      x[i] = normal(random) * (random() % 97 == 0 ? 9.0f : 1.0f);
    } else {
      x[i] = static_cast<float>(i % static_cast<std::size_t>(k) % 32 == 5 ? most : code(random));
    }
  }
  return x;
}

/// The largest |got − want| over ‖w_row‖·‖x_row‖, over all outputs; infinite if they are not finite in the same places.
inline double worst_error(const std::vector<float>& got, const std::vector<double>& want, const std::vector<float>& x,
                          const Prepared& reference, const Case& test) {
  std::vector<double> weight_norms;
  for (const OwnedWeight& owned : reference.weights()) {
    const auto* rows = reinterpret_cast<const float*>(owned.weight.data);
    for (std::int64_t row = 0; row < owned.weight.shape.n; ++row) {
      double sum = 0;
      for (std::int64_t c = 0; c < test.k; ++c)
        sum += static_cast<double>(rows[row * test.k + c]) * rows[row * test.k + c];
      weight_norms.push_back(std::sqrt(sum) + 1e-30);
    }
  }
  const std::int64_t width = static_cast<std::int64_t>(weight_norms.size()) + 1;
  double worst = 0;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(x.size()) / test.k; ++row) {
    double sum = 0;
    for (std::int64_t c = 0; c < test.k; ++c) sum += static_cast<double>(x[row * test.k + c]) * x[row * test.k + c];
    for (std::int64_t column = 0; column + 1 < width; ++column) {
      const double value = static_cast<double>(got[row * width + column]);
      const double truth = want[row * width + column];
      if (std::isfinite(value) != std::isfinite(truth)) return std::numeric_limits<double>::infinity();
      if (!std::isfinite(truth)) continue;
      // A bias is added after the product: it brings the rounding of its own size.
      const double size = std::sqrt(sum) * weight_norms[column] + 1e-3;
      worst = std::max(worst, std::fabs(value - truth) / size);
    }
  }
  return worst;
}

inline std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace pagoda::kernels::testing
