// Attention over cache pages on a GPU: checks against double, then times. Keys and values rotate through more memory
// than the L2 holds; a time is the median replay of a graph over its launches. Prints one JSON line a measurement.
//
//   attention_cuda [check | check_prefill | few | few_sm90 | decode | lone_rows | sweep | prefill | prefill_sm90]...
#include "attention_cuda_check.h"

namespace pagoda::bench {
namespace {

constexpr double kCopyRate = 4.3e12;    // bytes a second, measured
constexpr double kMatrixRate = 790e12;  // operations a second in bf16, measured
constexpr std::int64_t kKvBytes = std::int64_t{5} << 30;

constexpr Geometry kLlama{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128};

struct Case {
  Geometry geometry;
  DecodeVariant variant = {};
};

/// Every head count, dimension and option; stages that fit.
std::vector<Case> decode_cases() {
  return {
      {{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128}, {1, 4, 3, 2}},
      {{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128, .softcap = 30}, {1, 8, 3, 1}},
      {{.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .window = 13}, {1, 4, 4, 2}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 80, .block_size = 8, .window = 8, .sinks = true}, {}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .block_size = 32, .window = 300, .sinks = true},
       {}},
      {{.heads = 6, .kv_heads = 2, .key_dim = 96, .value_dim = 96, .block_size = 64}, {}},
      {{.heads = 4, .kv_heads = 2, .key_dim = 256, .value_dim = 256, .window = 300, .softcap = 50}, {}},
      {{.heads = 3, .kv_heads = 3, .key_dim = 192, .value_dim = 128, .block_size = 256}, {}},
      {{.heads = 16, .kv_heads = 1, .key_dim = 64, .value_dim = 80, .block_size = 8, .softcap = 20, .sinks = true}, {}},
      {{.heads = 12, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .window = 13, .sinks = true}, {4, 4, 2, 1}},
      {{.heads = 10, .kv_heads = 2, .key_dim = 80, .value_dim = 64, .block_size = 128}, {2, 4, 2, 1}},
      {{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128, .fp8 = true}, {1, 4, 4, 2}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .fp8 = true, .window = 300, .sinks = true}, {}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 96, .fp8 = true, .block_size = 8, .softcap = 30}, {}},
      {{.heads = 6, .kv_heads = 2, .key_dim = 256, .value_dim = 256, .fp8 = true, .window = 13}, {3, 4, 2, 1}},
      {{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128}, {1, 8, 3, 1, 8}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .window = 300, .sinks = true}, {1, 8, 4, 1, 8}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 96, .fp8 = true, .block_size = 8, .softcap = 30},
       {1, 8, 4, 1, 8}},
      {{.heads = 16, .kv_heads = 1, .key_dim = 192, .value_dim = 128, .window = 13}, {1, 4, 2, 1, 8}},
  };
}

struct PrefillCase {
  Geometry geometry;
  PrefillVariant variant = {};
};

std::vector<PrefillCase> prefill_cases() {
  return {
      {{.heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128}, {4, 2, 64, 2}},
      {{.heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .window = 300, .softcap = 30}, {8, 1, 64, 1}},
      {{.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .window = 13}, {4, 2, 64, 2}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 80, .block_size = 8, .window = 8, .sinks = true}, {}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .block_size = 32, .window = 300, .sinks = true},
       {}},
      {{.heads = 6, .kv_heads = 2, .key_dim = 96, .value_dim = 96, .block_size = 64, .softcap = 30}, {}},
      {{.heads = 4, .kv_heads = 2, .key_dim = 256, .value_dim = 256, .window = 300}, {4, 1, 64, 1}},
      {{.heads = 3, .kv_heads = 3, .key_dim = 192, .value_dim = 128, .block_size = 256}, {4, 1, 64, 1}},
      {{.heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .fp8 = true}, {4, 2, 64, 2}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .fp8 = true, .window = 300, .sinks = true}, {}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 96, .fp8 = true, .block_size = 8, .softcap = 30}, {}},
      {{.heads = 6, .kv_heads = 2, .key_dim = 256, .value_dim = 256, .fp8 = true, .window = 13}, {4, 1, 64, 1}},
      {{.heads = 7, .kv_heads = 1, .key_dim = 128, .value_dim = 80, .block_size = 128, .sinks = true}, {4, 1, 32, 1}},
  };
}

/// Every dimension, block size and option, for the sm_90a kernel.
std::vector<PrefillCase> sm90_cases() {
  std::vector<PrefillCase> all = {
      {{.heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128}},
      {{.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .window = 13}},
      {{.heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .window = 300, .softcap = 30}},
      {{.heads = 5, .kv_heads = 1, .key_dim = 80, .value_dim = 80, .block_size = 8, .window = 8, .sinks = true}},
      {{.heads = 14, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .block_size = 32, .window = 300, .sinks = true}},
      {{.heads = 6, .kv_heads = 2, .key_dim = 96, .value_dim = 96, .block_size = 64, .softcap = 30}},
      {{.heads = 4, .kv_heads = 2, .key_dim = 256, .value_dim = 256, .window = 300}},
      {{.heads = 3, .kv_heads = 3, .key_dim = 192, .value_dim = 128, .block_size = 256}},
      {{.heads = 4, .kv_heads = 2, .key_dim = 192, .value_dim = 192, .block_size = 256, .window = 5}},
      {{.heads = 7, .kv_heads = 1, .key_dim = 128, .value_dim = 80, .block_size = 128, .sinks = true}},
      {{.heads = 12, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .block_size = 8, .sinks = true}},
      {{.heads = 64, .kv_heads = 1, .key_dim = 64, .value_dim = 64, .block_size = 256}},
      {{.heads = 8, .kv_heads = 4, .key_dim = 256, .value_dim = 256, .window = 100, .spans = true}},
      {{.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .block_size = 64, .spans = true}},
  };
  for (PrefillCase& c : all) {
    const PrefillSm90Variant v = prefill_sm90_variant(c.geometry.key_dim, c.geometry.value_dim);
    c.variant = sm90(v.warpgroups, v.keys, v.stages);
  }
  all.push_back({all[0].geometry, sm90(2, 160, 2)});
  all.push_back({all[2].geometry, sm90(2, 160, 2)});
  all.push_back({all[10].geometry, sm90(2, 176, 2)});
  all.push_back({all[11].geometry, sm90(2, 96, 2)});
  all.push_back({all[0].geometry, sm90(3, 80, 2)});
  all.push_back({all[6].geometry, sm90(2, 80, 2)});
  all.push_back({all[8].geometry, sm90(2, 80, 2)});
  all.push_back({all[1].geometry, sm90(2, 128, 2)});
  all.push_back({all[4].geometry, sm90(2, 64, 4)});
  return all;
}

constexpr Geometry kSpans{.heads = 4, .kv_heads = 2, .key_dim = 128, .value_dim = 128, .window = 40, .spans = true};

void check_prefill(Checks& checks) {
  checks.broken_prefill(kSpans, sm90(2, 128, 2));
  for (const PrefillCase& c : sm90_cases()) checks.prefill(c.geometry, c.variant, "whole");
  checks.prefill(kSpans, sm90(2, 128, 2), "pages beyond 4 GiB", 1024);
  checks.prefill(kSpans, {}, "whole");
}

/// A few of the checks, for tools that run kernels slowly.
bool check_some_sm90(Runner& runner) {
  Checks checks(runner);
  for (const std::size_t i : {0, 3, 8}) checks.prefill(sm90_cases()[i].geometry, sm90_cases()[i].variant, "whole");
  return checks.good();
}

bool check_some(Runner& runner) {
  Checks checks(runner);
  for (const int i : {0, 3, 9, 11, 15, 17}) {
    const Case c = decode_cases()[static_cast<std::size_t>(i)];
    checks.decode(c.geometry, c.variant, "whole");
  }
  for (const int i : {0, 3, 8}) {
    const PrefillCase c = prefill_cases()[static_cast<std::size_t>(i)];
    checks.prefill(c.geometry, c.variant, "whole");
  }
  return checks.good();
}

bool check(Runner& runner) {
  Checks checks(runner);
  checks.broken({.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .window = 13});
  for (const Case& c : decode_cases()) checks.decode(c.geometry, c.variant, "whole");
  checks.decode(decode_cases()[2].geometry, {}, "pages beyond 4 GiB", 1024);
  for (const PrefillCase& c : prefill_cases()) checks.prefill(c.geometry, c.variant, "whole");
  check_prefill(checks);
  std::printf("%s\n", checks.good() ? "all good" : "FAILED");
  return checks.good();
}

/// Random values, no NaN in either element type.
std::vector<std::uint16_t> random_values(bool fp8) {
  std::vector<std::uint16_t> values(std::size_t{16} << 20);
  std::mt19937 random(5);
  for (auto& v : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    v = fp8 ? static_cast<std::uint16_t>(bits & 0xbfbf)
            : float_to_bf16((static_cast<float>(bits & 0xffff) - 32768.0f) * (1.0f / 16384));
  }
  return values;
}

void fill_random(Runner& runner, std::byte* to, std::int64_t bytes, bool fp8) {
  static const std::vector<std::uint16_t> kinds[2] = {random_values(false), random_values(true)};
  const std::vector<std::uint16_t>& values = kinds[fp8 ? 1 : 0];
  for (std::int64_t at = 0; at < bytes; at += 32 << 20) {
    runner.upload(to + at, values.data(), std::min<std::int64_t>(32 << 20, bytes - at));
  }
}

std::vector<std::int32_t> shuffled_tables(std::span<const Row> rows, std::int64_t block_size, bool shuffle = true) {
  std::int64_t columns = 0;
  for (const Row& row : rows) columns = std::max(columns, (row.start + row.tokens + block_size - 1) / block_size);
  std::vector<std::int32_t> tables(static_cast<std::size_t>(columns) * rows.size());
  std::iota(tables.begin(), tables.end(), 0);
  std::mt19937 random(3);
  if (shuffle) std::shuffle(tables.begin(), tables.end(), random);
  return tables;
}

struct Shape {
  Geometry geometry;
  std::int64_t batch, context;
  double best_engine_us;  ///< of three; 0: none known
  bool ragged = false;
  bool neighbours = false;  ///< pages in the order of their blocks, else shuffled
};

std::vector<Shape> shapes(bool fp8) {
  Geometry g = kLlama;
  if (fp8) {
    g.fp8 = true;
    return {{g, 1, 2048, 9.3}, {g, 8, 8192, 46.5}, {g, 16, 32768, 253}, {g, 64, 2048, 75}, {g, 64, 8192, 255}};
  }
  const Geometry small{.heads = 32, .kv_heads = 8, .key_dim = 64, .value_dim = 64};
  const Geometry wide{.heads = 32, .kv_heads = 4, .key_dim = 128, .value_dim = 128};
  const Geometry sliding{.heads = 64, .kv_heads = 8, .key_dim = 64, .value_dim = 64, .window = 128, .sinks = true};
  return {{g, 1, 2048, 12.4},      {g, 1, 8192, 16.2},      {g, 1, 32768, 43.4},      {g, 8, 2048, 27.2},
          {g, 8, 8192, 73},        {g, 8, 32768, 256},      {g, 32, 2048, 73},        {g, 64, 2048, 136},
          {g, 64, 8192, 484},      {g, 128, 2048, 255},     {g, 256, 1024, 258},      {small, 1, 2048, 12.3},
          {small, 64, 2048, 82},   {small, 64, 8192, 263},  {wide, 1, 2048, 11.8},    {wide, 64, 2048, 73.5},
          {sliding, 1, 2048, 9.6}, {sliding, 64, 2048, 21}, {sliding, 256, 2048, 66}, {g, 64, 4096, 0, true},
          {g, 16, 4096, 0, true},  {g, 256, 1024, 0, true}};
}

std::vector<Row> rows_of(const Shape& s) {
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < s.batch; ++r) {
    const std::int64_t length = s.ragged ? 64 + (s.context * 2 - 128) * ((r * 37) % s.batch) / s.batch : s.context;
    rows.push_back({length - 1, 1});
  }
  return rows;
}

std::string name_of(const Shape& s) {
  const Geometry& g = s.geometry;
  return pagoda::format("{}/{} x {} {} b{} {}{}{}{}{}", g.heads, g.kv_heads, g.key_dim, g.fp8 ? "fp8" : "bf16", s.batch,
                        s.ragged ? "ragged to " : "", s.ragged ? s.context * 2 : s.context,
                        g.window > 0 ? " window" : "", s.neighbours ? " in order" : "",
                        g.block_size == 16 ? "" : pagoda::format(" block {}", g.block_size));
}

class Times {
 public:
  explicit Times(Runner& runner) : runner_(runner) {}

  void prepare(bool fp8) {
    runner_.arena().reset();
    fill_random(runner_, runner_.arena().take(kKvBytes), kKvBytes, fp8);
  }

  /// Of one layer. The schedule is a launch of its own, once a step.
  void decode(const Shape& s, const DecodeVariant& v, bool programmatic, int fixed_partition = 0) {
    runner_.arena().reset();
    const Geometry& g = s.geometry;
    std::byte* pages = runner_.arena().take(kKvBytes);
    const std::vector<Row> rows = rows_of(s);
    const auto tables = shuffled_tables(rows, g.block_size, !s.neighbours);
    auto step = runner_.decode(g, v, rows, 0, tables, fixed_partition);
    step.config.programmatic = programmatic;
    std::byte* queries = runner_.arena().take(s.batch * g.heads * g.key_dim * 2);
    fill_random(runner_, queries, s.batch * g.heads * g.key_dim * 2, false);
    step.params.query = queries;
    step.params.output = runner_.arena().take(s.batch * g.heads * g.value_dim * 2);
    step.params.sinks =
        g.sinks ? runner_.upload_new(std::vector<float>(static_cast<std::size_t>(g.heads), 0.5f)) : nullptr;
    const std::int64_t layer = static_cast<std::int64_t>(tables.size()) * g.page_bytes();
    const std::int64_t layers = kKvBytes / layer;
    std::int64_t bytes = 0;
    for (const Row& row : rows) {
      const std::int64_t keys = row.start + 1;
      bytes += (g.window > 0 ? std::min(keys, g.window) : keys) * g.page_bytes() / g.block_size;
    }
    const std::int64_t launches = std::clamp<std::int64_t>((std::int64_t{2} << 30) / bytes, 6, 48);
    runner_.launch_schedule(step);
    const auto schedule = runner_.download(step.schedule.schedule, 1)[0];
    GraphCapture capture(runner_.stream());
    for (std::int64_t i = 0; i < launches; ++i) {
      step.params.pages = pages + i % layers * layer;
      step.kernel.launch(runner_.stream(), step.config, step.params);
    }
    const double us = runner_.time(capture.finish(), 9) / static_cast<double>(launches);
    std::printf(
        "{\"op\": \"attention_decode\", \"candidate\": \"cuda_decode w%d s%d b%d c%d%s\", \"case\": \"%s\", "
        "\"device\": \"%s\", \"us\": %.2f, \"bytes\": %ld, \"gb_s\": %.0f, \"ceiling_share\": %.3f, "
        "\"partition\": %d, \"items\": %d, \"best_engine_us\": %.1f, \"of_best\": %.2f}\n",
        v.warps, v.stages, v.blocks, v.cluster, programmatic ? " programmatic" : "", name_of(s).c_str(),
        runner_.context().name().c_str(), us, static_cast<long>(bytes), static_cast<double>(bytes) / us / 1e3,
        static_cast<double>(bytes) / us * 1e6 / kCopyRate, schedule.partition, schedule.num_items, s.best_engine_us,
        s.best_engine_us / us);
    std::fflush(stdout);
  }

  void schedule(std::int64_t batch, std::int64_t context) {
    runner_.arena().reset();
    const std::vector<Row> rows = rows_of({kLlama, batch, context, 0, true});
    const auto step = runner_.decode(kLlama, {1, 4, 3, 2}, rows, 0, shuffled_tables(rows, 16), 0);
    GraphCapture capture(runner_.stream());
    for (int i = 0; i < 20; ++i) runner_.launch_schedule(step);
    std::printf(
        "{\"op\": \"attention_decode_schedule\", \"case\": \"b%ld ragged to %ld\", \"device\": \"%s\", "
        "\"us\": %.2f}\n",
        static_cast<long>(batch), static_cast<long>(context * 2), runner_.context().name().c_str(),
        runner_.time(capture.finish(), 5) / 20);
  }

  void prefill(const Geometry& g, const PrefillVariant& v, std::span<const Row> rows, const char* name) {
    runner_.arena().reset();
    std::byte* pages = runner_.arena().take(kKvBytes);
    const auto tables = shuffled_tables(rows, g.block_size);
    auto step = runner_.prefill(g, v, rows, tables, static_cast<std::int64_t>(tables.size()));
    std::int64_t tokens = 0;
    double pairs = 0;
    for (const Row& row : rows) {
      tokens += row.tokens;
      for (std::int64_t i = 0; i < row.tokens; ++i) {
        const std::int64_t keys = row.start + i + 1;
        pairs += static_cast<double>(g.window > 0 ? std::min(keys, g.window) : keys);
      }
    }
    std::byte* queries = runner_.arena().take(tokens * g.heads * g.key_dim * 2);
    fill_random(runner_, queries, tokens * g.heads * g.key_dim * 2, false);
    step.params.query = queries;
    step.params.output = runner_.arena().take(tokens * g.heads * g.value_dim * 2);
    step.params.pages = pages;
    const double operations = 2.0 * pairs * static_cast<double>(g.heads * (g.key_dim + g.value_dim));
    const int launches = operations < 1e12 ? 8 : 2;
    GraphCapture capture(runner_.stream());
    for (int i = 0; i < launches; ++i) runner_.launch(step);
    const double us = runner_.time(capture.finish(), 7) / launches;
    const std::string candidate =
        v.warpgroups > 0 ? pagoda::format("cuda_prefill_sm90 g{} k{} s{}", v.warpgroups, v.keys, v.stages)
                         : pagoda::format("cuda_prefill w{} r{} k{} b{}", v.warps, v.row_tiles, v.keys, v.blocks);
    std::printf(
        "{\"op\": \"attention_prefill\", \"candidate\": \"%s\", \"case\": \"%s\", "
        "\"device\": \"%s\", \"us\": %.1f, \"tflop_s\": %.1f, \"ceiling_share\": %.3f}\n",
        candidate.c_str(), name, runner_.context().name().c_str(), us, operations / us / 1e6,
        operations / us * 1e6 / kMatrixRate);
    std::fflush(stdout);
  }

 private:
  Runner& runner_;
};

std::vector<DecodeVariant> variants(const Geometry& g) {
  if (g.fp8) return {{1, 8, 4, 1}, {1, 4, 4, 2}, {1, 4, 3, 3}, {1, 4, 2, 4}};
  if (g.key_dim == 64) return {{1, 8, 4, 1}, {1, 4, 4, 2}, {1, 4, 4, 3}, {1, 8, 3, 2}};
  return {{1, 8, 3, 1}, {1, 4, 3, 2}, {1, 4, 2, 2}, {1, 8, 2, 1}};
}

std::vector<PrefillVariant> prefill_variants(std::int64_t dim) {
  if (dim == 256) return {{8, 1, 64, 1}, {8, 1, 32, 1}};
  return {{4, 2, 64, 2}, {8, 1, 64, 1}, {8, 2, 32, 1}, {8, 2, 64, 1}};
}

void time_decode(Runner& runner, bool sweep) {
  Times times(runner);
  for (const bool fp8 : {false, true}) {
    times.prepare(fp8);
    for (const Shape& s : shapes(fp8)) {
      const auto all = variants(s.geometry);
      for (const DecodeVariant& v : all) times.decode(s, v, false);
      times.decode(s, all[0], true);
      if (s.batch * s.context == 64 * 8192 || s.batch * s.context == 8 * 8192) {
        Shape other = s;
        other.neighbours = true;
        times.decode(other, all[0], false);
        other = s;
        other.geometry.block_size = 64;
        times.decode(other, all[0], false);
      }
      if (!sweep || (s.batch > 8 && !s.ragged)) continue;
      for (const int partition : {128, 256, 512, 1024, 2048, 4096}) {
        const std::int64_t items = s.batch * (s.context / partition + 1);
        if (items <= 2048 && partition < s.context) times.decode(s, all[0], false, partition);
      }
    }
  }
  times.schedule(1, 2048);
  times.schedule(64, 2048);
  times.schedule(256, 2048);
}

DecodeVariant in_clusters(DecodeVariant v) {
  v.cluster = 8;
  return v;
}

/// One row, as blocks and as clusters.
std::vector<Shape> lone_rows() {
  std::vector<Shape> all;
  for (const std::int64_t keys : {300, 2048, 4096, 8192, 16384, 32768, 131072}) all.push_back({kLlama, 1, keys, 0});
  Geometry fp8 = kLlama;
  fp8.fp8 = true;
  all.push_back({fp8, 1, 2048, 0});
  all.push_back({{.heads = 32, .kv_heads = 8, .key_dim = 64, .value_dim = 64}, 1, 2048, 0});
  return all;
}

void time_lone_rows(Runner& runner) {
  Times times(runner);
  times.prepare(false);
  for (const Shape& s : lone_rows()) {
    const DecodeVariant v = variants(s.geometry)[0];
    for (const DecodeVariant& one : {v, in_clusters(v)}) times.decode(s, one, true);
  }
}

struct PrefillTime {
  Geometry geometry;
  PrefillVariant variant;
};

std::vector<PrefillTime> prefill_times(bool with_sm90, bool with_portable) {
  std::vector<PrefillTime> all;
  for (const std::int64_t dim : {128, 64, 256}) {
    const Geometry g{.heads = 32, .kv_heads = 8, .key_dim = dim, .value_dim = dim};
    if (with_sm90) {
      const PrefillSm90Variant best = prefill_sm90_variant(dim, dim);
      all.push_back({g, sm90(best.warpgroups, best.keys, best.stages)});
      if (dim == 128) all.push_back({g, sm90(2, 160, 2)});
      if (dim == 128) all.push_back({g, sm90(3, 80, 2)});
      if (dim == 256) all.push_back({g, sm90(2, 80, 2)});
    }
    if (!with_portable) continue;
    for (const PrefillVariant& v : prefill_variants(dim)) all.push_back({g, v});
  }
  return all;
}

void time_prefill(Runner& runner, std::span<const PrefillTime> all) {
  Times times(runner);
  times.prepare(false);
  for (const auto& [g, v] : all) {
    const std::int64_t dim = g.key_dim;
    for (const std::int64_t length : {1024, 4096, 16384}) {
      times.prefill(g, v, std::vector<Row>{{0, length}}, pagoda::format("32/8 x {} causal {}", dim, length).c_str());
    }
    if (dim != 128) continue;
    if (v.warpgroups == 0) {
      Geometry fp8 = g;
      fp8.fp8 = true;
      times.prefill(fp8, v, std::vector<Row>{{0, 4096}}, "32/8 x 128 e4m3 causal 4096");
    }
    times.prefill(g, v, std::vector<Row>{{7680, 512}}, "32/8 x 128 512 after 7680");
    times.prefill(g, v, std::vector<Row>{{8192, 2048}}, "32/8 x 128 2048 after 8192");
    times.prefill(g, v, std::vector<Row>{{0, 2000}, {1000, 300}, {4000, 64}, {0, 700}}, "32/8 x 128 ragged");
    times.prefill(g, v, std::vector<Row>(8, {0, 2048}), "32/8 x 128 8 of 2048");
    Geometry other = g;
    other.window = 1024;
    times.prefill(other, v, std::vector<Row>{{0, 16384}}, "32/8 x 128 causal 16384 window 1024");
    other = g;
    other.block_size = 64;
    times.prefill(other, v, std::vector<Row>{{0, 4096}}, "32/8 x 128 causal 4096 block 64");
  }
}

std::vector<device::CompileUnit> units(bool with_checks, bool with_decode, bool with_lone_rows,
                                       std::span<const PrefillTime> prefills) {
  std::vector<device::CompileUnit> all = {Runner::schedule_unit()};
  if (with_checks) {
    for (const Case& c : decode_cases()) all.push_back(Runner::decode_unit(c.geometry, c.variant));
    all.push_back(Runner::decode_unit(decode_cases()[2].geometry, {}));
    for (const PrefillCase& c : prefill_cases()) all.push_back(Runner::prefill_unit(c.geometry, c.variant));
    for (const PrefillCase& c : sm90_cases()) all.push_back(Runner::prefill_unit(c.geometry, c.variant));
    all.push_back(Runner::prefill_unit(kSpans, {}));
    all.push_back(Runner::prefill_unit(kSpans, sm90(2, 128, 2)));
  }
  for (const bool fp8 : {false, true}) {
    if (!with_decode) break;
    for (const Shape& s : shapes(fp8)) {
      for (const DecodeVariant& v : variants(s.geometry)) all.push_back(Runner::decode_unit(s.geometry, v));
    }
  }
  for (const Shape& s : lone_rows()) {
    if (!with_lone_rows) break;
    const DecodeVariant v = variants(s.geometry)[0];
    for (const DecodeVariant& one : {v, in_clusters(v)}) all.push_back(Runner::decode_unit(s.geometry, one));
  }
  for (const PrefillTime& p : prefills) all.push_back(Runner::prefill_unit(p.geometry, p.variant));
  return all;
}

int run(std::span<char*> arguments) {
  const auto asked = [&](std::string_view what) {
    return std::any_of(arguments.begin(), arguments.end(), [&](const char* a) { return what == a; });
  };
  auto driver = Driver::load();
  if (!driver.ok()) {
    std::fprintf(stderr, "%s\n", driver.error().message.c_str());
    return 4;
  }
  auto context = Context::create(*driver, 0);
  auto nvrtc = Nvrtc::load();
  if (!context.ok() || !nvrtc.ok()) return 4;
  char folder[] = "/tmp/attention_cuda_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  auto compiler = std::make_shared<Compiler>(
      CompilerOptions{.cache_folder = folder, .sources = embedded_sources(), .nvrtc = *nvrtc, .num_threads = 16});
  Runner runner(*context, compiler, std::int64_t{9} << 30);
  const auto prefills = prefill_times(asked("prefill_sm90"), asked("prefill"));
  runner.compile(
      units(asked("check") || asked("check_prefill"), asked("decode") || asked("sweep"), asked("lone_rows"), prefills));
  bool good = !asked("check") || check(runner);
  if (asked("check_prefill")) {
    Checks checks(runner);
    check_prefill(checks);
    good &= checks.good();
  }
  if (asked("few")) good &= check_some(runner);
  if (asked("few_sm90")) good &= check_some_sm90(runner);
  if (asked("decode") || asked("sweep")) time_decode(runner, asked("sweep"));
  if (asked("lone_rows")) time_lone_rows(runner);
  time_prefill(runner, prefills);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) { return pagoda::bench::run({argv + 1, static_cast<std::size_t>(argc - 1)}); }
