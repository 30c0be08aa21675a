// What the configurations of all dense transformers in GGUF files say in the same words.
#pragma once

#include "base/result.h"
#include "io/tensor_catalog.h"
#include "model/binding.h"
#include "model/config_reader.h"
#include "model/model_spec.h"

namespace pagoda::model {

/// Sizes, heads, norms' epsilon, RoPE with its scaling, biases and norms as the tensors at hand tell, softcaps. Norms
/// stand before the sublayers, the activation is SiLU, pairs are split in halves, and no layer has a window: a family
/// changes what is different with it. `names` finds the tensors.
/// Errors: kConfigMissing, kConfigType, kConfigRange, kConfigUnknown, kTensorMissing (the embedding).
Result<ModelSpec> read_transformer(const ConfigReader& config, const io::TensorCatalog& catalog,
                                   std::span<const TensorName> names);

}  // namespace pagoda::model
