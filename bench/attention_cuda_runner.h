// Attention kernels on a GPU as a bench and its checks drive them: memory, units, launches.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "device/cuda/compiler.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "kernels/attention/cuda_decode.h"
#include "kernels/attention/cuda_prefill.h"
#include "kernels/attention/prefill_sm90_plan.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::bench {

using namespace device::cuda;
using namespace kernels;

struct Row {
  std::int64_t start, tokens;
};

struct Geometry {
  std::int64_t heads, kv_heads, key_dim, value_dim;
  bool fp8 = false;
  std::int64_t block_size = 16;
  std::int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
  bool spans = false;  ///< prefill: some neighbouring tokens see each other

  std::int64_t group() const { return heads / kv_heads; }
  std::int64_t element_bytes() const { return fp8 ? 1 : 2; }
  std::int64_t head_bytes() const { return block_size * (key_dim + value_dim) * element_bytes(); }
  std::int64_t page_bytes() const { return kv_heads * head_bytes(); }
  std::int32_t block_shift() const { return std::countr_zero(static_cast<std::uint64_t>(block_size)); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(key_dim)); }
};

struct DecodeVariant {
  int tokens = 1, warps = 4, stages = 2, blocks = 1;
  int cluster = 1;  ///< above 1, rows are taken whole
};
struct PrefillVariant {
  int warps = 4, row_tiles = 2, keys = 64, blocks = 1;
  int warpgroups = 0, stages = 2;  ///< of the sm_90a kernel, if there are any; with `keys`
};
inline PrefillVariant sm90(int warpgroups, int keys, int stages) {
  return {.keys = keys, .warpgroups = warpgroups, .stages = stages};
}

/// Device memory cut front to back.
class Arena {
 public:
  Arena(ContextPtr context, std::int64_t bytes) : range_(*AddressRange::reserve(context, bytes)) {
    if (!range_.map(bytes).ok()) std::abort();
  }
  template <class T = std::byte>
  T* take(std::int64_t count) {
    std::byte* at = range_.data() + used_;
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + 511) / 512 * 512;
    if (used_ > range_.mapped_bytes()) std::abort();
    return reinterpret_cast<T*>(at);
  }
  void reset() { used_ = 0; }

 private:
  AddressRange range_;
  std::int64_t used_ = 0;
};

class Runner {
 public:
  Runner(ContextPtr context, std::shared_ptr<Compiler> compiler, std::int64_t arena_bytes)
      : context_(context),
        compiler_(compiler),
        loader_(context, compiler),
        stream_(context),
        arena_(context, arena_bytes),
        staging_(*PinnedBytes::create(context, kStaging)) {}

  static device::CompileUnit decode_unit(const Geometry& g, const DecodeVariant& v) {
    return {.source = "kernels/attention/cuda_decode.cu",
            .defines = {pagoda::format("HEAD_DIM_K={}", g.key_dim), pagoda::format("HEAD_DIM_V={}", g.value_dim),
                        pagoda::format("GROUP={}", g.group()), pagoda::format("TOKENS={}", v.tokens),
                        pagoda::format("ELEMENT={}", g.fp8 ? 1 : 0), pagoda::format("WARPS={}", v.warps),
                        pagoda::format("STAGES={}", v.stages), pagoda::format("BLOCKS={}", v.blocks),
                        pagoda::format("CLUSTER={}", v.cluster)},
            .architecture = "sm_90"};
  }
  static PrefillSm90Problem sm90_problem(const Geometry& g) {
    return {g.heads, g.kv_heads, g.key_dim, g.value_dim, g.block_size, g.softcap > 0};
  }
  static PrefillSm90Plan sm90_plan(const Geometry& g, const PrefillVariant& v) {
    const auto plan = plan_prefill_sm90(sm90_problem(g), {v.warpgroups, v.keys, v.stages});
    if (!plan || g.fp8) std::abort();
    return *plan;
  }
  static device::CompileUnit prefill_unit(const Geometry& g, const PrefillVariant& v) {
    if (v.warpgroups > 0) return sm90_plan(g, v).unit;
    return {.source = "kernels/attention/cuda_prefill.cu",
            .defines = {pagoda::format("HEAD_DIM_K={}", g.key_dim), pagoda::format("HEAD_DIM_V={}", g.value_dim),
                        pagoda::format("GROUP={}", g.group()), pagoda::format("ELEMENT={}", g.fp8 ? 1 : 0),
                        pagoda::format("WARPS={}", v.warps), pagoda::format("ROW_TILES={}", v.row_tiles),
                        pagoda::format("KEYS={}", v.keys), pagoda::format("SOFTCAP={}", g.softcap > 0 ? 1 : 0),
                        pagoda::format("BLOCKS={}", v.blocks)},
            .architecture = "sm_90"};
  }
  static device::CompileUnit schedule_unit() {
    return {.source = "kernels/attention/cuda_decode_schedule.cu", .defines = {}, .architecture = "sm_90"};
  }

  template <class P>
  Kernel<P> kernel(const device::CompileUnit& unit, const char* name) {
    auto made = loader_.kernel<P>(unit, name);
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.error().message.c_str());
      std::exit(1);
    }
    return *made;
  }

  void upload(void* to, const void* data, std::int64_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    for (std::int64_t at = 0; at < bytes; at += kStaging) {
      const std::int64_t part = std::min(kStaging, bytes - at);
      std::memcpy(staging_.host(), from + at, static_cast<std::size_t>(part));
      staging_.upload(0, part, static_cast<std::byte*>(to) + at, stream_);
    }
  }
  template <class T>
  T* upload_new(const std::vector<T>& data) {
    T* to = arena_.take<T>(static_cast<std::int64_t>(data.size()));
    upload(to, data.data(), static_cast<std::int64_t>(data.size() * sizeof(T)));
    return to;
  }
  template <class T>
  std::vector<T> download(const T* from, std::int64_t count) {
    staging_.download(0, count * static_cast<std::int64_t>(sizeof(T)), from, stream_);
    std::vector<T> data(static_cast<std::size_t>(count));
    std::memcpy(data.data(), staging_.host(), data.size() * sizeof(T));
    return data;
  }
  void fill(void* to, std::uint8_t byte, std::int64_t bytes) {
    context_->driver().check(context_->api().set_bytes_async(reinterpret_cast<DeviceAddress>(to), byte,
                                                             static_cast<std::size_t>(bytes), stream_.handle()),
                             "filling");
  }

  /// Everything of a step but query, output and pages.
  struct Decode {
    Kernel<DecodeParams> kernel;
    LaunchConfig config;
    Kernel<DecodeScheduleParams> schedule_kernel;
    DecodeScheduleParams schedule{};
    DecodeParams params{};
  };

  Decode decode(const Geometry& g, const DecodeVariant& v, std::span<const Row> rows, std::int64_t padding,
                const std::vector<std::int32_t>& tables, int fixed_partition) {
    Decode d;
    d.kernel = kernel<DecodeParams>(decode_unit(g, v), "decode");
    d.schedule_kernel = kernel<DecodeScheduleParams>(schedule_unit(), "decode_schedule");
    const std::int64_t shared =
        decode_shared_bytes(g.key_dim, g.value_dim, g.group() * v.tokens, g.element_bytes(), v.warps, v.stages);
    d.kernel.allow_shared_bytes(shared);
    const int resident = d.kernel.max_active_blocks(v.warps * 32, shared);
    if (resident < v.blocks) std::fprintf(stderr, "only %d blocks of %ld bytes\n", resident, static_cast<long>(shared));
    const auto num_rows = static_cast<std::int64_t>(rows.size());
    const auto works = static_cast<int>(std::min<std::int64_t>(num_rows * g.kv_heads, kMostClusters));
    const int blocks =
        v.cluster > 1 ? works * v.cluster : std::max(1, std::min(resident, v.blocks)) * context_->caps().num_sms;
    d.config = {.grid = {.x = static_cast<std::uint32_t>(blocks)},
                .block = {.x = static_cast<std::uint32_t>(v.warps * 32)},
                .shared_bytes = static_cast<std::uint32_t>(shared),
                .cluster = static_cast<std::uint32_t>(v.cluster)};
    std::vector<std::int64_t> offsets = {0}, starts;
    for (const Row& row : rows) {
      offsets.push_back(offsets.back() + row.tokens);
      starts.push_back(row.start);
    }
    const std::int64_t capacity = num_rows + 2048;
    auto* schedule = arena_.take<DecodeSchedule>(1);
    auto* items = arena_.take<DecodeItem>(capacity);
    d.schedule = {.row_offsets = upload_new(offsets),
                  .row_starts = upload_new(starts),
                  .schedule = schedule,
                  .items = items,
                  .prefix = arena_.take<std::int32_t>(num_rows + 1),
                  .num_rows = num_rows,
                  .window = g.window,
                  .max_tokens = v.tokens,
                  .kv_heads = static_cast<std::int32_t>(g.kv_heads),
                  .blocks = blocks,
                  .fixed_partition = v.cluster > 1 ? kWholeRows : fixed_partition,
                  .capacity = static_cast<std::int32_t>(capacity)};
    const std::int64_t columns = capacity * g.kv_heads * g.group() * v.tokens;
    auto* counters = arena_.take<std::int32_t>(num_rows * g.kv_heads);
    fill(counters, 0, num_rows * g.kv_heads * 4);
    d.params = {.block_tables = upload_new(tables),
                .schedule = schedule,
                .items = items,
                .partial = arena_.take<float>(columns * g.value_dim),
                .stats = arena_.take<float>(columns * 2),
                .counters = counters,
                .query_stride = g.heads * g.key_dim,
                .output_stride = g.heads * g.value_dim,
                .block_stride = g.page_bytes(),
                .max_blocks = static_cast<std::int64_t>(tables.size()) / num_rows,
                .num_tokens = offsets.back() + padding,
                .kv_heads = static_cast<std::int32_t>(g.kv_heads),
                .block_shift = g.block_shift(),
                .window = static_cast<std::int32_t>(g.window),
                .scale = g.scale(),
                .softcap = static_cast<float>(g.softcap),
                .value_scale = 1};
    return d;
  }
  void launch_schedule(const Decode& d, bool programmatic = false) {
    d.schedule_kernel.launch(stream_, {.grid = {}, .block = {.x = 256}, .programmatic = programmatic}, d.schedule);
  }

  /// Of either kernel; `params` says what both know.
  struct Prefill {
    Kernel<PrefillParams> kernel = {};
    Kernel<PrefillSm90Params> kernel_sm90 = {};
    LaunchConfig config = {};
    PrefillParams params{};
    Geometry geometry;
    PrefillVariant variant;
    std::int32_t* counters = nullptr;
    std::int32_t num_items = 0;
    std::int64_t num_pages = 0;
  };

  Prefill prefill(const Geometry& g, const PrefillVariant& v, std::span<const Row> rows,
                  const std::vector<std::int32_t>& tables, std::int64_t num_pages) {
    Prefill f{.geometry = g, .variant = v, .num_pages = num_pages};
    std::vector<PrefillItem> items;
    if (v.warpgroups > 0) {
      const PrefillSm90Plan plan = sm90_plan(g, v);
      f.kernel_sm90 = kernel<PrefillSm90Params>(plan.unit, "prefill_sm90");
      f.kernel_sm90.allow_shared_bytes(plan.shared_bytes);
      items = prefill_items(rows, plan.item_tokens);
      f.counters = upload_new(std::vector<std::int32_t>(2, 0));
      const auto num_items = static_cast<std::int64_t>(items.size());
      f.config = {.grid = {.x = prefill_sm90_blocks(num_items, g.kv_heads, context_->caps().num_sms)},
                  .block = {.x = plan.threads},
                  .shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes)};
    } else {
      f.kernel = kernel<PrefillParams>(prefill_unit(g, v), "prefill");
      const std::int64_t tile_rows = v.warps * v.row_tiles * 16;
      const std::int64_t shared = prefill_shared_bytes(g.key_dim, g.value_dim, g.element_bytes(), tile_rows, v.keys);
      f.kernel.allow_shared_bytes(shared);
      items = prefill_items(rows, tile_rows / g.group());
      f.config = {.grid = {.x = static_cast<std::uint32_t>(g.kv_heads), .y = static_cast<std::uint32_t>(items.size())},
                  .block = {.x = static_cast<std::uint32_t>(v.warps * 32)},
                  .shared_bytes = static_cast<std::uint32_t>(shared)};
    }
    f.num_items = static_cast<std::int32_t>(items.size());
    f.params = {.block_tables = upload_new(tables),
                .items = upload_new(items),
                .query_stride = g.heads * g.key_dim,
                .output_stride = g.heads * g.value_dim,
                .block_stride = g.page_bytes(),
                .max_blocks = static_cast<std::int64_t>(tables.size() / rows.size()),
                .block_shift = g.block_shift(),
                .window = static_cast<std::int32_t>(g.window),
                .scale = g.scale(),
                .softcap = static_cast<float>(g.softcap),
                .value_scale = 1};
    return f;
  }
  void launch(const Prefill& f) {
    if (f.variant.warpgroups == 0) {
      f.kernel.launch(stream_, f.config, f.params);
      return;
    }
    const PrefillParams& p = f.params;
    PrefillSm90Params params{.query = p.query,
                             .output = p.output,
                             .block_tables = p.block_tables,
                             .items = p.items,
                             .sinks = p.sinks,
                             .last_keys = p.last_keys,
                             .counters = f.counters,
                             .query_stride = p.query_stride,
                             .output_stride = p.output_stride,
                             .max_blocks = p.max_blocks,
                             .num_items = f.num_items,
                             .kv_heads = static_cast<std::int32_t>(f.geometry.kv_heads),
                             .block_shift = p.block_shift,
                             .window = p.window,
                             .scale = p.scale,
                             .softcap = p.softcap};
    set_page_maps(context_->driver(), sm90_problem(f.geometry), f.variant.keys, p.pages, f.num_pages, p.block_stride,
                  params);
    f.kernel_sm90.launch(stream_, f.config, params);
  }

  static std::vector<PrefillItem> prefill_items(std::span<const Row> rows, std::int64_t tile) {
    std::vector<PrefillItem> items;
    std::int64_t token = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::int64_t at = 0; at < rows[r].tokens; at += tile) {
        items.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(token + at),
                         static_cast<std::int32_t>(std::min(tile, rows[r].tokens - at)),
                         static_cast<std::int32_t>(rows[r].start + at)});
      }
      token += rows[r].tokens;
    }
    std::stable_sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.position > b.position; });
    return items;
  }

  /// Median microseconds of a replay.
  double time(const Graph& graph, int repeats) {
    std::vector<double> times;
    Event begin(context_, true), end(context_, true);
    for (int i = 0; i < repeats + 3; ++i) {
      begin.record(stream_);
      graph.launch(stream_);
      end.record(stream_);
      end.synchronize();
      if (i >= 3) times.push_back(end.elapsed_ms_since(begin) * 1e3);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  CudaStream& stream() { return stream_; }
  Arena& arena() { return arena_; }
  const Context& context() const { return *context_; }
  void compile(const std::vector<device::CompileUnit>& units) {
    if (auto done = compiler_->compile_all(units); !done.ok()) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      std::exit(1);
    }
  }

 private:
  static constexpr std::int64_t kStaging = 128 << 20;
  static constexpr std::int64_t kMostClusters = 15;  // of 8 blocks, that an H200 runs at once
  ContextPtr context_;
  std::shared_ptr<Compiler> compiler_;
  ModuleLoader loader_;
  CudaStream stream_;
  Arena arena_;
  PinnedBytes staging_;
};

}  // namespace pagoda::bench
