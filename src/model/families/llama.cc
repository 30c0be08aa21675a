// Llama 1 to 3, and the many models that are Llamas in all but name. GGUF writers reorder the rows of queries and keys
// so that RoPE's pairs are neighbours. Llama 3's frequency scaling comes as a tensor of divisors.
#include "model/family.h"
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

constexpr std::string_view kGguf[] = {"llama"};
constexpr std::string_view kHf[] = {"LlamaForCausalLM", "MistralForCausalLM"};

}  // namespace

extern const Family kLlama;
const Family kLlama{.name = "llama",
                    .gguf_architectures = kGguf,
                    .hf_architectures = kHf,
                    .tensor_aliases = {},
                    .make_spec = make_spec};

}  // namespace pagoda::model
