// A model family: the names it goes by and one function from its configuration to a ModelSpec. All a family is, is
// data.
#pragma once

#include <functional>
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

/// How files of one kind (GGUF, Hugging Face directories) speak of a family's models.
struct Dialect {
  /// `general.architecture`, or the class in `architectures`.
  std::span<const std::string_view> architectures;
  /// Of Hugging Face's: the `model_type` of each of these architectures.
  std::span<const std::string_view> model_types = {};
  /// Names of this family alone; for their roles they take the place of gguf_tensor_names() or hf_tensor_names().
  std::span<const TensorName> tensor_names = {};
  /// The whole model but cache groups. Reads, declares irrelevant or holds at off every key it knows.
  Result<ModelSpec> (*make_spec)(const ConfigReader&, const io::TensorCatalog&, std::span<const TensorName>) = nullptr;
};

struct Family {
  std::string_view name;
  Dialect gguf;
  Dialect hf;
};

/// All families (families/families.cc).
std::span<const Family* const> families();

/// The family of that name, as ModelSpec::family has it. It is our fault if there is none.
const Family& family_named(std::string_view name);

/// The names of a family's tensors in files of one kind: its own first, and the shared ones of all other roles.
std::vector<TensorName> gguf_names_of(const Family& family);
std::vector<TensorName> hf_names_of(const Family& family);

/// A model as its file declares it.
struct ModelDescription {
  ModelSpec spec;
  Binding binding;  ///< lent entries of the catalog
};

/// From the file's words to the model: finds the family, makes the spec, binds every tensor. `ignored_keys` are full
/// names of configuration keys to run without. A configuration without `general.architecture` is read as a config.json.
/// Errors: kArchitectureUnknown, with the names that are known; kConfigMissing, kConfigType, kConfigRange,
/// kConfigUnknown; kTensorMissing, kTensorShape, kTensorUnclaimed.
Result<ModelDescription> describe_model(const io::RawConfig& config, const io::TensorCatalog& catalog,
                                        std::span<const std::string> ignored_keys = {});

/// What the file calls the model's architecture; empty if it does not say.
std::string architecture_of(const io::RawConfig& config);

/// The format of a matrix of a model whose weights are made up.
using FormatOf = std::function<const quant::Format&(const ModelSpec&, const BoundTensor&)>;

/// The tensors that a model of this configuration has, each matrix in the format that is said and all vectors in f32,
/// in the order of their bytes: vectors in file 0, the matrices of each format in a file of their own. For models whose
/// weights nobody has (`bench --dummy-weights`). Those of fp8_e4m3 have one scale a row. Errors: those of
/// describe_model; kFormatUnsupported if a format's blocks do not divide a row.
Result<io::TensorCatalog> dummy_tensors(const io::RawConfig& config, const FormatOf& format_of,
                                        std::span<const std::string> ignored_keys = {});

/// All matrices in one format.
Result<io::TensorCatalog> dummy_tensors(const io::RawConfig& config, const quant::Format& format,
                                        std::span<const std::string> ignored_keys = {});

/// The same with a scale for each block, which checkpoints have as well.
io::TensorCatalog with_block_scales(const io::TensorCatalog& tensors);

}  // namespace pagoda::model
