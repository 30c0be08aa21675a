// What the config.json files of all dense transformers of Hugging Face say in the same words.
#pragma once

#include "base/result.h"
#include "io/tensor_catalog.h"
#include "model/binding.h"
#include "model/config_reader.h"
#include "model/hf_rope.h"
#include "model/model_spec.h"

namespace pagoda::model {

/// What a family's class in transformers takes for a key that is not there.
struct HfDefaults {
  std::int64_t head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t context = 2048;
  bool tied_head = false;
};

/// Sizes, heads, norms' epsilon and a tied head; halves are paired, norms stand before the sublayers, and no layer has
/// a window. RoPE, the activation, biases and the rest are the family's to read. A tied head of which the checkpoint
/// has a tensor all the same is that tensor. Keys without influence on the result are marked. Errors: kConfigMissing,
/// kConfigType, kConfigRange, kConfigUnknown.
Result<ModelSpec> read_hf_sizes(const ConfigReader& config, const io::TensorCatalog& catalog,
                                std::span<const TensorName> names, const HfDefaults& defaults);

/// The same RoPE for all layers, as find_hf_rope finds it; bounds the context where it must.
Status read_hf_rope_of_all(const ConfigReader& config, ModelSpec& spec, double default_theta = 10000);

/// `key` has to name SiLU, which is the default too.
Status require_silu(const ConfigReader& config, std::string_view key);

/// The flag `attention_bias`: biases of queries, keys, values and the output product.
Status read_attention_bias(const ConfigReader& config, ModelSpec& spec);

/// `layer_types` as whether each layer has a window, or nothing if it is not there. Error: kConfigRange for a type that
/// is neither full_attention nor sliding_attention.
Result<std::optional<std::vector<bool>>> read_layer_types(const ConfigReader& config, std::size_t layers);

/// `sliding_window` of the layers from `max_window_layers` on, or of those that `layer_types` names; none of them
/// unless `use_sliding_window` is true.
Status read_optional_windows(const ConfigReader& config, ModelSpec& spec);

inline constexpr std::int64_t kMaxWindow = std::int64_t{1} << 31;

}  // namespace pagoda::model
