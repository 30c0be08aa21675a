// What the parity tests on a GPU share: the device with its units compiled at once, memory that is poisoned before each
// run, the three ways of a launch, errors, and the receipt.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/numbers.h"
#include "base/thread_pool.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/graph.h"
#include "gpu/parity/products.h"
#include "kernels/candidate.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/pack.h"
#include "unit/kernels/linear_cases.h"

namespace pagoda::parity {

/// The GPU, and the reference that it is compared with. One for the whole program, made before any test.
class Gpu {
 public:
  /// Opens the first GPU; `cache_folder` keeps what is compiled, if it is not empty.
  static void open(const std::string& cache_folder);
  static Gpu& get();

  device::cuda::CudaDevice& device() { return *device_; }
  device::cuda::CudaStream& stream() { return *stream_; }
  const device::DeviceCaps& caps() const { return device_->caps(); }

  device::HostDevice& reference() { return reference_; }
  device::HostStream& host() { return host_; }

  void fill(std::byte* at, std::uint8_t value, std::int64_t bytes);  ///< starts it, as the next one
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes);
  void download(void* to, const std::byte* from, std::int64_t bytes);  ///< waits

 private:
  explicit Gpu(std::unique_ptr<device::cuda::CudaDevice> device);

  std::unique_ptr<device::cuda::CudaDevice> device_;
  std::unique_ptr<device::cuda::CudaStream> stream_;
  std::optional<device::cuda::PinnedBytes> staging_;
  device::HostDevice reference_;
  ThreadPool pool_;
  device::HostStream host_;
};

/// Memory of the GPU: either inputs, or what a run is to write, which is NaN before each run.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes)
      : memory_(Gpu::get().device().allocate(std::max<std::int64_t>(bytes, 16), "a test").value()), bytes_(bytes) {
    poison();
    Gpu::get().stream().synchronize();  // what others write here goes by streams of their own
  }

  template <class T>
  static Buffer of(const std::vector<T>& values) {
    Buffer buffer(std::ssize(values) * static_cast<std::int64_t>(sizeof(T)));
    buffer.write(values);
    return buffer;
  }

  template <class T>
  void write(const std::vector<T>& values) {
    Gpu::get().stream().synchronize();
    Gpu::get().device().upload(memory_.data(), values.data(),
                               std::ssize(values) * static_cast<std::int64_t>(sizeof(T)));
  }

  /// Bytes of ones: NaN as bf16, f16, f32 and e4m3, and −1 as an integer.
  void poison() { Gpu::get().fill(memory_.data(), 0xff, memory_.bytes()); }

  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(static_cast<std::size_t>(bytes_) / sizeof(T));
    Gpu::get().download(values.data(), memory_.data(), bytes_);
    return values;
  }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }
  std::byte* data() const { return memory_.data(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  device::Memory memory_;
  std::int64_t bytes_ = 0;
};

/// A matrix of bf16 or float on the GPU whose rows are `stride` elements apart; what lies between them stays as it was.
struct Matrix {
  Buffer buffer;
  tensor::MatrixView view;

  Matrix(tensor::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride = 0);
  /// Values that this type holds exactly, (rows, cols).
  void write(const std::vector<float>& values);
  /// (rows, cols) as floats; what lies between rows is checked to be poison still.
  std::vector<float> read() const;
  void poison() { buffer.poison(); }
};

/// Runs `launch` at once, and then captured and replayed twice; `reset` poisons and writes before each run, `check` is
/// called after each with its name. It gives what the run wrote: all three must be the same bits.
void run_every_way(const std::function<void()>& reset, const std::function<void(device::cuda::CudaStream&)>& launch,
                   const std::function<std::vector<float>(const std::string& way)>& check);

/// Rows of a file packed by the device into a layout, with a bias in its memory.
struct GpuWeight {
  device::Memory packed;
  std::unique_ptr<Buffer> bias;
  kernels::LinearWeight weight;
};
GpuWeight gpu_weight(const quant::Format& format, const kernels::Layout& layout, kernels::WeightShape shape,
                     const std::vector<std::byte>& rows, const std::vector<float>& bias);

/// One weight of a case on both sides.
struct WeightPair {
  GpuWeight gpu;
  std::unique_ptr<kernels::testing::AlignedBytes> decoded;  ///< (n, k) floats: what the reference reads
  std::vector<float> bias;
  std::vector<double> norms;  ///< of its rows
  kernels::LinearWeight reference;
};
std::unique_ptr<WeightPair> make_weight(const WeightCase& c, const kernels::Layout& layout, std::int64_t k,
                                        unsigned seed);

/// A product's weights on both sides, in the layouts that a plan for the GPU chooses.
struct Weights {
  kernels::LinearProblem gpu, reference;
  std::vector<std::unique_ptr<WeightPair>> pairs;
};
Weights make_weights(const std::vector<WeightCase>& weights, std::int64_t k, std::int64_t max_m, unsigned seed);

template <class Kernel, class Problem>
const Kernel& reference_candidate(std::span<const Kernel> kernels, const Problem& problem) {
  const Kernel* kernel = kernels::choose(kernels, problem, device::reference_caps());
  PAGODA_CHECK(kernel != nullptr, "the reference takes not all");
  return *kernel;
}

std::vector<float> norm_weights(std::int64_t count, unsigned seed);
std::vector<float> normal_floats(std::int64_t count, unsigned seed, double scale = 1);
/// Rounded to bf16.
std::vector<float> bf16_floats(std::vector<float> values);
inline std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// The largest |got − want| over the larger of |want| and the root mean square of the row of `width` that it is in;
/// infinite where just one of them is not finite.
double row_error(const std::vector<float>& got, const std::vector<double>& want, std::int64_t width);

/// Expects `error(got)` to be at most `bound`, and to be above it once any one of some elements has changed. Keeps the
/// largest error of each operation, to be printed at the end.
void expect_close(const std::string& operation, const std::string& what, double bound, std::vector<float> got,
                  const std::function<double(const std::vector<float>&)>& error);

/// Notes which units the running test is about, for the receipt.
void note_units(const std::vector<CompileUnit>& units);

}  // namespace pagoda::parity
