// A model said in the words of GGUF files: what transformer_config.h reads, written.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/gguf_writer.h"
#include "model/model_spec.h"

namespace pagoda::model {

/// Adds `general.architecture` and the keys of that architecture. What these keys cannot say is left out: describe the
/// result and compare it (same_model).
void add_gguf_config(const ModelSpec& spec, std::string_view architecture, io::GgufKeys& keys);

/// What each pair's frequency is divided by against the plain ones of its base: the tensor in which GGUF files state
/// kinds of RoPE that have no key. Empty for a model that needs none.
std::vector<float> gguf_rope_divisors(const ModelSpec& spec);

/// Whether two descriptions are of the same model, up to the order of rows and what norms add, which `quantize` sees
/// to, and to f32's precision. `divisors` are those of gguf_rope_divisors that the found model's tensor holds. Error:
/// kConfigUnknown, with the name of what differs and both values.
Status same_model(const ModelSpec& wanted, const ModelSpec& found, const std::vector<float>& wanted_divisors,
                  const std::vector<float>& found_divisors, std::string_view source);

}  // namespace pagoda::model
