// Qwen3, dense: queries and keys have norms.
#include "model/family.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

Result<ModelSpec> make_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                            std::span<const TensorName> names) {
  ModelSpec spec = PAGODA_TRY(read_transformer(config, catalog, names));
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = kernels::QkvNorm::kQueryKey;
  return spec;
}

constexpr std::string_view kGguf[] = {"qwen3"};
constexpr std::string_view kHf[] = {"Qwen3ForCausalLM"};

}  // namespace

extern const Family kQwen3;
const Family kQwen3{.name = "qwen3",
                    .gguf_architectures = kGguf,
                    .hf_architectures = kHf,
                    .tensor_aliases = {},
                    .make_spec = make_spec};

}  // namespace pagoda::model
