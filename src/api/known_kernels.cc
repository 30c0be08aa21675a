#include "api/known_kernels.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>

#include "base/check.h"
#include "io/json_config.h"
#include "quant/format.h"
#include "runtime/cuda_runner.h"

namespace pagoda::api {
namespace {

using Units = std::vector<device::CompileUnit>;

constexpr std::int32_t kFirstWithFp8 = 89;  // compute capability

void sort_once(Units& units) {
  std::ranges::sort(units);
  const auto [first, last] = std::ranges::unique(units);
  units.erase(first, last);
}

/// A model of configs/: its configuration, and the formats its weights come in.
struct Known {
  io::RawConfig config;
  std::vector<const quant::Format*> formats;
};

/// The column `formats` of the list: "all", or names with commas between them.
std::vector<const quant::Format*> formats_of(const std::string& column) {
  const std::span<const quant::Format* const> all = quant::all_formats();
  if (column == "all") return {all.begin(), all.end()};
  std::vector<const quant::Format*> formats;
  std::istringstream names(column);
  for (std::string name; std::getline(names, name, ',');) {
    formats.push_back(quant::find_format(name));
    PAGODA_CHECK(formats.back() != nullptr, "{}", name);
  }
  return formats;
}

/// One layer of a model of these sizes, as a config.json. Only what decides about device code is more than a default.
Result<io::RawConfig> config_of(const std::string& architecture, const std::array<std::int64_t, 5>& sizes) {
  const auto [hidden, ffn, heads, kv_heads, head_dim] = sizes;
  std::string text = pagoda::format(
      R"({{"architectures": ["{}"], "hidden_size": {}, "intermediate_size": {}, "num_attention_heads": {},)"
      R"( "num_key_value_heads": {}, "head_dim": {}, "num_hidden_layers": 1, "vocab_size": 32000,)"
      R"( "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true}})",
      architecture, hidden, ffn, heads, kv_heads, head_dim);
  return io::parse_json_config(pagoda::format("{} of {}", architecture, hidden), text);
}

Result<std::vector<Known>> models_of_list(const device::EmbeddedSource& list) {
  std::vector<Known> models;
  std::istringstream lines{std::string(list.text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream columns(line);
    std::string architecture, formats;
    std::array<std::int64_t, 5> sizes{};
    columns >> architecture;
    for (std::int64_t& size : sizes) columns >> size;
    columns >> formats;
    PAGODA_CHECK(!columns.fail(), "{}: {}", list.name, line);
    models.push_back({.config = PAGODA_TRY(config_of(architecture, sizes)), .formats = formats_of(formats)});
  }
  return models;
}

Result<std::vector<Known>> known_models() {
  std::vector<Known> models;
  for (const device::EmbeddedSource& file : known_configs()) {
    if (file.name.ends_with(".json")) {
      io::RawConfig config = PAGODA_TRY(io::parse_json_config(std::string(file.name), file.text));
      models.push_back({.config = std::move(config), .formats = formats_of("bf16")});
    } else {
      std::ranges::move(PAGODA_TRY(models_of_list(file)), std::back_inserter(models));
    }
  }
  return models;
}

/// The ways in which a model may be opened that ask for device code of their own.
std::vector<ModelOptions> variants(const ModelOptions& options, const device::DeviceCaps& gpu) {
  std::vector<ModelOptions> all = {options};
  const auto also = [&all](auto change) {
    for (std::size_t i = 0, before = all.size(); i < before; ++i) {
      all.push_back(all[i]);
      change(all.back());
    }
  };
  if (options.kv_dtype == "auto" && gpu.gpu.compute() >= kFirstWithFp8) {
    also([](ModelOptions& other) { other.kv_dtype = "fp8_e4m3"; });
  }
  if (options.max_running < kMostGpuHeadRows) also([](ModelOptions& other) { other.max_running = kMostGpuHeadRows; });
  if (!options.deterministic) also([](ModelOptions& other) { other.deterministic = true; });
  return all;
}

/// A model with each combination of what chooses device code beside sizes, formats and the cache.
std::vector<model::ModelDescription> kinds_of(const model::ModelDescription& described) {
  std::vector<model::ModelDescription> all = {described};
  const auto also = [&all](auto change) {
    for (std::size_t i = 0, before = all.size(); i < before; ++i) {
      all.push_back(all[i]);
      change(all.back().spec, all.back().spec.layers.front());
    }
  };
  using model::LayerSpec, model::ModelSpec;
  also([](ModelSpec&, LayerSpec& layer) { layer.attention.rope.pairing = kernels::RopePairing::kInterleaved; });
  also([](ModelSpec&, LayerSpec& layer) { layer.attention.qk_norm = kernels::QkvNorm::kQueryKey; });
  also([](ModelSpec&, LayerSpec& layer) {
    if (layer.attention.qk_norm == kernels::QkvNorm::kQueryKey) layer.attention.qk_norm = kernels::QkvNorm::kAll;
  });
  also([](ModelSpec&, LayerSpec& layer) { layer.feed_forward.activation = kernels::ActivationKind::kGeluTanh; });
  also([](ModelSpec& spec, LayerSpec& layer) {
    layer.norms = model::NormPlacement::kBoth;
    spec.logit_softcap = 30;
  });
  return all;
}

}  // namespace

Result<Units> units_of(const model::ModelDescription& described, const device::DeviceCaps& gpu,
                       const ModelOptions& options, int threads) {
  Units units = runtime::cuda_runner_units(PAGODA_TRY(plan_for(described, gpu, options, threads)));
  sort_once(units);
  return units;
}

Result<Units> units_of_config(const io::RawConfig& config, const model::FormatOf& formats,
                              const device::DeviceCaps& gpu, const ModelOptions& options, int threads) {
  const io::TensorCatalog tensors = PAGODA_TRY(model::dummy_tensors(config, formats, options.ignore_keys));
  return units_of(PAGODA_TRY(model::describe_model(config, tensors, options.ignore_keys)), gpu, options, threads);
}

Result<Units> any_size_units(const device::DeviceCaps& gpu) {
  Units units;
  const io::RawConfig config = PAGODA_TRY(config_of("LlamaForCausalLM", {1024, 2048, 16, 4, 32}));
  for (const quant::Format* format : quant::all_formats()) {
    const io::TensorCatalog tensors = PAGODA_TRY(model::dummy_tensors(config, *format, {}));
    const model::ModelDescription described = PAGODA_TRY(model::describe_model(config, tensors, {}));
    for (const model::ModelDescription& each : kinds_of(described)) {
      for (const char* kv_dtype : {"bf16", "fp8_e4m3"}) {
        if (std::string_view(kv_dtype) != "bf16" && gpu.gpu.compute() < kFirstWithFp8) continue;
        for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{kMostGpuHeadRows}}) {
          const ModelOptions options{.kv_dtype = kv_dtype, .max_running = rows};
          Units more = runtime::cuda_runner_units(PAGODA_TRY(plan_for(each, gpu, options, 1, true)));
          std::ranges::move(more, std::back_inserter(units));
        }
      }
      sort_once(units);
    }
  }
  return units;
}

Result<Units> known_units(const device::DeviceCaps& gpu, const ModelOptions& options, int threads) {
  Units units;
  for (const Known& known : PAGODA_TRY(known_models())) {
    for (const quant::Format* format : known.formats) {
      const auto one = [format](const model::ModelSpec&, const model::BoundTensor&) -> const auto& { return *format; };
      std::vector<io::TensorCatalog> kinds = {PAGODA_TRY(model::dummy_tensors(known.config, one, options.ignore_keys))};
      if (std::ranges::any_of(kinds[0].entries(), &io::TensorEntry::row_scales)) {
        kinds.push_back(model::with_block_scales(kinds[0]));
      }
      for (const io::TensorCatalog& tensors : kinds) {
        const auto described = PAGODA_TRY(model::describe_model(known.config, tensors, options.ignore_keys));
        for (const ModelOptions& variant : variants(options, gpu)) {
          Units more = PAGODA_TRY(units_of(described, gpu, variant, threads));
          std::ranges::move(more, std::back_inserter(units));
        }
      }
    }
  }
  std::ranges::move(PAGODA_TRY(any_size_units(gpu)), std::back_inserter(units));
  sort_once(units);
  return units;
}

}  // namespace pagoda::api
