// Model::open: file → description → plan → weights → runner → engine.
#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <new>

#include "api/cache_size.h"
#include "api/devices.h"
#include "api/file_keys.h"
#include "api/folder_keys.h"
#include "api/model_state.h"
#include "model/weights.h"
#include "runtime/cuda_runner.h"
#include "runtime/host_runner.h"

namespace pagoda {
namespace {

using Clock = std::chrono::steady_clock;

void report(const ModelOptions& options, const Progress& progress) {
  if (options.progress) options.progress(progress);
}

/// Where tokenizer.json and its like lie; empty: all is in the model's one file.
const std::string& text_folder(const io::ModelFile& file, const ModelOptions& options) {
  return options.tokenizer.empty() ? file.folder() : options.tokenizer;
}

/// The tokenizer is made of the file's strings alone, so that it can be built while weights are read. Null if the model
/// has none.
Result<std::unique_ptr<const text::Tokenizer>> make_tokenizer(const io::ModelFile& file, const Model::State& state,
                                                              std::int64_t vocab) {
  const std::string& from = text_folder(file, state.options);
  const bool folder = !from.empty();
  const bool there = folder ? api::folder_has_tokenizer(from) : api::has_tokenizer(file.config());
  if (!there && !state.options.tokenizer.empty()) {
    return fail(ErrorCode::kTokenizerMissing, "{} is no directory with a tokenizer.json", from);
  }
  if (!there) return std::unique_ptr<const text::Tokenizer>();
  text::TokenizerSource source =
      PAGODA_TRY(folder ? api::folder_tokenizer_source(from, file.config()) : api::tokenizer_source(file.config()));
  if (source.kind == "gpt2" && source.pre.empty()) {
    state.library->log(LogLevel::kWarning,
                       pagoda::format("{}: tokenizer.ggml.pre is missing: text is cut by the rules \"default\", and "
                                      "answers are worse if the model was trained with others",
                                      file.path()));
  }
  auto made = text::Tokenizer::create(std::move(source));
  if (!made.ok()) {
    return fail(made.error().code, "{}{}: {}", folder ? from : file.path(), folder ? "/tokenizer.json" : "",
                made.error().message);
  }
  std::unique_ptr<const text::Tokenizer> tokenizer = std::move(made).value();
  // Directories of models for text keep tokens for images, which are refused when they are used.
  if (tokenizer->vocabulary_size() > vocab && !folder) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the tokenizer has {} tokens, and the model {}", file.path(),
                tokenizer->vocabulary_size(), vocab);
  }
  return tokenizer;
}

Status read_file_keys(Model::State& state, const io::ModelFile& file) {
  const std::string& folder = text_folder(file, state.options);
  state.sampling_defaults =
      PAGODA_TRY(folder.empty() ? api::sampling_defaults(file.config())
                                : api::folder_sampling_defaults(folder, state.options.ignore_keys));
  std::optional<std::string> source = state.options.chat_template;
  if (!source) {
    source = PAGODA_TRY(folder.empty() ? api::chat_template_of(file.config()) : api::folder_chat_template(folder));
  }
  state.info.has_chat_template = source.has_value();
  if (!source) return Ok{};
  state.chat_template.emplace(text::ChatTemplate::parse(std::move(*source)));
  if (state.chat_template->ok()) return Ok{};
  const std::string& why = state.chat_template->error().message;
  if (state.options.chat_template) return fail_param(ErrorCode::kInvalidArgument, "--template", "--template: {}", why);
  // Of the model's own: what needs none still does.
  state.library->log(LogLevel::kWarning, pagoda::format("conversations will be refused: {}", why));
  return Ok{};
}

/// What a decode step reads, for benches: each weight but an embedding that is no head.
void note_step_bytes(Model::State& state, const model::Plan& plan) {
  state.step_weight_bytes = 0;
  for (const model::WeightPlan& weight : plan.weights) {
    const bool rows_only = weight.tensor.role == model::Role::kEmbedding && !plan.spec.tied_head;
    if (!rows_only) state.step_weight_bytes += weight.bytes;
  }
}

void fill_running_info(Model::State& state, const model::Plan& plan) {
  ModelInfo& info = state.info;
  info.device = device::to_string(plan.caps.kind);
  if (plan.caps.kind == device::DeviceKind::kCuda) {
    info.device = pagoda::format("cuda:{}", device::cuda::cuda(*state.device).context()->ordinal());
  }
  info.device_name = plan.caps.name;
  info.precision = state.options.precision;
  info.threads = state.library->threads;
  info.context = plan.options.context;
  info.kv_dtype = tensor::name_of(plan.kv_dtype);
  info.block_size = plan.options.block_size;
  info.most_choices = state.options.max_running + state.options.max_queued;
  info.prefill_chunk = state.options.prefill_chunk.value_or(api::default_prefill_chunk(plan.caps));
  info.weight_bytes = plan.weight_bytes;
}

/// The runner's cache as ModelInfo shows it: tokens of the full groups, or of any if all are windowed.
void fill_cache_info(Model::State& state, const runtime::RunnerInfo& runner) {
  ModelInfo& info = state.info;
  state.kv_groups.assign(runner.groups.begin(), runner.groups.end());
  for (const kv::GroupConfig& group : runner.groups) {
    info.kv_bytes += group.block_count * group.bytes_per_block;
    if (!group.windowed() || info.kv_tokens == 0) info.kv_tokens = group.block_count * group.block_size;
  }
}

engine::Options engine_options(const Model::State& state, const model::Plan& plan) {
  engine::Options options;
  options.limits = {.context = plan.options.context,
                    .max_running = plan.options.max_rows,
                    .max_queued = static_cast<std::int32_t>(state.options.max_queued),
                    .token_budget = plan.options.max_step_tokens,
                    .prefill_chunk = static_cast<std::int32_t>(state.info.prefill_chunk),
                    .token_tile = api::token_tile(plan.caps)};
  options.model_id = state.info.path;
  return options;
}

/// Compiles what is neither packed nor kept while weights are read. Ready at once on a host.
std::future<Status> compile_ahead(const Library::State& library, const model::Plan& plan) {
  if (plan.caps.kind != device::DeviceKind::kCuda)
    return std::async(std::launch::deferred, [] { return Status(Ok{}); });
  return std::async(std::launch::async,
                    [compiler = api::compiler_of(library), units = runtime::cuda_runner_units(plan)] {
                      return compiler->compile_all(units);
                    });
}

/// A head may have more rows than there are tokens: padding, and numbers that the vocabulary leaves out.
std::vector<std::int32_t> ids_without_token(const text::Tokenizer& tokenizer, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocab; ++id) {
    if (!tokenizer.has_token(id)) ids.push_back(id);
  }
  return ids;
}

Result<std::unique_ptr<runtime::Runner>> make_runner(Model::State& state, model::Plan plan, model::Weights weights,
                                                     const runtime::CacheSize& cache) {
  std::vector<std::int32_t> never_drawn;
  if (state.tokenizer != nullptr) never_drawn = ids_without_token(*state.tokenizer, plan.spec.vocab);
  if (plan.caps.kind == device::DeviceKind::kCuda) {
    return runtime::make_cuda_runner(std::move(plan), std::move(weights), device::cuda::cuda(*state.device), cache,
                                     std::move(never_drawn));
  }
  return runtime::make_host_runner(std::move(plan), std::move(weights), *state.pool, *state.device, cache,
                                   std::move(never_drawn));
}

void write_ledger(Model::State& state, const runtime::RunnerMemory& taken) {
  const api::DeviceMemory device = api::device_memory(*state.device);
  state.memory = {.path = state.info.path,
                  .device = state.info.device,
                  .weight_bytes = state.info.weight_bytes,
                  .cache_bytes = taken.cache_bytes,
                  .workspace_bytes = taken.workspace_bytes,
                  .graph_bytes = taken.graph_bytes,
                  .free_bytes = device.free_bytes,
                  .device_bytes = device.total_bytes,
                  .context = state.info.context,
                  .cache_tokens = state.info.kv_tokens,
                  .cache_reason = api::cache_reason(state.options, state.device->caps().kind, state.info)};
  const std::scoped_lock lock(state.library->mutex);
  state.library->ledger[&state] = state.memory;
}

using MadeTokenizer = std::future<Result<std::unique_ptr<const text::Tokenizer>>>;

Status load_and_start(Model::State& state, const api::DescribedFile& described, MadeTokenizer& tokenizer) {
  api::PlannedDevice chosen = PAGODA_TRY(api::choose_device(*state.library, described, state.options));
  state.device = std::move(chosen.device);
  model::Plan plan = std::move(chosen.plan);
  if (plan.kv_dtype == tensor::DType::kFp8E4m3) {
    const auto without = std::ranges::count_if(plan.spec.layers, [](const model::LayerSpec& layer) {
      return layer.attention.key_cache_scale == 0 || layer.attention.value_cache_scale == 0;
    });
    if (without > 0) {  // CASES G8
      state.library->log(LogLevel::kWarning,
                         pagoda::format("keys and values of {} of {} layers are kept in fp8_e4m3 with a scale of 1.0: "
                                        "the checkpoint has none for them",
                                        without, plan.spec.layers.size()));
    }
  }
  note_step_bytes(state, plan);
  fill_running_info(state, plan);
  state.pool = std::make_unique<ThreadPool>(state.library->threads);
  std::future<Status> compiled = compile_ahead(*state.library, plan);
  model::Weights weights = PAGODA_TRY(model::Weights::load(
      plan, described.file, *state.pool, *state.device, [&](std::int64_t done, std::int64_t total) {
        report(state.options, {.stage = ProgressStage::kReadWeights,
                               .done = static_cast<std::uint64_t>(done),
                               .total = static_cast<std::uint64_t>(total)});
      }));
  PAGODA_TRY(compiled.get());
  state.tokenizer = PAGODA_TRY(tokenizer.get());
  report(state.options, {.stage = ProgressStage::kPrepare});
  const runtime::CacheSize cache =
      PAGODA_TRY(api::cache_size(state.options, plan, api::device_memory(*state.device).free_bytes));
  engine::Options options = engine_options(state, plan);
  auto runner = PAGODA_TRY(make_runner(state, std::move(plan), std::move(weights), cache));
  fill_cache_info(state, runner->info());
  options.limits.steps_in_flight = runner->info().steps_in_flight;
  const runtime::RunnerMemory memory = runner->info().memory;
  if (!runner->info().tuning.empty()) state.library->log(LogLevel::kInfo, "tuned: " + runner->info().tuning);
  state.engine = PAGODA_TRY(engine::Engine::start(options, std::move(runner)));
  // No sequence is longer than the whole cache.
  state.info.context = std::min(state.info.context, state.engine->most_tokens());
  if (state.options.context.value_or(0) > state.info.context) {
    state.library->log(LogLevel::kWarning,
                       pagoda::format("the context is {} tokens, which is all that the KV cache holds, not {}",
                                      state.info.context, *state.options.context));
  }
  write_ledger(state, memory);
  return Ok{};
}

Result<Model> open_described(const Library& library, const std::string& path, ModelOptions options) {
  const Clock::time_point begin = Clock::now();
  PAGODA_TRY(api::check_options(options));
  report(options, {.stage = ProgressStage::kReadHeader});
  const api::DescribedFile described = PAGODA_TRY(api::describe_file(path, options));
  auto state = std::make_shared<Model::State>();
  state->library = library.state();
  state->options = std::move(options);
  state->info = api::file_info(described, state->options);
  for (const std::string& key : state->info.ignored_keys) {
    state->library->log(LogLevel::kWarning, path + ": the key " + key + " is passed over, as asked");
  }
  PAGODA_TRY(read_file_keys(*state, described.file));

  MadeTokenizer tokenizer = std::async(std::launch::async, [&described, &state] {
    return make_tokenizer(described.file, *state, described.description.spec.vocab);
  });
  if (state->options.weights) {
    PAGODA_TRY(load_and_start(*state, described, tokenizer));
  } else {
    state->tokenizer = PAGODA_TRY(tokenizer.get());
  }
  state->info.has_tokenizer = state->tokenizer != nullptr;
  state->options.progress = {};  // nothing more is to be told, and the sink may hold a line on the screen
  state->info.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return Model(std::move(state));
}

}  // namespace

/// One of the places where exceptions end: what memory or a third party throws becomes the caller's error.
Result<Model> Model::open(const Library& library, const std::string& path, ModelOptions options) {
  try {
    return open_described(library, path, std::move(options));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "{}: there is not enough memory to open it", path);
  } catch (const device::cuda::DeviceError& error) {
    return error.error();
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", path, exception.what());
  }
}

}  // namespace pagoda
