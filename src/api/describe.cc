#include "api/describe.h"

#include <algorithm>

#include "api/file_keys.h"
#include "api/folder_keys.h"
#include "api/quantize_jobs.h"
#include "io/dummy_weights.h"
#include "io/json_config.h"
#include "sched/scheduler.h"
#include "text/stream_decoder.h"

namespace pagoda::api {
namespace {

Status option_range(const char* name, const std::optional<std::int64_t>& value, std::int64_t least, std::int64_t most) {
  if (!value || (*value >= least && *value <= most)) return Ok{};
  return fail_param(ErrorCode::kInvalidArgument, name, "{} must be from {} to {}, not {}", name, least, most, *value);
}

/// A configuration with weights made up.
Result<io::ModelFile> open_dummy(const std::string& path, const ModelOptions& options) {
  const model::FormatOf formats = PAGODA_TRY(dummy_formats(options));
  io::RawConfig config = PAGODA_TRY(io::read_json_config(path));
  // The weights are of the format that was asked for, whatever those of the configuration are.
  config.mark_tree_read("quantization_config");
  config.mark_tree_read("quantization");
  io::TensorCatalog tensors = PAGODA_TRY(model::dummy_tensors(config, formats, options.ignore_keys));
  if (options.dummy_weights == "fp8_block128") tensors = model::with_block_scales(tensors);
  return io::make_dummy_file(std::move(config), std::move(tensors));
}

/// Errors: kInvalidArgument for a name that is neither a format nor a mix of formats.
Result<model::FormatOf> formats_named(const char* parameter, const std::string& name) {
  using model::BoundTensor, model::ModelSpec;
  if (const quant::Format* const format = quant::find_format(name)) {
    return model::FormatOf([format](const ModelSpec&, const BoundTensor&) -> const auto& { return *format; });
  }
  if (const Result<QuantizeTarget> mix = find_target(name, "dummy.gguf"); mix.ok() && mix->mixed) {
    return model::FormatOf([target = *mix](const ModelSpec& spec, const BoundTensor& tensor) -> const auto& {
      return *format_for(target, spec, tensor);
    });
  }
  std::string known;
  const auto add = [&](std::string_view each) { known += pagoda::format("{}{}", known.empty() ? "" : ", ", each); };
  for (const quant::Format* each : quant::all_formats()) add(each->name);
  for (const quant::FormatAlias& alias : quant::format_aliases()) add(alias.name);
  for (const std::string& target : target_names()) {
    if (find_target(target, "dummy.gguf")->mixed) add(target);
  }
  return fail_param(ErrorCode::kInvalidArgument, parameter, "the format must be one of {}, not \"{}\"", known, name);
}

}  // namespace

Result<model::FormatOf> dummy_formats(const ModelOptions& options) {
  const std::string& name = options.dummy_weights;
  model::FormatOf most = PAGODA_TRY(formats_named("dummy_weights", name.empty() ? "bf16" : name));
  if (options.dummy_head.empty()) return most;
  model::FormatOf head = PAGODA_TRY(formats_named("dummy_head", options.dummy_head));
  return model::FormatOf([ most, head ](const model::ModelSpec& spec, const model::BoundTensor& tensor) -> const auto& {
    const bool of_ids = tensor.role == model::Role::kHead || tensor.role == model::Role::kEmbedding;
    return (of_ids ? head : most)(spec, tensor);
  });
}

Result<DescribedFile> describe_file(const std::string& path, const ModelOptions& options) {
  if (options.dummy_weights.empty() && !options.dummy_head.empty()) {
    return fail_param(ErrorCode::kInvalidArgument, "dummy_head", "{} has weights of its own: none are made up for it",
                      path);
  }
  io::ModelFile file = PAGODA_TRY(options.dummy_weights.empty() ? io::open_model(path) : open_dummy(path, options));
  model::ModelDescription description =
      PAGODA_TRY(model::describe_model(file.config(), file.tensors(), options.ignore_keys));
  return DescribedFile{.file = std::move(file), .description = std::move(description)};
}

ModelInfo file_info(const DescribedFile& described, const ModelOptions& options) {
  const io::ModelFile& file = described.file;
  const model::ModelSpec& spec = described.description.spec;
  ModelInfo info;
  info.path = file.path();
  info.name = text::repair_utf8(stem_of(file.path()));
  info.architecture = model::architecture_of(file.config());
  info.format = options.dummy_weights.empty() ? format_of(file) : options.dummy_weights;
  info.file_bytes = static_cast<std::int64_t>(file.file_bytes());
  info.num_parameters = model::num_parameters(spec);
  info.vocabulary = spec.vocab;
  info.num_layers = std::ssize(spec.layers);
  info.hidden_size = spec.hidden;
  info.trained_context = spec.context;
  const auto own = file.folder().empty() ? chat_template_of(file.config()) : folder_chat_template(file.folder());
  info.has_chat_template = options.chat_template || (own.ok() && own->has_value());
  info.has_tokenizer = file.folder().empty() ? has_tokenizer(file.config()) : folder_has_tokenizer(file.folder());
  for (const std::string& key : options.ignore_keys) {
    const io::RawConfig& config = file.config();
    const bool there = config.contains(key) || config.contains_prefix(key + ".");
    if (there || folder_generation_has(file.folder(), key)) info.ignored_keys.push_back(key);
  }
  return info;
}

Status check_options(const ModelOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  PAGODA_TRY(option_range("context", options.context, 1, kMost));
  PAGODA_TRY(option_range("kv_tokens", options.kv_tokens, 1, kMost));
  PAGODA_TRY(option_range("kv_bytes", options.kv_bytes, 1, kMost));
  PAGODA_TRY(option_range("prefill_chunk", options.prefill_chunk, 1, 65536));
  PAGODA_TRY(option_range("max_running", options.max_running, 1, 1024));
  PAGODA_TRY(option_range("max_queued", options.max_queued, 0, 1 << 20));
  PAGODA_TRY(option_range("block_size", options.block_size, 8, 256));
  if ((options.block_size & (options.block_size - 1)) != 0) {
    return fail_param(ErrorCode::kInvalidArgument, "block_size", "block_size must be a power of two, not {}",
                      options.block_size);
  }
  if (options.kv_tokens && options.kv_bytes) {
    return fail_param(ErrorCode::kInvalidArgument, "kv_bytes", "kv_tokens and kv_bytes exclude each other");
  }
  return Ok{};
}

Result<model::Plan> plan_for(const model::ModelDescription& described, const device::DeviceCaps& caps,
                             const ModelOptions& options, int threads, bool any_size) {
  PAGODA_TRY(check_options(options));
  const bool exact = caps.kind == device::DeviceKind::kReference;
  sched::Limits limits;
  limits.prefill_chunk = static_cast<std::int32_t>(options.prefill_chunk.value_or(default_prefill_chunk(caps)));
  model::PlanOptions wanted;
  wanted.precision = exact                                       ? kernels::Precision::kExact
                     : options.precision == Precision::kStandard ? kernels::Precision::kStandard
                                                                 : kernels::Precision::kHigh;
  wanted.kv_dtype = PAGODA_TRY(model::parse_kv_dtype(options.kv_dtype));
  wanted.block_size = static_cast<std::int32_t>(options.block_size);
  wanted.context = options.context.value_or(0);
  wanted.max_rows = static_cast<std::int32_t>(options.max_running);
  limits.token_budget = INT32_MAX;
  wanted.max_step_tokens = limits.max_row_tokens() + wanted.max_rows;  // one full chunk beside every decode
  // On a GPU a captured step computes the logits of all its rows at once.
  if (caps.kind == device::DeviceKind::kCuda) {
    wanted.head_rows = std::clamp<std::int32_t>(wanted.max_rows, wanted.head_rows, kMostGpuHeadRows);
  }
  wanted.workers = threads;
  wanted.deterministic = options.deterministic;
  wanted.any_size = any_size;
  wanted.tune = options.tune;
  return model::make_plan(described.spec, described.binding, caps, wanted);
}

}  // namespace pagoda::api
