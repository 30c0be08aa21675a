#include "pagoda/inspect.h"

#include <exception>
#include <map>
#include <new>

#include "api/devices.h"
#include "base/format.h"
#include "runtime/cuda_runner.h"
#include "runtime/host_runner.h"

namespace pagoda {
namespace {

constexpr std::size_t kMostShown = 120;

std::string shorten(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    if (shown.size() >= kMostShown) return shown + pagoda::format("… ({} bytes)", text.size());
    shown += c == '\n' ? ' ' : c;
  }
  return shown;
}

std::string value_text(const io::Value& value) {
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* number = value.get_if<std::int64_t>()) return std::to_string(*number);
  if (const auto* number = value.get_if<std::uint64_t>()) return std::to_string(*number);
  if (const auto* number = value.get_if<double>()) return pagoda::format("{}", *number);
  if (const auto* text = value.get_if<std::string>()) return shorten(*text);
  return value.kind();
}

/// "hidden: 576" as a name and a value.
Fact split_line(const std::string& line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string::npos) return {.name = line, .value = {}};
  return {.name = line.substr(0, colon), .value = line.substr(colon + 2)};
}

std::string bytes_text(std::int64_t bytes) {
  return pagoda::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

/// What the plan takes of the GPU's memory, and what would do if that is too much.
std::string fit_text(const device::DeviceCaps& caps, const model::Plan& plan, const runtime::RunnerMemory& memory) {
  const std::int64_t there = caps.gpu.memory_bytes;
  const std::int64_t needed = api::gpu_bytes(plan, memory);
  const std::string text = pagoda::format("{}, of which {} stay free; {} has {}", bytes_text(needed),
                                          bytes_text(runtime::kMemoryReserve), caps.name, bytes_text(there));
  if (needed <= there) return text;
  if (needed - memory.cache_bytes > there) return text + ": too little, whatever the cache's size";
  return text + ": too little; a smaller --ctx or --kv-tokens makes the cache smaller";
}

void add_plan(Inspection& out, const model::Plan& plan) {
  for (const model::StageChoice& choice : model::explain(plan)) {
    out.plan.push_back({.stage = choice.stage,
                        .layers = choice.layers,
                        .candidate = choice.candidate,
                        .layout = choice.layout,
                        .reason = choice.reason});
  }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> layouts;  // count and bytes
  for (const model::WeightPlan& weight : plan.weights) {
    const std::string layout(weight.layout == nullptr ? "floats" : weight.layout->name);
    auto& [count, bytes] = layouts[pagoda::format("{} as {}", weight.format->name, layout)];
    ++count;
    bytes += weight.bytes;
  }
  for (const auto& [name, sizes] : layouts) {
    out.memory.push_back(
        {.name = name, .value = pagoda::format("{} weights, {}", sizes.first, bytes_text(sizes.second))});
  }
  out.memory.push_back({.name = "weights", .value = bytes_text(plan.weight_bytes)});
  out.memory.push_back({.name = "activations", .value = bytes_text(plan.activation_bytes)});
  out.memory.push_back({.name = "workspace", .value = bytes_text(plan.scratch_bytes)});
}

Result<Inspection> inspect_file(const Library& library, const std::string& path, const InspectOptions& options) {
  if (!options.caps.empty() && !options.plan) {
    return fail_param(ErrorCode::kInvalidArgument, "caps", "the GPU {} is named, but no plan for it is asked for",
                      options.caps);
  }
  const api::DescribedFile described = PAGODA_TRY(api::describe_file(path, options.model));
  Inspection out;
  out.info = api::file_info(described, options.model);
  out.metadata.push_back({.name = "container", .value = described.file.container()});
  for (const std::string_view key : described.file.config().keys()) {
    out.metadata.push_back({.name = std::string(key), .value = value_text(*described.file.config().find(key))});
  }
  for (const std::string& line : model::describe(described.description.spec)) out.spec.push_back(split_line(line));
  for (const io::TensorEntry& entry : described.file.tensors().entries()) {
    out.tensors.push_back({.name = entry.name,
                           .format = std::string(entry.format->name),
                           .shape = entry.shape,
                           .offset = entry.offset,
                           .bytes = entry.bytes});
  }
  if (!options.plan) return out;
  const device::DeviceCaps caps = PAGODA_TRY(api::choose_caps(*library.state(), options.model.device, options.caps));
  const model::Plan plan =
      PAGODA_TRY(api::plan_for(described.description, caps, options.model, library.state()->threads));
  const runtime::CacheSize size{.tokens = options.model.kv_tokens.value_or(0),
                                .bytes = options.model.kv_bytes.value_or(0)};
  const runtime::RunnerMemory memory = PAGODA_TRY(runtime::runner_memory(plan, size));
  add_plan(out, plan);
  out.memory.push_back({.name = "KV cache, when full", .value = bytes_text(memory.cache_bytes)});
  if (caps.kind == device::DeviceKind::kCuda) {
    out.memory.push_back({.name = "in all", .value = fit_text(caps, plan, memory)});
  }
  return out;
}

}  // namespace

Result<Inspection> inspect(const Library& library, const std::string& path, const InspectOptions& options) {
  try {
    return inspect_file(library, path, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "{}: there is not enough memory to inspect it", path);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", path, exception.what());
  }
}

}  // namespace pagoda
