#include "model/family.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/checked.h"
#include "io/quoted.h"

namespace pagoda::model {
namespace {

constexpr std::string_view kGgufKey = "general.architecture";
constexpr std::string_view kHfKey = "architectures";

/// A family and the words in which a file speaks of it.
struct Found {
  const Family* family = nullptr;
  const Dialect* dialect = nullptr;
  std::string_view name_space;               // of its keys
  std::span<const TensorName> shared_names;  // of its tensors
};

Error unknown(const io::RawConfig& config, std::string_view key, std::string_view value, Dialect Family::*dialect) {
  std::string known;
  for (const Family* family : families()) {
    for (const std::string_view name : (family->*dialect).architectures) {
      known += pagoda::format("{}{}", known.empty() ? "" : ", ", name);
    }
  }
  return fail(ErrorCode::kArchitectureUnknown, "{}: {} is {}; Pagoda knows {}", config.source(), key, io::quoted(value),
              known);
}

Result<Found> find_gguf(const io::RawConfig& config) {
  const std::string_view architecture = PAGODA_TRY(config.text(kGgufKey));
  for (const Family* family : families()) {
    for (const std::string_view name : family->gguf.architectures) {
      if (name == architecture) return Found{family, &family->gguf, architecture, gguf_tensor_names()};
    }
  }
  return unknown(config, kGgufKey, architecture, &Family::gguf);
}

Result<Found> find_hf(const io::RawConfig& config) {
  const io::StringList* classes = PAGODA_TRY(config.texts(kHfKey));
  if (classes->size() != 1) {
    return fail(ErrorCode::kArchitectureUnknown, "{}: architectures names {} classes; one is wanted", config.source(),
                classes->size());
  }
  const std::string_view architecture = (*classes)[0];
  for (const Family* family : families()) {
    for (std::size_t i = 0; i < family->hf.architectures.size(); ++i) {
      if (family->hf.architectures[i] != architecture) continue;
      const std::string_view type = PAGODA_TRY(config.text_or("model_type", family->hf.model_types[i]));
      if (type == family->hf.model_types[i]) return Found{family, &family->hf, {}, hf_tensor_names()};
      return fail(ErrorCode::kArchitectureUnknown, "{}: architectures is {}, but model_type is {}, not {}",
                  config.source(), io::quoted(architecture), io::quoted(type), family->hf.model_types[i]);
    }
  }
  return unknown(config, kHfKey, architecture, &Family::hf);
}

std::vector<TensorName> names_of(const Dialect& dialect, std::span<const TensorName> shared) {
  const auto own = dialect.tensor_names;
  std::vector<TensorName> names(own.begin(), own.end());
  for (const TensorName& name : shared) {
    if (std::ranges::find(own, name.role, &TensorName::role) == own.end()) names.push_back(name);
  }
  return names;
}

/// Scales of an fp8 cache, by the names that checkpoints have for them. Each belongs to a layer, or is refused.
Status read_cache_scales(ModelSpec& spec, const io::TensorCatalog& catalog, std::string_view source) {
  for (const auto& [name, scale] : catalog.scalars()) {
    constexpr std::string_view kLayers = "model.layers.";
    std::size_t layer = spec.layers.size();
    std::string_view rest = name;
    if (rest.starts_with(kLayers)) {
      rest.remove_prefix(kLayers.size());
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    }
    const bool keys = rest == ".self_attn.k_scale" || rest == ".self_attn.attn.k_scale" ||
                      rest == ".self_attn.k_proj.k_scale" || rest == ".self_attn.k_proj.output_scale";
    const bool values = rest == ".self_attn.v_scale" || rest == ".self_attn.attn.v_scale" ||
                        rest == ".self_attn.v_proj.v_scale" || rest == ".self_attn.v_proj.output_scale";
    const bool both = rest == ".self_attn.kv_scale";
    if (layer >= spec.layers.size() || !(keys || values || both)) {
      return fail(ErrorCode::kTensorUnclaimed, "{}: tensor {} is the scale of no layer's keys or values", source,
                  io::quoted(name));
    }
    AttentionSpec& attention = spec.layers[layer].attention;
    if (keys || both) attention.key_cache_scale = scale;
    if (values || both) attention.value_cache_scale = scale;
  }
  return Ok{};
}

struct Declared {
  ModelSpec spec;
  std::vector<TensorName> names;
};

Result<Declared> read_spec(const io::RawConfig& config, const io::TensorCatalog& catalog,
                           std::span<const std::string> ignored_keys) {
  const bool gguf = config.contains(kGgufKey);
  if (!gguf && !config.contains(kHfKey)) {
    return fail(ErrorCode::kConfigMissing,
                "{}: no {} (of a GGUF file) and no {} (of a config.json) tells the model's kind", config.source(),
                kGgufKey, kHfKey);
  }
  const Found found = PAGODA_TRY(gguf ? find_gguf(config) : find_hf(config));
  const ConfigReader reader(config, found.name_space, ignored_keys);
  std::vector<TensorName> names = names_of(*found.dialect, found.shared_names);
  ModelSpec spec = PAGODA_TRY(found.dialect->make_spec(reader, catalog, names));
  PAGODA_TRY(reader.finish());
  PAGODA_TRY(read_cache_scales(spec, catalog, config.source()));
  spec.family = found.family->name;
  assign_cache_groups(spec);
  return Declared{.spec = std::move(spec), .names = std::move(names)};
}

}  // namespace

const Family& family_named(std::string_view name) {
  const auto family = std::ranges::find(families(), name, &Family::name);
  PAGODA_CHECK(family != families().end(), "{}", name);
  return **family;
}

std::vector<TensorName> gguf_names_of(const Family& family) { return names_of(family.gguf, gguf_tensor_names()); }
std::vector<TensorName> hf_names_of(const Family& family) { return names_of(family.hf, hf_tensor_names()); }

Result<ModelDescription> describe_model(const io::RawConfig& config, const io::TensorCatalog& catalog,
                                        std::span<const std::string> ignored_keys) {
  Declared declared = PAGODA_TRY(read_spec(config, catalog, ignored_keys));
  Binding binding = PAGODA_TRY(bind_tensors(declared.spec, catalog, declared.names, config.source()));
  return ModelDescription{std::move(declared.spec), std::move(binding)};
}

std::string architecture_of(const io::RawConfig& config) {
  if (const auto gguf = config.text(kGgufKey); gguf.ok()) return std::string(*gguf);
  const auto classes = config.texts(kHfKey);
  return classes.ok() && (*classes)->size() > 0 ? std::string((**classes)[0]) : std::string();
}

Result<io::TensorCatalog> dummy_tensors(const io::RawConfig& config, const quant::Format& format,
                                        std::span<const std::string> ignored_keys) {
  const auto one = [&format](const ModelSpec&, const BoundTensor&) -> const quant::Format& { return format; };
  return dummy_tensors(config, FormatOf(one), ignored_keys);
}

Result<io::TensorCatalog> dummy_tensors(const io::RawConfig& config, const FormatOf& format_of,
                                        std::span<const std::string> ignored_keys) {
  const Declared declared = PAGODA_TRY(read_spec(config, io::TensorCatalog(), ignored_keys));
  std::vector<io::TensorEntry> entries;
  std::vector<const quant::Format*> files = {quant::find_format("f32")};  // of the vectors; then one a matrix's format
  std::vector<std::uint64_t> ends = {0};
  for (const BoundTensor& tensor : wanted_tensors(declared.spec)) {
    const quant::Format& own = tensor.matrix ? format_of(declared.spec, tensor) : *files.front();
    if (!own.fits(tensor.cols)) {
      return fail(ErrorCode::kFormatUnsupported,
                  "{}: rows of {} elements (the weight {}) are no multiple of the {} of a {} block", config.source(),
                  tensor.cols, to_string(tensor.role), own.block_elements, own.name);
    }
    io::TensorEntry entry;
    entry.name = tensor_name(declared.names, tensor.role, tensor.layer);
    entry.format = &own;
    // As checkpoints of that format are published, with scales of channels.
    entry.fp8_input = entry.row_scales = tensor.matrix && own.name == "fp8_e4m3";
    entry.shape = tensor.matrix ? std::vector{tensor.rows, tensor.cols} : std::vector{tensor.cols};
    if (tensor.matrix) {
      const auto file = std::find(files.begin() + 1, files.end(), &own);
      entry.file_index = static_cast<std::int32_t>(file - files.begin());
      if (file == files.end()) {
        files.push_back(&own);
        ends.push_back(0);
      }
    }
    const auto bytes = checked_mul(tensor.rows, own.row_bytes(tensor.cols));
    PAGODA_CHECK(bytes.has_value(), "{} rows of {}", tensor.rows, tensor.cols);  // a spec's sizes are bounded
    entry.bytes = static_cast<std::uint64_t>(*bytes);
    std::uint64_t& end = ends[static_cast<std::size_t>(entry.file_index)];
    entry.offset = end;
    end += entry.bytes;
    entries.push_back(std::move(entry));
  }
  return io::TensorCatalog(std::move(entries));
}

io::TensorCatalog with_block_scales(const io::TensorCatalog& tensors) {
  std::vector<io::TensorEntry> entries(tensors.entries().begin(), tensors.entries().end());
  for (io::TensorEntry& entry : entries) entry.row_scales = false;
  return io::TensorCatalog(std::move(entries));
}

}  // namespace pagoda::model
