// A model family: the names it goes by and one function from its configuration to a ModelSpec. All a family is, is
// data.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/raw_config.h"
#include "io/tensor_catalog.h"
#include "model/binding.h"
#include "model/config_reader.h"
#include "model/model_spec.h"

namespace pagoda::model {

struct Family {
  std::string_view name;
  std::span<const std::string_view> gguf_architectures;
  std::span<const std::string_view> hf_architectures;
  /// Names that only this family's tensors have; they go before those of gguf_tensor_names().
  std::span<const TensorName> tensor_aliases;
  /// The whole model but cache groups. Reads, declares irrelevant or holds at off every key it knows.
  Result<ModelSpec> (*make_spec)(const ConfigReader&, const io::TensorCatalog&, std::span<const TensorName>) = nullptr;
};

/// All families (families/families.cc).
std::span<const Family* const> families();

/// A model as its file declares it.
struct ModelDescription {
  ModelSpec spec;
  Binding binding;  ///< lent entries of the catalog
};

/// From the file's words to the model: finds the family, makes the spec, binds every tensor. `ignored_keys` are full
/// names of configuration keys to run without. Errors: kArchitectureUnknown, with the names that are known;
/// kConfigMissing, kConfigType, kConfigRange, kConfigUnknown; kTensorMissing, kTensorShape, kTensorUnclaimed.
Result<ModelDescription> describe_model(const io::RawConfig& config, const io::TensorCatalog& catalog,
                                        std::span<const std::string> ignored_keys = {});

}  // namespace pagoda::model
