#include "kernels/attention/cuda_attention.h"

#include <bit>
#include <vector>

#include "kernels/attention/prefill_sm90_plan.h"
#include "kernels/cuda/launch.h"
#include "kernels/stages/scratch_cutter.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using device::cuda::Kernel;
using tensor::DType;

constexpr std::int64_t kMostItems = 2048;       // of work beyond one a row
constexpr std::int64_t kFewRows = 8;            // up to here few blocks with deep rings are the best
constexpr int kCluster = 8;                     // blocks, the most that every GPU of compute capability 9.0 takes
constexpr std::int64_t kLeastForClusters = 64;  // multiprocessors: smaller GPUs may have no eight that lie together
constexpr std::int64_t kScheduleThreads = 256;
constexpr std::int64_t kBlockReserve = 1024;  // of shared memory, that the system takes of each block
constexpr int kPrefillWarps = 4, kPrefillRowTiles = 2, kPrefillKeys = 64;

struct DecodeShape {
  int warps, stages, blocks;
  int cluster = 1;
};

/// Decode of steps of up to so many rows.
struct DecodeRange {
  std::int64_t most_rows;
  DecodeShape shape;
};

std::int64_t group_of(const AttentionProblem& problem) { return problem.num_heads / problem.layout.kv_heads; }
std::int64_t element_bytes(const AttentionProblem& problem) { return tensor::size_of(problem.layout.dtype); }
bool is_fp8(const AttentionProblem& problem) { return problem.layout.dtype == DType::kFp8E4m3; }

std::int64_t shared_bytes(const AttentionProblem& problem, const DecodeShape& shape) {
  return decode_shared_bytes(problem.layout.key_dim, problem.layout.value_dim, group_of(problem),
                             element_bytes(problem), shape.warps, shape.stages);
}

/// The measured best for few and for many rows (see cuda_decode.cu), or the first that fits.
DecodeShape decode_shape(const AttentionProblem& problem, bool few, const DeviceCaps& caps) {
  const bool narrow = problem.layout.key_dim <= 64;
  const DecodeShape best = is_fp8(problem) ? DecodeShape{8, 4, 1}
                           : narrow        ? (few ? DecodeShape{8, 4, 1} : DecodeShape{8, 3, 2})
                                           : (few ? DecodeShape{8, 3, 1} : DecodeShape{4, 2, 2});
  for (const DecodeShape& shape : {best, DecodeShape{8, 3, 1}, DecodeShape{8, 2, 1}, DecodeShape{4, 3, 1},
                                   DecodeShape{4, 2, 1}, DecodeShape{2, 2, 1}}) {
    if ((shared_bytes(problem, shape) + kBlockReserve) * shape.blocks <=
        caps.gpu.shared_bytes_per_block + kBlockReserve) {
      return shape;
    }
  }
  return {1, 2, 1};
}

/// Whether a cluster for each kv head takes a row that is alone: not if all of them are a third of the multiprocessors,
/// too few to read many keys, nor if they are over half. An H200 has room for 15 clusters of 8 at once, whose 120
/// blocks no longer gain on 132 that go alone.
bool one_row_in_clusters(const AttentionProblem& problem, const DeviceCaps& caps) {
  const std::int64_t blocks = problem.layout.kv_heads * kCluster;
  return programmatic(caps) && caps.gpu.num_sms >= kLeastForClusters && blocks * 3 >= caps.gpu.num_sms &&
         blocks * 2 <= caps.gpu.num_sms;
}

/// By rising number of rows; the last takes all that a step may have.
std::vector<DecodeRange> decode_ranges(const AttentionProblem& problem, const DeviceCaps& caps) {
  const DecodeShape few = decode_shape(problem, true, caps);
  std::vector<DecodeRange> ranges;
  if (one_row_in_clusters(problem, caps)) {
    ranges.push_back({1, {few.warps, few.stages, few.blocks, kCluster}});
  }
  if (problem.max_rows > 1 || ranges.empty()) ranges.push_back({kFewRows, few});
  if (problem.max_rows > kFewRows) ranges.push_back({problem.max_rows, decode_shape(problem, false, caps)});
  return ranges;
}

/// Of what is kept by range, what serves a step.
template <class Ranges>
const auto& for_rows(const Ranges& ranges, std::int64_t num_rows) {
  return *std::ranges::find_if(ranges, [&](const auto& range) { return num_rows <= range.most_rows; });
}

/// Of the attention kernel's grid.
std::int64_t decode_blocks(const AttentionProblem& problem, const DecodeRange& range, const DeviceCaps& caps) {
  if (range.shape.cluster > 1) return range.most_rows * problem.layout.kv_heads * range.shape.cluster;
  return std::int64_t{range.shape.blocks} * caps.gpu.num_sms;
}

CompileUnit decode_unit(const AttentionProblem& problem, const DecodeShape& shape, const DeviceCaps& caps) {
  return cuda_unit(
      caps, "attention/cuda_decode.cu",
      {define("HEAD_DIM_K", problem.layout.key_dim), define("HEAD_DIM_V", problem.layout.value_dim),
       define("GROUP", group_of(problem)), "TOKENS=1", define("ELEMENT", is_fp8(problem)), define("WARPS", shape.warps),
       define("STAGES", shape.stages), define("BLOCKS", shape.blocks), define("CLUSTER", shape.cluster)});
}

CompileUnit prefill_unit(const AttentionProblem& problem, const DeviceCaps& caps) {
  return cuda_unit(caps, "attention/cuda_prefill.cu",
                   {define("HEAD_DIM_K", problem.layout.key_dim), define("HEAD_DIM_V", problem.layout.value_dim),
                    define("GROUP", group_of(problem)), define("ELEMENT", is_fp8(problem)),
                    define("WARPS", kPrefillWarps), define("ROW_TILES", kPrefillRowTiles), define("KEYS", kPrefillKeys),
                    define("SOFTCAP", problem.softcap > 0), "BLOCKS=1"});
}

/// The kernel of compute capability 9.0, where it takes the problem.
PrefillSm90Problem sm90_problem(const AttentionProblem& problem) {
  return {.heads = problem.num_heads,
          .kv_heads = problem.layout.kv_heads,
          .key_dim = problem.layout.key_dim,
          .value_dim = problem.layout.value_dim,
          .block_size = problem.layout.block_size,
          .softcap = problem.softcap > 0};
}

std::optional<PrefillSm90Plan> sm90_plan(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (problem.any_size || caps.gpu.compute() != 90 || problem.layout.dtype != DType::kBf16 || problem.deterministic)
    return std::nullopt;
  return plan_prefill_sm90(sm90_problem(problem));
}

CompileUnit schedule_unit(const DeviceCaps& caps) { return cuda_unit(caps, "attention/cuda_decode_schedule.cu", {}); }

std::int64_t capacity_of(const AttentionProblem& problem) { return problem.max_rows + kMostItems; }

/// GroupInputs::work, cut.
struct Work {
  DecodeSchedule* schedule;
  DecodeItem* items;
  std::int32_t* prefix;
  std::int32_t* counters;
  std::int32_t* prefill_counters;
  std::size_t bytes;
};

Work cut_work(const AttentionProblem& problem, std::byte* memory) {
  ScratchCutter cutter(memory);
  const auto take = [&]<class T>(T*, std::int64_t count) {
    return reinterpret_cast<T*>(cutter.bytes(static_cast<std::size_t>(count) * sizeof(T)));
  };
  Work work{};
  work.schedule = take(work.schedule, 1);
  work.items = take(work.items, capacity_of(problem));
  work.prefix = take(work.prefix, problem.max_rows + 1);
  work.counters = take(work.counters, problem.max_rows * problem.layout.kv_heads);
  work.prefill_counters = take(work.prefill_counters, 2);
  work.bytes = cutter.used();
  return work;
}

struct Partials {
  float* values;
  float* stats;
  std::size_t bytes;
};

Partials cut_partials(const AttentionProblem& problem, std::byte* memory) {
  ScratchCutter cutter(memory);
  const std::int64_t columns = capacity_of(problem) * problem.num_heads;
  Partials partials{};
  partials.values = reinterpret_cast<float*>(
      cutter.bytes(static_cast<std::size_t>(columns * problem.layout.value_dim) * sizeof(float)));
  partials.stats = reinterpret_cast<float*>(cutter.bytes(static_cast<std::size_t>(columns * 2) * sizeof(float)));
  partials.bytes = cutter.used();
  return partials;
}

bool supports(const AttentionProblem& problem, const DeviceCaps& caps) {
  const KvLayout& layout = problem.layout;
  const bool elements = layout.dtype == DType::kBf16 || (is_fp8(problem) && caps.gpu.compute() >= 89);
  return on_cuda(caps) && !problem.any_size && problem.activation == DType::kBf16 && layout.order == KvOrder::kHeads &&
         elements && layout.key_dim % 16 == 0 && layout.value_dim % 16 == 0 && layout.key_dim <= 256 &&
         layout.value_dim <= 256;
}

std::size_t scratch_bytes(const AttentionProblem& problem, const DeviceCaps&) {
  return cut_partials(problem, nullptr).bytes;
}

std::vector<CompileUnit> units(const AttentionProblem& problem, const DeviceCaps& caps) {
  const auto sm90 = sm90_plan(problem, caps);
  std::vector<CompileUnit> units = {sm90 ? sm90->unit : prefill_unit(problem, caps), schedule_unit(caps)};
  for (const DecodeRange& range : decode_ranges(problem, caps)) {
    units.push_back(decode_unit(problem, range.shape, caps));
  }
  return units;
}

struct Prepared {
  struct Decode {
    std::int64_t most_rows;
    Kernel<DecodeParams> kernel;
    device::cuda::LaunchConfig config;
  };
  AttentionProblem problem;
  std::vector<Decode> decodes;
  Kernel<PrefillParams> prefill;
  std::optional<PrefillSm90Plan> sm90;  // instead of it
  Kernel<PrefillSm90Params> prefill_sm90;
  const device::cuda::Driver* driver = nullptr;
  std::int64_t num_sms = 0;
  std::uint32_t prefill_shared_bytes = 0;
  const float* sinks = nullptr;
  bool programmatic = false;

  void launch_decode(const AttentionArgs& args, device::cuda::CudaStream& stream) const {
    const KvLayout& layout = problem.layout;
    const Work work = cut_work(problem, args.group.work);
    const Partials partials = cut_partials(problem, args.scratch);
    const Decode& decode = for_rows(decodes, args.step.num_rows);
    decode.kernel.launch(stream, decode.config,
                         {.query = args.query.data,
                          .output = args.output.data,
                          .pages = args.pages.data,
                          .block_tables = args.group.block_tables,
                          .schedule = work.schedule,
                          .items = work.items,
                          .partial = partials.values,
                          .stats = partials.stats,
                          .counters = work.counters,
                          .sinks = sinks,
                          .query_stride = args.query.stride,
                          .output_stride = args.output.stride,
                          .block_stride = args.pages.block_stride,
                          .max_blocks = args.group.max_blocks,
                          .num_tokens = args.query.rows,
                          .kv_heads = static_cast<std::int32_t>(layout.kv_heads),
                          .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_size)),
                          .window = static_cast<std::int32_t>(problem.window),
                          .scale = static_cast<float>(problem.scale) * layout.key_scale,
                          .softcap = static_cast<float>(problem.softcap),
                          .value_scale = layout.value_scale});
  }

  void launch_prefill(const AttentionArgs& args, device::cuda::CudaStream& stream) const {
    const KvLayout& layout = problem.layout;
    prefill.launch(stream,
                   {.grid = {.x = grid_size(layout.kv_heads), .y = grid_size(args.group.num_prefill_items)},
                    .block = {.x = kPrefillWarps * 32},
                    .shared_bytes = prefill_shared_bytes,
                    .programmatic = programmatic},
                   {.query = args.query.data,
                    .output = args.output.data,
                    .pages = args.pages.data,
                    .block_tables = args.group.block_tables,
                    .items = static_cast<const PrefillItem*>(args.group.prefill_items),
                    .sinks = sinks,
                    .query_stride = args.query.stride,
                    .output_stride = args.output.stride,
                    .block_stride = args.pages.block_stride,
                    .max_blocks = args.group.max_blocks,
                    .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_size)),
                    .window = static_cast<std::int32_t>(problem.window),
                    .scale = static_cast<float>(problem.scale) * layout.key_scale,
                    .softcap = static_cast<float>(problem.softcap),
                    .value_scale = layout.value_scale});
  }

  void launch_prefill_sm90(const AttentionArgs& args, device::cuda::CudaStream& stream) const {
    const KvLayout& layout = problem.layout;
    PrefillSm90Params params{};
    set_page_maps(*driver, sm90_problem(problem), sm90->variant.keys, args.pages.data, args.pages.num_blocks,
                  args.pages.block_stride, params);
    params.query = args.query.data;
    params.output = args.output.data;
    params.block_tables = args.group.block_tables;
    params.items = static_cast<const PrefillItem*>(args.group.prefill_items);
    params.sinks = sinks;
    params.counters = cut_work(problem, args.group.work).prefill_counters;
    params.query_stride = args.query.stride;
    params.output_stride = args.output.stride;
    params.max_blocks = args.group.max_blocks;
    params.num_items = static_cast<std::int32_t>(args.group.num_prefill_items);
    params.kv_heads = static_cast<std::int32_t>(layout.kv_heads);
    params.block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_size));
    params.window = static_cast<std::int32_t>(problem.window);
    params.scale = static_cast<float>(problem.scale);
    params.softcap = static_cast<float>(problem.softcap);
    prefill_sm90.launch(stream,
                        {.grid = {.x = prefill_sm90_blocks(args.group.num_prefill_items, layout.kv_heads, num_sms)},
                         .block = {.x = sm90->threads},
                         .shared_bytes = static_cast<std::uint32_t>(sm90->shared_bytes)},
                        params);
  }

  void launch(const AttentionArgs& args, device::cuda::CudaStream& stream) const {
    if (args.step.num_single_rows > 0 && !problem.deterministic) launch_decode(args, stream);
    if (args.group.num_prefill_items == 0) return;
    if (sm90) return launch_prefill_sm90(args, stream);
    launch_prefill(args, stream);
  }
};

Result<Prepared::Decode> prepare_decode(const AttentionProblem& problem, const DecodeRange& range,
                                        device::cuda::CudaDevice& device) {
  const DecodeShape& shape = range.shape;
  Prepared::Decode decode{.most_rows = range.most_rows, .kernel = {}, .config = {}};
  decode.kernel = PAGODA_TRY(device.kernel<DecodeParams>(decode_unit(problem, shape, device.caps()), "decode"));
  decode.kernel.allow_shared_bytes(shared_bytes(problem, shape));
  decode.config = {.grid = {.x = grid_size(decode_blocks(problem, range, device.caps()))},
                   .block = {.x = static_cast<std::uint32_t>(shape.warps * 32)},
                   .shared_bytes = static_cast<std::uint32_t>(shared_bytes(problem, shape)),
                   .cluster = static_cast<std::uint32_t>(shape.cluster),
                   .programmatic = programmatic(device.caps())};
  return decode;
}

Status prepare_prefill(Prepared& prepared, device::cuda::CudaDevice& device) {
  const AttentionProblem& problem = prepared.problem;
  if (prepared.sm90) {
    prepared.prefill_sm90 = PAGODA_TRY(device.kernel<PrefillSm90Params>(prepared.sm90->unit, "prefill_sm90"));
    prepared.prefill_sm90.allow_shared_bytes(prepared.sm90->shared_bytes);
    return Ok{};
  }
  prepared.prefill = PAGODA_TRY(device.kernel<PrefillParams>(prefill_unit(problem, device.caps()), "prefill"));
  const std::int64_t bytes =
      prefill_shared_bytes(problem.layout.key_dim, problem.layout.value_dim, element_bytes(problem),
                           kPrefillWarps * kPrefillRowTiles * 16, kPrefillKeys);
  prepared.prefill.allow_shared_bytes(bytes);
  prepared.prefill_shared_bytes = static_cast<std::uint32_t>(bytes);
  return Ok{};
}

Result<AttentionStep> prepare(const AttentionProblem& problem, const AttentionWeights& weights,
                              device::Device& generic) {
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  for (const DecodeRange& range : decode_ranges(problem, device.caps())) {
    prepared->decodes.push_back(PAGODA_TRY(prepare_decode(problem, range, device)));
  }
  prepared->sinks = problem.sinks ? weights.sinks : nullptr;
  prepared->programmatic = programmatic(device.caps());
  prepared->driver = &device.context()->driver();
  prepared->num_sms = device.caps().gpu.num_sms;
  prepared->sm90 = sm90_plan(problem, device.caps());
  PAGODA_TRY(prepare_prefill(*prepared, device));
  return AttentionStep(
      [prepared = std::shared_ptr<const Prepared>(std::move(prepared))](
          const AttentionArgs& args, device::Stream& stream) { prepared->launch(args, device::cuda::cuda(stream)); });
}

}  // namespace

std::int64_t prefill_item_tokens(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (const auto sm90 = sm90_plan(problem, caps)) return sm90->item_tokens;
  return std::max<std::int64_t>(1, kPrefillWarps * kPrefillRowTiles * 16 / group_of(problem));
}

std::size_t attention_work_bytes(const AttentionProblem& problem, const DeviceCaps& caps) {
  return supports(problem, caps) ? cut_work(problem, nullptr).bytes : 0;
}

Result<AttentionScheduleStep> prepare_attention_schedule(const AttentionProblem& problem, std::byte* memory,
                                                         device::Device& generic) {
  const DeviceCaps& caps = generic.caps();
  if (!supports(problem, caps)) return AttentionScheduleStep([](const AttentionScheduleArgs&, device::Stream&) {});
  device::cuda::CudaDevice& device = device::cuda::cuda(generic);
  const std::vector<std::byte> zeros(attention_work_bytes(problem, caps));
  device.upload(memory, zeros.data(), std::ssize(zeros));
  auto kernel = PAGODA_TRY(device.kernel<DecodeScheduleParams>(schedule_unit(caps), "decode_schedule"));
  return AttentionScheduleStep([=, work = cut_work(problem, memory), ranges = decode_ranges(problem, caps)](
                                   const AttentionScheduleArgs& args, device::Stream& stream) {
    if (args.step.num_single_rows == 0 || problem.deterministic) return;
    const DecodeRange& range = for_rows(ranges, args.step.num_rows);
    kernel.launch(device::cuda::cuda(stream),
                  {.grid = {}, .block = {.x = kScheduleThreads}, .programmatic = programmatic(caps)},
                  {.row_offsets = args.step.row_offsets,
                   .row_starts = args.step.row_starts,
                   .schedule = work.schedule,
                   .items = work.items,
                   .prefix = work.prefix,
                   .num_rows = args.step.num_rows,
                   .window = problem.window,
                   .max_tokens = 1,
                   .kv_heads = static_cast<std::int32_t>(problem.layout.kv_heads),
                   .blocks = static_cast<std::int32_t>(decode_blocks(problem, range, caps)),
                   .fixed_partition = range.shape.cluster > 1 ? kWholeRows : 0,
                   .capacity = static_cast<std::int32_t>(capacity_of(problem))});
  });
}

const AttentionKernel kCudaAttention = {"cuda", {"bf16_mma"}, supports, scratch_bytes, units, prepare};

}  // namespace pagoda::kernels
