// Qwen3, dense: queries and keys have norms.
#include "model/family.h"
#include "model/hf_config.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

Result<ModelSpec> make_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                            std::span<const TensorName> names) {
  ModelSpec spec = PAGODA_TRY(read_transformer(config, catalog, names));
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = kernels::QkvNorm::kQueryKey;
  return spec;
}

Result<ModelSpec> make_hf_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                               std::span<const TensorName> names) {
  const HfDefaults defaults{.head_dim = 128, .kv_heads = 32, .context = 32768};
  ModelSpec spec = PAGODA_TRY(read_hf_sizes(config, catalog, names, defaults));
  PAGODA_TRY(read_hf_rope_of_all(config, spec));
  PAGODA_TRY(require_silu(config, "hidden_act"));
  PAGODA_TRY(read_attention_bias(config, spec));
  PAGODA_TRY(read_optional_windows(config, spec));
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = kernels::QkvNorm::kQueryKey;
  return spec;
}

constexpr std::string_view kGguf[] = {"qwen3"};
constexpr std::string_view kHf[] = {"Qwen3ForCausalLM"};
constexpr std::string_view kHfTypes[] = {"qwen3"};

}  // namespace

extern const Family kQwen3;
const Family kQwen3{
    .name = "qwen3",
    .gguf = {.architectures = kGguf, .make_spec = make_spec},
    .hf = {.architectures = kHf, .model_types = kHfTypes, .make_spec = make_hf_spec},
};

}  // namespace pagoda::model
