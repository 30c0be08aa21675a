// Llama 1 to 3, and the many models that are Llamas in all but name. GGUF writers reorder the rows of queries and keys
// so that RoPE's pairs are neighbours; Hugging Face's pair the halves of a head. Llama 3's frequency scaling comes as a
// tensor of divisors in GGUF. Mistral is a Llama whose layers have a window.
#include "model/family.h"
#include "model/hf_config.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

Result<ModelSpec> make_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                            std::span<const TensorName> names) {
  ModelSpec spec = PAGODA_TRY(read_transformer(config, catalog, names));
  const std::int64_t window = PAGODA_TRY(config.integer_or("attention.sliding_window", 0, 0, std::int64_t{1} << 31));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope.pairing = kernels::RopePairing::kInterleaved;
    layer.attention.window = window;
  }
  return spec;
}

Result<ModelSpec> make_hf_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                               std::span<const TensorName> names) {
  const bool mistral = PAGODA_TRY(config.texts("architectures"))->operator[](0) == "MistralForCausalLM";
  const HfDefaults defaults = mistral ? HfDefaults{.kv_heads = 8, .context = 131072} : HfDefaults{};
  ModelSpec spec = PAGODA_TRY(read_hf_sizes(config, catalog, names, defaults));
  PAGODA_TRY(read_hf_rope_of_all(config, spec));
  PAGODA_TRY(require_silu(config, "hidden_act"));
  if (mistral) {
    const std::int64_t fallback = config.is_null("sliding_window") ? 0 : 4096;
    const std::int64_t window = PAGODA_TRY(config.integer_or("sliding_window", fallback, 1, kMaxWindow));
    for (LayerSpec& layer : spec.layers) layer.attention.window = window;
    return spec;
  }
  PAGODA_TRY(read_attention_bias(config, spec));
  const bool bias = PAGODA_TRY(config.boolean_or("mlp_bias", false));
  for (LayerSpec& layer : spec.layers) {
    layer.feed_forward.gate_bias = layer.feed_forward.up_bias = layer.feed_forward.down_bias = bias;
  }
  return spec;
}

constexpr std::string_view kGguf[] = {"llama"};
constexpr std::string_view kHf[] = {"LlamaForCausalLM", "MistralForCausalLM"};
constexpr std::string_view kHfTypes[] = {"llama", "mistral"};

}  // namespace

extern const Family kLlama;
const Family kLlama{
    .name = "llama",
    .gguf = {.architectures = kGguf, .make_spec = make_spec},
    .hf = {.architectures = kHf, .model_types = kHfTypes, .make_spec = make_hf_spec},
};

}  // namespace pagoda::model
