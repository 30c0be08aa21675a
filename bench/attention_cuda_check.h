// Attention kernels against double: odd sizes, fragmented tables, poisoned outputs and slots, bits that must not depend
// on page ids or neighbours.
#pragma once

#include <bit>
#include <cmath>
#include <thread>

#include "attention_cuda_runner.h"

namespace pagoda::bench {

/// A step's data on the host. Keys and values are the exact values of what lies in the pages.
struct CheckData {
  std::vector<Row> rows;
  std::int64_t tokens = 0, padding = 0;
  std::vector<std::uint16_t> query = {};
  std::vector<std::vector<float>> keys = {}, values = {};  // by row: (length, kv_heads, dim)
  std::vector<float> sinks = {};
  std::vector<std::int32_t> last_keys = {};  // by token; with spans only
};

inline std::uint8_t random_e4m3(std::mt19937& random) {
  const auto bits = static_cast<std::uint8_t>(random());
  return (bits & 0x7f) >= 0x50 ? static_cast<std::uint8_t>(bits & 0xbf) : bits;  // up to 8 or so, never a NaN
}

/// Two spans in every row of 8 tokens or more: the third to the sixth token, and the last half but one token.
inline void add_spans(CheckData& d) {
  for (const Row& row : d.rows) {
    for (std::int64_t i = 0; i < row.tokens; ++i) {
      std::int64_t last = i;
      if (row.tokens >= 8 && i >= 2 && i < 6) last = std::min<std::int64_t>(5, row.tokens / 2 - 1);
      if (row.tokens >= 8 && i >= row.tokens / 2 && i < row.tokens - 1) last = row.tokens - 2;
      d.last_keys.push_back(static_cast<std::int32_t>(row.start + std::max(i, last)));
    }
  }
}

inline CheckData make_data(const Geometry& g, std::vector<Row> rows, std::int64_t padding) {
  CheckData d{.rows = std::move(rows), .padding = padding};
  for (std::size_t r = 0; r < d.rows.size(); ++r) {
    d.tokens += d.rows[r].tokens;
    // A row's data are its own: they do not depend on its neighbours.
    std::mt19937 random(static_cast<unsigned>(17 + d.rows[r].start * 3 + d.rows[r].tokens));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < d.rows[r].tokens * g.heads * g.key_dim; ++i) {
      d.query.push_back(float_to_bf16(normal(random) * 1.5f));
    }
    const auto fill = [&](std::int64_t dim) {
      std::vector<float> v(static_cast<std::size_t>((d.rows[r].start + d.rows[r].tokens) * g.kv_heads * dim));
      for (float& x : v) {
        x = g.fp8 ? fp8_e4m3_to_float(random_e4m3(random)) * 0.5f : bf16_to_float(float_to_bf16(normal(random)));
      }
      return v;
    };
    d.keys.push_back(fill(g.key_dim));
    d.values.push_back(fill(g.value_dim));
  }
  if (g.spans) add_spans(d);
  for (std::int64_t h = 0; h < g.heads; ++h) d.sinks.push_back(0.3f * static_cast<float>(h) - 1.0f);
  return d;
}

/// Of a value that e4m3 has.
inline std::uint8_t to_e4m3(float value) {
  static const std::vector<std::uint8_t> table = [] {
    std::vector<std::uint8_t> bits(1 << 16, 0x7f);  // by the value's bf16, which is exact
    for (int i = 0; i < 256; ++i) {
      if ((i & 0x7f) == 0x7f) continue;
      bits[float_to_bf16(fp8_e4m3_to_float(static_cast<std::uint8_t>(i)))] = static_cast<std::uint8_t>(i);
    }
    return bits;
  }();
  return table[float_to_bf16(value)];
}

/// Pages in device memory, all else poisoned with NaNs; ids are a random choice, the highest among them. `stride` makes
/// offsets as large as wanted.
struct Pages {
  const std::byte* data;
  std::int64_t stride, num_pages;
  std::vector<std::int32_t> tables;
};

inline Pages make_pages(Runner& runner, const Geometry& g, const CheckData& d, std::int64_t stride, unsigned seed) {
  std::int64_t columns = 0, used = 0;
  for (const Row& row : d.rows) {
    const std::int64_t blocks = (row.start + row.tokens + g.block_size - 1) / g.block_size;
    columns = std::max(columns, blocks + 1);
    used += blocks;
  }
  const std::int64_t num_pages = used + 7;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(num_pages));
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(ids.begin(), ids.end(), random);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == num_pages - 1) std::swap(ids[i], ids[0]);
  }
  Pages pages{.data = nullptr, .stride = stride, .num_pages = num_pages, .tables = {}};
  pages.tables.assign(static_cast<std::size_t>(columns) * d.rows.size(), -1);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(num_pages * g.page_bytes()), 0xff);
  const auto put = [&](std::int64_t at, float value) {
    if (g.fp8) {
      image[static_cast<std::size_t>(at)] = to_e4m3(value * 2);
    } else {
      const std::uint16_t bits = float_to_bf16(value);
      std::memcpy(&image[static_cast<std::size_t>(at)], &bits, 2);
    }
  };
  std::size_t next = 0;
  for (std::size_t r = 0; r < d.rows.size(); ++r) {
    const std::int64_t first_seen = g.window > 0 ? std::max<std::int64_t>(0, d.rows[r].start - g.window + 1) : 0;
    for (std::int64_t key = 0; key < d.rows[r].start + d.rows[r].tokens; ++key) {
      const std::int64_t block = key / g.block_size, slot = key % g.block_size;
      if (block < first_seen / g.block_size) continue;  // returned: stays -1
      std::int32_t& id = pages.tables[r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(block)];
      if (id < 0) id = ids[next++];
      if (key < first_seen) continue;  // never seen: stays poisoned
      for (std::int64_t head = 0; head < g.kv_heads; ++head) {
        const std::int64_t base = id * g.page_bytes() + head * g.head_bytes();
        for (std::int64_t i = 0; i < g.key_dim; ++i) {
          put(base + (slot * g.key_dim + i) * g.element_bytes(),
              d.keys[r][static_cast<std::size_t>((key * g.kv_heads + head) * g.key_dim + i)]);
        }
        for (std::int64_t i = 0; i < g.value_dim; ++i) {
          put(base + (g.block_size * g.key_dim + slot * g.value_dim + i) * g.element_bytes(),
              d.values[r][static_cast<std::size_t>((key * g.kv_heads + head) * g.value_dim + i)]);
        }
      }
    }
  }
  std::byte* to = runner.arena().take(num_pages * stride);
  for (std::int64_t id = 0; id < num_pages; ++id) {
    if (stride == g.page_bytes()) {
      runner.upload(to, image.data(), static_cast<std::int64_t>(image.size()));
      break;
    }
    runner.upload(to + id * stride, image.data() + id * g.page_bytes(), g.page_bytes());
  }
  pages.data = to;
  return pages;
}

inline void attend_token(const Geometry& g, const CheckData& d, std::size_t r, std::int64_t position,
                         std::int64_t token, std::vector<double>& out) {
  const std::int64_t first = g.window > 0 ? std::max<std::int64_t>(0, position - g.window + 1) : 0;
  const std::int64_t last = d.last_keys.empty() ? position : d.last_keys[static_cast<std::size_t>(token)];
  for (std::int64_t head = 0; head < g.heads; ++head) {
    const std::int64_t kv = head / g.group();
    const std::uint16_t* q = &d.query[static_cast<std::size_t>((token * g.heads + head) * g.key_dim)];
    std::vector<double> s(static_cast<std::size_t>(last - first + 1));
    double maximum = g.sinks ? d.sinks[static_cast<std::size_t>(head)] : -INFINITY;
    for (std::int64_t key = first; key <= last; ++key) {
      const float* k = &d.keys[r][static_cast<std::size_t>((key * g.kv_heads + kv) * g.key_dim)];
      double dot = 0;
      for (std::int64_t i = 0; i < g.key_dim; ++i) dot += static_cast<double>(bf16_to_float(q[i])) * k[i];
      dot *= g.scale();
      if (g.softcap > 0) dot = g.softcap * std::tanh(dot / g.softcap);
      s[static_cast<std::size_t>(key - first)] = dot;
      maximum = std::max(maximum, dot);
    }
    double sum = g.sinks ? std::exp(d.sinks[static_cast<std::size_t>(head)] - maximum) : 0;
    double* o = &out[static_cast<std::size_t>((token * g.heads + head) * g.value_dim)];
    for (std::int64_t key = first; key <= last; ++key) {
      const double weight = std::exp(s[static_cast<std::size_t>(key - first)] - maximum);
      const float* v = &d.values[r][static_cast<std::size_t>((key * g.kv_heads + kv) * g.value_dim)];
      sum += weight;
      for (std::int64_t i = 0; i < g.value_dim; ++i) o[i] += weight * v[i];
    }
    for (std::int64_t i = 0; i < g.value_dim; ++i) o[i] /= sum;
  }
}

inline std::vector<double> expected(const Geometry& g, const CheckData& d) {
  std::vector<double> out(static_cast<std::size_t>(d.tokens * g.heads * g.value_dim), 0.0);
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t token = next++; token < d.tokens; token = next++) {
      std::int64_t before = 0;
      std::size_t r = 0;
      while (before + d.rows[r].tokens <= token) before += d.rows[r++].tokens;
      attend_token(g, d, r, d.rows[r].start + token - before, token, out);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return out;
}

/// ‖got - want‖ / ‖want‖ over all rows whose tokens `mine` takes; NaN if a NaN is there. Other tokens must be
/// untouched.
struct Verdict {
  double error = 0;
  bool untouched = true;
};

inline Verdict compare(const Geometry& g, const CheckData& d, const std::vector<std::uint16_t>& got,
                       const std::vector<double>& want, std::int64_t fewest, std::int64_t most, bool padding_zero) {
  Verdict v;
  double error = 0, size = 0;
  const std::int64_t width = g.heads * g.value_dim;
  std::int64_t token = 0;
  for (const Row& row : d.rows) {
    const bool mine = row.tokens >= fewest && row.tokens <= most;
    for (std::int64_t i = token * width; i < (token + row.tokens) * width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!mine) {
        v.untouched &= got[at] == 0xffff;
        continue;
      }
      const double difference = bf16_to_float(got[at]) - want[at];
      error += difference * difference;
      size += want[at] * want[at];
    }
    token += row.tokens;
  }
  const std::uint16_t filler = padding_zero ? 0 : 0xffff;
  for (std::int64_t i = token * width; i < (token + d.padding) * width; ++i) {
    v.untouched &= got[static_cast<std::size_t>(i)] == filler;
  }
  for (std::int64_t i = (token + d.padding) * width; i < static_cast<std::int64_t>(got.size()); ++i) {
    v.untouched &= got[static_cast<std::size_t>(i)] == 0xffff;
  }
  v.error = size > 0 ? std::sqrt(error / size) : 0;
  return v;
}

class Checks {
 public:
  explicit Checks(Runner& runner) : runner_(runner) {}

  std::vector<std::uint16_t> run_decode(const Geometry& g, const DecodeVariant& v, const CheckData& d, unsigned seed,
                                        std::int64_t stride, int fixed_partition, bool graph, float scale = 1) {
    runner_.arena().reset();
    const Pages pages = make_pages(runner_, g, d, stride, seed);
    auto step = runner_.decode(g, v, d.rows, d.padding, pages.tables, fixed_partition);
    step.params.query = runner_.upload_new(d.query);
    step.params.sinks = g.sinks ? runner_.upload_new(d.sinks) : nullptr;
    step.params.pages = pages.data;
    step.params.block_stride = stride;
    step.params.scale *= scale * (g.fp8 ? 0.5f : 1.0f);
    step.params.value_scale = g.fp8 ? 0.5f : 1.0f;
    const std::int64_t count = (d.tokens + d.padding + 1) * g.heads * g.value_dim;
    auto* output = runner_.arena().take<std::uint16_t>(count);
    step.params.output = output;
    // Twice: counters must come back to zero.
    for (int i = 0; i < 2; ++i) {
      runner_.fill(output, 0xff, count * 2);
      if (graph) {
        GraphCapture capture(runner_.stream());
        step.config.programmatic = true;
        runner_.launch_schedule(step);
        step.kernel.launch(runner_.stream(), step.config, step.params);
        step.kernel.launch(runner_.stream(), step.config, step.params);
        const Graph replay = capture.finish();
        replay.launch(runner_.stream());
        runner_.stream().synchronize();
      } else {
        runner_.launch_schedule(step);
        step.kernel.launch(runner_.stream(), step.config, step.params);
      }
    }
    return runner_.download(output, count);
  }

  std::vector<std::uint16_t> run_prefill(const Geometry& g, const PrefillVariant& v, const CheckData& d, unsigned seed,
                                         std::int64_t stride) {
    runner_.arena().reset();
    const Pages pages = make_pages(runner_, g, d, stride, seed);
    auto step = runner_.prefill(g, v, d.rows, pages.tables, pages.num_pages);
    step.params.query = runner_.upload_new(d.query);
    step.params.sinks = g.sinks ? runner_.upload_new(d.sinks) : nullptr;
    step.params.last_keys = g.spans ? runner_.upload_new(d.last_keys) : nullptr;
    step.params.pages = pages.data;
    step.params.block_stride = stride;
    step.params.scale *= g.fp8 ? 0.5f : 1.0f;
    step.params.value_scale = g.fp8 ? 0.5f : 1.0f;
    const std::int64_t count = (d.tokens + d.padding + 1) * g.heads * g.value_dim;
    auto* output = runner_.arena().take<std::uint16_t>(count);
    step.params.output = output;
    runner_.fill(output, 0xff, count * 2);
    runner_.launch(step);
    return runner_.download(output, count);
  }

  void report(const char* op, const Geometry& g, const std::string& what, const Verdict& v, bool bits) {
    const bool good = v.error < 6e-3 && v.untouched && bits;  // a NaN is not less
    good_ &= good;
    std::printf("%s %s %ld/%ld heads, dims %ld/%ld%s, block %ld, window %ld, cap %g, sinks %d, %s: error %.2e%s%s\n",
                good ? "ok  " : "FAIL", op, static_cast<long>(g.heads), static_cast<long>(g.kv_heads),
                static_cast<long>(g.key_dim), static_cast<long>(g.value_dim), g.fp8 ? " e4m3" : "",
                static_cast<long>(g.block_size), static_cast<long>(g.window), g.softcap, g.sinks ? 1 : 0, what.c_str(),
                v.error, v.untouched ? "" : ", wrote where it must not", bits ? "" : ", other bits");
    std::fflush(stdout);
  }

  /// Rows of `v.tokens` tokens or fewer, a longer one between them that is another kernel's, padding behind.
  void decode(const Geometry& g, const DecodeVariant& v, const char* what, std::int64_t stride_factor = 1) {
    std::vector<Row> rows;
    for (const std::int64_t length : {1, 15, 16, 17, 63, 64, 65, 255, 513, 2047}) {
      const std::int64_t tokens = std::min<std::int64_t>(length, 1 + length % v.tokens);
      rows.push_back({length - tokens, tokens});
    }
    rows.insert(rows.begin() + 3, {{40, 9}, {0, 0}});
    const CheckData d = make_data(g, rows, 2);
    const auto want = expected(g, d);
    const std::int64_t stride = g.page_bytes() * stride_factor;
    const auto first = run_decode(g, v, d, 1, stride, 0, false);
    const auto second = run_decode(g, v, d, 2, stride, 0, true);
    report("decode ", g, what, compare(g, d, first, want, 1, v.tokens, true), first == second);
    const auto cut = run_decode(g, v, d, 3, stride, 64, false);
    // A row among other neighbours, at the same partition: the same bits.
    const CheckData alone = make_data(g, {rows.back()}, 0);
    const auto single = run_decode(g, v, alone, 4, stride, 64, false);
    const auto width = static_cast<std::size_t>(rows.back().tokens * g.heads * g.value_dim);
    const auto from = static_cast<std::size_t>(d.tokens * g.heads * g.value_dim) - width;
    const bool same = std::equal(single.begin(), single.begin() + static_cast<std::ptrdiff_t>(width),
                                 cut.begin() + static_cast<std::ptrdiff_t>(from));
    report("decode ", g, v.cluster > 1 ? "whole rows" : "cut at 64", compare(g, d, cut, want, 1, v.tokens, true), same);
  }

  void prefill(const Geometry& g, const PrefillVariant& v, const char* what, std::int64_t stride_factor = 1) {
    const std::vector<Row> rows = {{0, 1}, {0, 17}, {15, 64}, {300, 65}, {64, 16}, {0, 0}, {1, 255}, {1534, 513}};
    std::vector<Row> all = rows;
    all.push_back({2046, 1});
    const CheckData d = make_data(g, all, 2);
    const auto want = expected(g, d);
    const std::int64_t stride = g.page_bytes() * stride_factor;
    const auto first = run_prefill(g, v, d, 1, stride);
    const auto second = run_prefill(g, v, d, 2, stride);
    // A row alone: the same bits.
    const CheckData alone = make_data(g, {rows[3]}, 0);
    const auto single = run_prefill(g, v, alone, 3, stride);
    const auto width = static_cast<std::ptrdiff_t>(g.heads * g.value_dim);
    const bool same = std::equal(single.begin(), single.begin() + 65 * width, first.begin() + (1 + 17 + 64) * width);
    const std::string name = pagoda::format("{}{}{}", v.warpgroups > 0 ? "sm90 " : "", what, g.spans ? " spans" : "");
    report("prefill", g, name, compare(g, d, first, want, 1, 1 << 30, false), first == second && same);
  }

  /// A comparison that cannot fail proves nothing.
  void broken(const Geometry& g) {
    const CheckData d = make_data(g, {{512, 1}, {64, 1}}, 0);
    Geometry other = g;
    other.window = g.window + 1;
    const auto scaled = run_decode(g, {}, d, 1, g.page_bytes(), 0, false, 1.02f);
    const double a = compare(g, d, scaled, expected(g, d), 1, 1, true).error;
    const auto right = run_decode(g, {}, d, 1, g.page_bytes(), 0, false);
    const CheckData full = d;
    const double b = compare(g, d, right, expected(other, full), 1, 1, true).error;
    const bool noticed = a > 6e-3 && b > 6e-3;
    good_ &= noticed;
    std::printf("%s broken on purpose: a scale 2 %% off is an error of %.2e, a window one key off %.2e\n",
                noticed ? "ok  " : "FAIL", a, b);
  }

  void broken_prefill(const Geometry& g, const PrefillVariant& v) {
    const CheckData d = make_data(g, {{512, 70}, {64, 33}}, 0);
    Geometry other = g;
    other.window = g.window + 1;
    Geometry causal = g;
    causal.spans = false;
    CheckData plain = d;
    plain.last_keys.clear();
    const auto right = run_prefill(g, v, d, 1, g.page_bytes());
    const double a = compare(g, d, right, expected(other, d), 1, 1 << 30, false).error;
    const double b = compare(g, d, right, expected(causal, plain), 1, 1 << 30, false).error;
    const bool noticed = a > 6e-3 && b > 6e-3;
    good_ &= noticed;
    std::printf("%s broken on purpose: prefill's window one key off is an error of %.2e, spans left out %.2e\n",
                noticed ? "ok  " : "FAIL", a, b);
  }

  bool good() const { return good_; }

 private:
  Runner& runner_;
  bool good_ = true;
};

}  // namespace pagoda::bench
