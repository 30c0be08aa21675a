// Qwen2 and 2.5: queries, keys and values have biases.
#include "model/family.h"
#include "model/hf_config.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

Result<ModelSpec> make_hf_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                               std::span<const TensorName> names) {
  const HfDefaults defaults{.kv_heads = 32, .context = 32768};
  ModelSpec spec = PAGODA_TRY(read_hf_sizes(config, catalog, names, defaults));
  PAGODA_TRY(read_hf_rope_of_all(config, spec));
  PAGODA_TRY(require_silu(config, "hidden_act"));
  PAGODA_TRY(read_optional_windows(config, spec));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.query_bias = layer.attention.key_bias = layer.attention.value_bias = true;
  }
  return spec;
}

constexpr std::string_view kGguf[] = {"qwen2"};
constexpr std::string_view kHf[] = {"Qwen2ForCausalLM"};
constexpr std::string_view kHfTypes[] = {"qwen2"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2{
    .name = "qwen2",
    .gguf = {.architectures = kGguf, .make_spec = read_transformer},
    .hf = {.architectures = kHf, .model_types = kHfTypes, .make_spec = make_hf_spec},
};

}  // namespace pagoda::model
