// What the GPU benches have in common: a context with a compiler, memory, random weights, and timing by graph replays.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/numbers.h"
#include "device/cuda/compiler.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::bench {

using namespace device::cuda;  // NOLINT: a bench's own files only

/// Ends the bench with the error's sentence.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

inline void must_do(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

/// A decode step's products.
struct Geometry {
  const char* name;
  std::int64_t hidden, query, kv, ffn, vocab;
  int layers;

  std::int64_t weight_bytes() const {
    const std::int64_t layer = (query + 2 * kv) * hidden + query * hidden + 3 * ffn * hidden;
    return 2 * (layer * layers + vocab * hidden);
  }
};
inline constexpr Geometry kGeometries[] = {{"Llama-3.2-1B", 2048, 2048, 512, 8192, 128256, 16},
                                           {"Qwen3-4B", 2560, 4096, 1024, 9728, 151936, 36},
                                           {"Llama-3.1-8B", 4096, 4096, 1024, 14336, 128256, 32}};

/// The layout mma16: tiles of 16 rows and 32 columns, zeros past the matrix.
inline std::vector<std::uint16_t> pack_mma16(const std::vector<std::uint16_t>& w, std::int64_t n, std::int64_t k) {
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

class GpuBench {
 public:
  GpuBench() : context_(must(Context::create(must(Driver::load()), 0))), stream_(context_) {
    compiler_ = std::make_shared<Compiler>(CompilerOptions{.cache_folder = "/tmp/pagoda_bench_cubins",
                                                           .sources = kernels::embedded_sources(),
                                                           .nvrtc = must(Nvrtc::load()),
                                                           .num_threads = 16});
    loader_ = std::make_unique<ModuleLoader>(context_, compiler_);
  }

  device::CompileUnit unit(std::string source, std::vector<std::string> defines, const char* suffix = "") const {
    return {std::move(source), std::move(defines), context_->caps().architecture() + suffix};
  }
  void compile(const std::vector<device::CompileUnit>& units) { must_do(compiler_->compile_all(units)); }

  template <class P>
  Kernel<P> kernel(const device::CompileUnit& unit, const char* name) {
    return must(loader_->kernel<P>(unit, name));
  }

  AddressRange memory(std::int64_t bytes) {
    AddressRange range = must(AddressRange::reserve(context_, bytes));
    must_do(range.map(bytes));
    return range;
  }
  void set_bytes(const AddressRange& range, std::uint8_t value) {
    context_->driver().check(
        context_->api().set_bytes_async(reinterpret_cast<DeviceAddress>(range.data()), value,
                                        static_cast<std::size_t>(range.mapped_bytes()), stream_.handle()),
        "filling");
    stream_.synchronize();
  }

  /// Random bf16 numbers of size 0.008 … 0.03, 17 GiB; made once.
  std::byte* weights() {
    if (weights_) return weights_->data();
    weights_ = std::make_unique<AddressRange>(memory(std::int64_t{17} << 30));
    constexpr std::int64_t kPiece = 32 << 20;
    auto staging = must(PinnedBytes::create(context_, kPiece));
    auto* values = reinterpret_cast<std::uint16_t*>(staging.host());
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < kPiece / 2; ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = static_cast<std::uint16_t>((state >> 16 & 0x80ffu) | 0x3c00u);
    }
    staging.upload(0, kPiece, weights_->data(), stream_);
    const auto source = reinterpret_cast<DeviceAddress>(weights_->data());
    for (std::int64_t at = kPiece; at < weights_->mapped_bytes(); at += kPiece) {
      const auto bytes = static_cast<std::size_t>(std::min(kPiece, weights_->mapped_bytes() - at));
      context_->driver().check(context_->api().copy_on_device_async(source + static_cast<std::uint64_t>(at), source,
                                                                    bytes, stream_.handle()),
                               "filling");
    }
    stream_.synchronize();
    return weights_->data();
  }

  /// The median time of a replay.
  float time_ms(const Graph& graph, int repeats = 15) {
    std::vector<float> times;
    Event begin(context_, true), end(context_, true);
    for (int i = 0; i < repeats + 3; ++i) {
      begin.record(stream_);
      graph.launch(stream_);
      end.record(stream_);
      end.synchronize();
      if (i >= 3) times.push_back(end.elapsed_ms_since(begin));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  const Context& context() const { return *context_; }
  const ContextPtr& context_ptr() const { return context_; }
  CudaStream& stream() { return stream_; }
  std::uint32_t num_sms() const { return static_cast<std::uint32_t>(context_->caps().num_sms); }

 private:
  ContextPtr context_;
  std::shared_ptr<Compiler> compiler_;
  std::unique_ptr<ModuleLoader> loader_;
  CudaStream stream_;
  std::unique_ptr<AddressRange> weights_;
};

/// Device memory cut piece by piece, with what the host puts there; all bytes poisoned before.
class Cutter {
 public:
  Cutter(GpuBench& bench, std::int64_t bytes)
      : bench_(bench), range_(bench.memory(bytes)), staging_(must(PinnedBytes::create(bench.context_ptr(), bytes))) {
    bench.set_bytes(range_, 0xff);
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* place = take<T>(static_cast<std::int64_t>(values.size()));
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    std::memcpy(staging_.host(), values.data(), static_cast<std::size_t>(bytes));
    staging_.upload(0, bytes, place, bench_.stream());
    return place;
  }
  template <class T>
  T* take(std::int64_t count) {
    auto* place = reinterpret_cast<T*>(range_.data() + used_);
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + 255) / 256 * 256;
    if (used_ > range_.reserved_bytes()) std::abort();
    return place;
  }
  template <class T>
  std::vector<T> download(const T* place, std::int64_t count) {
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    staging_.download(0, bytes, place, bench_.stream());
    std::vector<T> values(static_cast<std::size_t>(count));
    std::memcpy(values.data(), staging_.host(), static_cast<std::size_t>(bytes));
    return values;
  }

 private:
  GpuBench& bench_;
  AddressRange range_;
  PinnedBytes staging_;
  std::int64_t used_ = 0;
};

/// Relative error of `got` against `want`, in the norm of all elements; NaN if any is NaN.
template <class A, class B>
double relative_error(const std::vector<A>& got, const std::vector<B>& want) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += difference * difference;
    size += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

/// One line a check; whether it is good.
inline bool report(const std::string& what, double error, double limit) {
  const bool good = error < limit;  // false for NaN
  std::printf("%s %s: relative error %.2e\n", good ? "ok  " : "FAIL", what.c_str(), error);
  return good;
}

inline std::vector<float> floats_of(const std::vector<std::uint16_t>& values) {
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(values[i]);
  return out;
}

inline std::vector<float> random_floats(std::mt19937& random, std::int64_t count, float mean = 0, float deviation = 1) {
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}
inline std::vector<std::uint16_t> random_bf16(std::mt19937& random, std::int64_t count, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (auto& value : values) value = float_to_bf16(normal(random));
  return values;
}

}  // namespace pagoda::bench
