// Sequences with known queries, keys and values, run through kv_store and attention in any chunks, batches and pages.
#pragma once

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/numbers.h"
#include "kernels/attention/attention.h"
#include "kernels/kv_store/kv_store.h"

namespace pagoda::kernels::testing {

struct AttentionCase {
  std::int64_t heads = 1, kv_heads = 1, key_dim = 16, value_dim = 16, block_size = 16;
  std::int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
  tensor::DType dtype = tensor::DType::kF16;
  double gain = 1;  ///< of queries: large ones make a cap bite

  std::string name() const {
    return pagoda::format("{} heads / {}, dims {} {}, blocks of {}, window {}, cap {}, sinks {}, {}", heads, kv_heads,
                          key_dim, value_dim, block_size, window, softcap, sinks, tensor::name_of(dtype));
  }
};

struct SequenceData {
  std::int64_t length = 0;
  std::vector<float> query, key, value;  // (length, heads · dim)
};

inline float rounded(float x, tensor::DType dtype) {
  if (dtype == tensor::DType::kF16) return f16_to_float(float_to_f16(x));
  if (dtype == tensor::DType::kBf16) return bf16_to_float(float_to_bf16(x));
  return x;
}

inline std::vector<float> random_floats(std::int64_t n, std::mt19937& random, double scale) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) x = static_cast<float>(normal(random));
  return out;
}

inline SequenceData make_sequence(const AttentionCase& c, std::int64_t length, unsigned seed) {
  std::mt19937 random(seed);
  return {length, random_floats(length * c.heads * c.key_dim, random, c.gain),
          random_floats(length * c.kv_heads * c.key_dim, random, 1),
          random_floats(length * c.kv_heads * c.value_dim, random, 1)};
}

struct RowChunk {
  std::size_t sequence;
  std::int64_t count;
};
/// A step is a batch of rows; each continues its sequence.
using Steps = std::vector<std::vector<RowChunk>>;

/// One sequence in chunks of `chunk` tokens.
inline Steps in_chunks(std::int64_t length, std::int64_t chunk) {
  Steps steps;
  for (std::int64_t done = 0; done < length; done += chunk) steps.push_back({{0, std::min(chunk, length - done)}});
  return steps;
}

struct RunOptions {
  unsigned page_seed = 1;
  int threads = 1;
  bool captured = false;
  std::int64_t padding = 0;             ///< padding tokens of each step
  std::int64_t page_stride_factor = 1;  ///< of block_stride over block_bytes
};

/// `T` is double on the reference device, float on the CPU. Runs every step and returns each sequence's outputs.
template <class T>
class AttentionRun {
 public:
  AttentionRun(const AttentionCase& c, const KvStoreKernel& store, const AttentionKernel& attention,
               const device::DeviceCaps& caps, const std::vector<SequenceData>& data, const RunOptions& options)
      : case_(c), data_(data), options_(options), pool_(options.threads, false), stream_(pool_) {
    const bool reference = std::is_same_v<T, double>;
    layout_ = {reference ? tensor::DType::kF64 : c.dtype, c.block_size, c.kv_heads, c.key_dim, c.value_dim};
    std::mt19937 random(7);
    sinks_ = random_floats(c.heads, random, 2);
    std::int64_t longest = 0;
    for (const SequenceData& sequence : data) longest = std::max(longest, sequence.length);
    max_blocks_ = ceil_div(longest, c.block_size);
    num_pages_ = max_blocks_ * std::ssize(data) + 3;
    stride_ = round_up<std::int64_t>(layout_.block_bytes(), 64) * options.page_stride_factor;
    pages_.assign(static_cast<std::size_t>(num_pages_ * stride_), std::byte{0xff});  // NaN in every type
    page_ids_.resize(static_cast<std::size_t>(num_pages_));
    std::iota(page_ids_.begin(), page_ids_.end(), 0);
    std::shuffle(page_ids_.begin(), page_ids_.end(), std::mt19937(options.page_seed));
    AttentionProblem problem{.activation = tensor::dtype_of<T>(),
                             .precision = Precision::kHigh,
                             .layout = layout_,
                             .num_heads = c.heads,
                             .scale = 1 / std::sqrt(static_cast<double>(c.key_dim)),
                             .window = c.window,
                             .softcap = c.softcap,
                             .sinks = c.sinks,
                             .max_rows = std::ssize(data),
                             .max_context = longest,
                             .workers = options.threads};
    if (!attention.supports(problem, caps)) problem.precision = Precision::kStandard;
    PAGODA_CHECK(attention.supports(problem, caps), "{}", attention.name);
    device::HostDevice device(caps);
    attend_ = attention.prepare(problem, {sinks_.data()}, device).value();
    store_ = store.prepare({tensor::dtype_of<T>(), layout_}, {}, device).value();
    scratch_.resize(attention.scratch_bytes(problem, caps) + 64);
  }

  std::vector<std::vector<T>> run(const Steps& steps) {
    std::vector<std::vector<T>> outputs;
    std::vector<std::int64_t> done(data_.size(), 0);
    for (const SequenceData& sequence : data_) {
      outputs.emplace_back(static_cast<std::size_t>(sequence.length * case_.heads * case_.value_dim), T{0});
    }
    for (const auto& step : steps) run_step(step, done, outputs);
    return outputs;
  }

  std::vector<std::byte>& pages() { return pages_; }

 private:
  void run_step(const std::vector<RowChunk>& step, std::vector<std::int64_t>& done,
                std::vector<std::vector<T>>& outputs) {
    std::vector<T> query, key, value;
    std::vector<std::int64_t> offsets{0}, starts, slots;
    std::vector<std::int32_t> tables(step.size() * static_cast<std::size_t>(max_blocks_), -1);
    for (std::size_t row = 0; row < step.size(); ++row) {
      const auto [index, count] = step[row];
      const std::int64_t start = done[index];
      append(query, data_[index].query, start, count, case_.heads * case_.key_dim);
      append(key, data_[index].key, start, count, case_.kv_heads * case_.key_dim);
      append(value, data_[index].value, start, count, case_.kv_heads * case_.value_dim);
      offsets.push_back(offsets.back() + count);
      starts.push_back(start);
      fill_table(index, start, count, tables.data() + row * static_cast<std::size_t>(max_blocks_));
      for (std::int64_t i = start; i < start + count; ++i) {
        slots.push_back(page(index, i / case_.block_size) * case_.block_size + i % case_.block_size);
      }
      done[index] += count;
    }
    for (std::int64_t i = 0; i < options_.padding; ++i) {
      const T poison = std::numeric_limits<T>::quiet_NaN();
      query.insert(query.end(), static_cast<std::size_t>(case_.heads * case_.key_dim), poison);
      key.insert(key.end(), static_cast<std::size_t>(case_.kv_heads * case_.key_dim), poison);
      value.insert(value.end(), static_cast<std::size_t>(case_.kv_heads * case_.value_dim), poison);
      slots.push_back(-1);
    }
    const std::int64_t tokens = std::ssize(slots);
    std::vector<T> output(static_cast<std::size_t>(tokens * case_.heads * case_.value_dim),
                          std::numeric_limits<T>::quiet_NaN());
    std::memset(scratch_.data(), 0xff, scratch_.size());
    const KvPages pages{pages_.data(), stride_};
    const AttentionArgs args{
        .query = tensor::matrix(query.data(), tokens, case_.heads * case_.key_dim),
        .output = tensor::matrix(output.data(), tokens, case_.heads * case_.value_dim),
        .step = {tokens, std::ssize(step), nullptr, offsets.data(), starts.data()},
        .group = {tables.data(), max_blocks_, slots.data()},
        .pages = pages,
        .scratch = scratch_.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64) % 64};
    const KvStoreArgs store_args{tensor::matrix(key.data(), tokens, case_.kv_heads * case_.key_dim),
                                 tensor::matrix(value.data(), tokens, case_.kv_heads * case_.value_dim), slots.data(),
                                 pages};
    device::HostGraph graph;
    if (options_.captured) stream_.begin_capture(graph);
    store_.launch(store_args, stream_);
    attend_.launch(args, stream_);
    if (options_.captured) {
      stream_.end_capture();
      stream_.replay(graph);
    }
    for (std::size_t row = 0; row < step.size(); ++row) {
      const std::int64_t width = case_.heads * case_.value_dim;
      const T* from = output.data() + offsets[row] * width;
      std::copy(from, from + step[row].count * width, outputs[step[row].sequence].data() + starts[row] * width);
    }
    for (std::int64_t i = offsets.back() * case_.heads * case_.value_dim; i < std::ssize(output); ++i) {
      PAGODA_CHECK(output[static_cast<std::size_t>(i)] == 0, "padding holds {}", output[static_cast<std::size_t>(i)]);
    }
  }

  /// The reference is given what the cache's type makes of the keys and values.
  void append(std::vector<T>& to, const std::vector<float>& from, std::int64_t start, std::int64_t count,
              std::int64_t width) const {
    const bool cached = std::is_same_v<T, double> && !is_query(from);
    for (std::int64_t i = start * width; i < (start + count) * width; ++i) {
      const float x = from[static_cast<std::size_t>(i)];
      to.push_back(static_cast<T>(cached ? rounded(x, case_.dtype) : x));
    }
  }
  bool is_query(const std::vector<float>& from) const {
    for (const SequenceData& sequence : data_) {
      if (&sequence.query == &from) return true;
    }
    return false;
  }

  std::int64_t page(std::size_t sequence, std::int64_t block) const {
    return page_ids_[sequence * static_cast<std::size_t>(max_blocks_) + static_cast<std::size_t>(block)];
  }

  /// Blocks that no token of the step sees are returned: their entry is -1 and their page is poisoned.
  void fill_table(std::size_t sequence, std::int64_t start, std::int64_t count, std::int32_t* table) {
    const std::int64_t lowest = case_.window > 0 ? std::max<std::int64_t>(0, start - case_.window + 1) : 0;
    for (std::int64_t block = 0; block * case_.block_size < start + count; ++block) {
      if ((block + 1) * case_.block_size <= lowest) {
        std::memset(pages_.data() + page(sequence, block) * stride_, 0xff, static_cast<std::size_t>(stride_));
      } else {
        table[block] = static_cast<std::int32_t>(page(sequence, block));
      }
    }
  }

  AttentionCase case_;
  const std::vector<SequenceData>& data_;
  RunOptions options_;
  ThreadPool pool_;
  device::HostStream stream_;
  KvLayout layout_;
  std::vector<float> sinks_;
  std::vector<std::int32_t> page_ids_;
  std::vector<std::byte> pages_, scratch_;
  std::int64_t max_blocks_ = 0, num_pages_ = 0, stride_ = 0;
  AttentionStep attend_;
  KvStoreStep store_;
};

inline const AttentionKernel& attention_named(std::string_view name) {
  for (const AttentionKernel& kernel : attention_kernels()) {
    if (kernel.name == name) return kernel;
  }
  PAGODA_CHECK(false, "{}", name);
}
inline const KvStoreKernel& kv_store_of(const device::DeviceCaps& caps) {
  const auto dtype = caps.kind == device::DeviceKind::kReference ? tensor::DType::kF64 : tensor::DType::kF32;
  return *choose(kv_store_kernels(), KvStoreProblem{dtype, {.dtype = dtype}}, caps);
}

inline std::vector<std::vector<double>> reference_outputs(const AttentionCase& c,
                                                          const std::vector<SequenceData>& data) {
  const device::DeviceCaps caps = device::reference_caps();
  AttentionRun<double> run(c, kv_store_of(caps), attention_named("reference"), caps, data, {.threads = 2});
  Steps steps{{}};
  for (std::size_t i = 0; i < data.size(); ++i) steps[0].push_back({i, data[i].length});
  return run.run(steps);
}

inline std::vector<std::vector<float>> cpu_outputs(const AttentionCase& c, const AttentionKernel& kernel,
                                                   const device::DeviceCaps& caps,
                                                   const std::vector<SequenceData>& data, const Steps& steps,
                                                   const RunOptions& options = {}) {
  return AttentionRun<float>(c, kv_store_of(caps), kernel, caps, data, options).run(steps);
}

/// A whole prompt and then its last token, on pages `stride` bytes apart in memory that is reserved but mostly
/// unbacked.
inline std::vector<float> outputs_at_huge_stride(const AttentionCase& c, const AttentionKernel& kernel,
                                                 const device::DeviceCaps& caps, SequenceData data,
                                                 std::int64_t stride) {
  const KvLayout layout{c.dtype, c.block_size, c.kv_heads, c.key_dim, c.value_dim};
  const std::int64_t blocks = ceil_div(data.length, c.block_size);
  const auto bytes = static_cast<std::size_t>(stride * blocks);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PAGODA_CHECK(memory != MAP_FAILED, "{} bytes", bytes);
  const AttentionProblem problem{.layout = layout,
                                 .num_heads = c.heads,
                                 .scale = 1 / std::sqrt(static_cast<double>(c.key_dim)),
                                 .max_rows = 1,
                                 .max_context = data.length};
  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  std::vector<std::int64_t> slots(static_cast<std::size_t>(data.length)), offsets{0, data.length}, starts{0};
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<float> output(static_cast<std::size_t>(data.length * c.heads * c.value_dim));
  std::vector<float> scratch(kernel.scratch_bytes(problem, caps) / sizeof(float) + 16);
  ThreadPool pool(1);
  device::HostStream stream(pool);
  const KvPages pages{static_cast<std::byte*>(memory), stride};
  device::HostDevice device(caps);
  kv_store_of(caps)
      .prepare({tensor::DType::kF32, layout}, {}, device)
      .value()
      .launch({tensor::matrix(data.key.data(), data.length, c.kv_heads * c.key_dim),
               tensor::matrix(data.value.data(), data.length, c.kv_heads * c.value_dim), slots.data(), pages},
              stream);
  const AttentionStep step = kernel.prepare(problem, {}, device).value();
  AttentionArgs args{.query = tensor::matrix(data.query.data(), data.length, c.heads * c.key_dim),
                     .output = tensor::matrix(output.data(), data.length, c.heads * c.value_dim),
                     .step = {data.length, 1, nullptr, offsets.data(), starts.data()},
                     .group = {table.data(), blocks, slots.data()},
                     .pages = pages,
                     .scratch = reinterpret_cast<std::byte*>(scratch.data())};
  step.launch(args, stream);
  const std::int64_t last = data.length - 1;
  offsets[1] = 1;
  starts[0] = last;
  args.step.num_tokens = 1;
  args.query = tensor::matrix(data.query.data() + last * c.heads * c.key_dim, 1, c.heads * c.key_dim);
  args.output = tensor::matrix(output.data() + last * c.heads * c.value_dim, 1, c.heads * c.value_dim);
  step.launch(args, stream);
  munmap(memory, bytes);
  return output;
}

/// Largest difference over the largest value of the reference; infinite where only one of them is NaN.
inline double relative_error(const std::vector<std::vector<float>>& got, const std::vector<std::vector<double>>& want) {
  double largest = 0, error = 0;
  for (std::size_t s = 0; s < want.size(); ++s) {
    for (std::size_t i = 0; i < want[s].size(); ++i) {
      largest = std::max(largest, std::fabs(want[s][i]));
      const double difference = std::fabs(got[s][i] - want[s][i]);
      error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
    }
  }
  return error / largest;
}

}  // namespace pagoda::kernels::testing
