#include "gpu/models/models.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "api/describe.h"
#include "fixtures/checkpoints.h"
#include "gpu/receipt.h"
#include "runtime/cuda_runner.h"

namespace pagoda::models {
namespace {

std::string& folder() {
  static std::string path;
  return path;
}

int num_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

model::Plan plan_of(const io::ModelFile& file, const device::DeviceCaps& caps, model::PlanOptions options) {
  const model::ModelDescription description = model::describe_model(file.config(), file.tensors()).value();
  return model::make_plan(description.spec, description.binding, caps, options).value();
}

}  // namespace

const std::string& cache_folder() { return folder(); }
void set_cache_folder(const std::string& path) { folder() = path; }

const Library& library() {
  static const Library made = Library::create({.cache_folder = cache_folder()}).value();
  return made;
}

const GoldenModel& golden_model(const std::string& name) {
  static std::map<std::string, std::unique_ptr<GoldenModel>> all;
  std::unique_ptr<GoldenModel>& model = all[name];
  if (model == nullptr) {
    model = std::make_unique<GoldenModel>();
    model->golden = fixtures::read_hf_golden(name);
    fixtures::write_hf_model(model->folder, model->golden);
  }
  return *model;
}

device::cuda::CudaDevice& GpuRunner::device() {
  static const std::unique_ptr<device::cuda::CudaDevice> device = [] {
    auto opened = device::cuda::CudaDevice::open(0, gpu::make_compiler(cache_folder()));
    PAGODA_CHECK(opened.ok(), "{}", opened.error().message);
    return std::move(*opened);
  }();
  return *device;
}

GpuRunner::GpuRunner(const io::ModelFile& file, model::PlanOptions options, const runtime::CacheSize& cache)
    : pool_(2, false) {
  model::Plan plan = plan_of(file, device().caps(), options);
  gpu::note_units(runtime::cuda_runner_units(plan));
  model::Weights weights = model::Weights::load(plan, file, pool_, device()).value();
  runner_ = runtime::make_cuda_runner(std::move(plan), std::move(weights), device(), cache).value();
}

std::vector<fixtures::TinyConfig> small_configs() {
  std::vector<fixtures::TinyConfig> all(3);
  all[0].heads = 6;
  all[0].kv_heads = 2;
  all[0].head_dim = 64;
  all[0].format = "q4_1";
  all[1].architecture = "gemma3";
  all[1].layers = 7;
  all[1].heads = 4;
  all[1].kv_heads = 1;
  all[1].head_dim = 64;
  all[1].window = 24;
  all[1].format = "bf16";
  all[2].architecture = "qwen2";
  all[2].heads = 5;
  all[2].kv_heads = 1;
  all[2].head_dim = 80;
  all[2].format = "bf16";
  for (fixtures::TinyConfig& config : all) config.context = 400;
  return all;
}

model::PlanOptions small_options() {
  model::PlanOptions options;
  options.max_step_tokens = 300;
  options.max_rows = 12;
  return options;
}

std::vector<float> reference_logits(const SmallModel& model, const std::vector<std::int32_t>& ids) {
  model::PlanOptions options;
  options.max_step_tokens = 128;
  options.max_rows = 1;
  fixtures::RunnerSetup setup(model.file, {"reference", device::reference_caps(), kernels::Precision::kExact}, options,
                              num_threads(), {.tokens = 600});
  fixtures::RunnerDriver driver(*setup);
  driver.start(0, ids);
  driver.run_through(0, 128);
  return driver.logits(0);
}

double deviation(const std::vector<float>& logits) {
  double sum = 0, squares = 0;
  for (const float value : logits) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(logits.size());
  return std::sqrt(squares / count - sum / count * (sum / count));
}

double logit_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size() || got.empty()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(error <= worst)) worst = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
  }
  return worst / deviation(want);
}

void expect_greedy(const SmallModel& model, const std::vector<std::int32_t>& prompt,
                   const std::vector<std::int32_t>& drawn, const std::string& what) {
  std::vector<std::int32_t> ids = prompt;
  ids.insert(ids.end(), drawn.begin(), drawn.end());
  const std::vector<float> logits = reference_logits(model, ids);
  const double near = 2 * kBound * deviation(logits);
  int ties = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const float* const row = logits.data() + (prompt.size() + i - 1) * static_cast<std::size_t>(model.vocab);
    const float best = *std::max_element(row, row + model.vocab);
    EXPECT_LE(static_cast<double>(best - row[drawn[i]]), near) << what << ": id " << i << " is " << drawn[i];
    ties += row[drawn[i]] < best ? 1 : 0;
  }
  EXPECT_LE(ties, std::ssize(drawn) / 10 + 1) << what;
}

std::vector<device::CompileUnit> all_units(const device::DeviceCaps& caps) {
  std::vector<device::CompileUnit> units;
  const auto add = [&](const std::vector<device::CompileUnit>& more) {
    units.insert(units.end(), more.begin(), more.end());
  };
  for (const std::string& name : fixtures::hf_golden_names()) {
    for (const std::int64_t chunk : {0, 7, 16, 17, 64, 2048}) {
      ModelOptions options{.device = "cuda", .prefill_chunk = chunk, .max_running = 4};
      if (chunk == 0) {
        options.kv_dtype = "fp8_e4m3";
        options.prefill_chunk = 17;
      }
      const auto described = api::describe_file(golden_model(name).folder.path(), options);
      PAGODA_CHECK(described.ok(), "{}", described.error().message);
      const auto plan = api::plan_for(described->description, caps, options, 2);
      PAGODA_CHECK(plan.ok(), "{}: {}", name, plan.error().message);
      add(runtime::cuda_runner_units(*plan));
    }
  }
  for (const std::string& name : fixtures::checkpoint_names()) {
    for (const std::int64_t chunk : {1, 3, 16, 64}) {
      const ModelOptions options{.device = "cuda", .prefill_chunk = chunk, .max_running = 4};
      const auto described = api::describe_file(fixtures::checkpoint_path(name), options).value();
      add(runtime::cuda_runner_units(api::plan_for(described.description, caps, options, 2).value()));
    }
  }
  for (const fixtures::TinyConfig& config : small_configs()) {
    const SmallModel model(config);
    for (const bool deterministic : {false, true}) {
      model::PlanOptions options = small_options();
      options.deterministic = deterministic;
      add(runtime::cuda_runner_units(plan_of(model.file, caps, options)));
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

}  // namespace pagoda::models
