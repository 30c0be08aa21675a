#include "model/family.h"

#include <algorithm>

namespace pagoda::model {
namespace {

Result<const Family*> find_family(const io::RawConfig& config, std::string_view architecture) {
  std::string known;
  for (const Family* family : families()) {
    for (const std::string_view name : family->gguf_architectures) {
      if (name == architecture) return family;
      known += pagoda::format("{}{}", known.empty() ? "" : ", ", name);
    }
  }
  return fail(ErrorCode::kArchitectureUnknown, "{}: general.architecture is \"{}\"; Pagoda knows {}", config.source(),
              architecture, known);
}

}  // namespace

Result<ModelDescription> describe_model(const io::RawConfig& config, const io::TensorCatalog& catalog,
                                        std::span<const std::string> ignored_keys) {
  const std::string_view architecture = PAGODA_TRY(config.text("general.architecture"));
  const Family* family = PAGODA_TRY(find_family(config, architecture));
  const ConfigReader reader(config, architecture, ignored_keys);
  std::vector<TensorName> names(family->tensor_aliases.begin(), family->tensor_aliases.end());
  const auto shared = gguf_tensor_names();
  names.insert(names.end(), shared.begin(), shared.end());
  ModelSpec spec = PAGODA_TRY(family->make_spec(reader, catalog, names));
  PAGODA_TRY(reader.finish());
  spec.family = family->name;
  assign_cache_groups(spec);
  Binding binding = PAGODA_TRY(bind_tensors(spec, catalog, names, config.source()));
  return ModelDescription{std::move(spec), std::move(binding)};
}

}  // namespace pagoda::model
