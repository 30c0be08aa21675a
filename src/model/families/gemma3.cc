// Gemma 3, text: five windowed layers, then a global one; norms before and after each sublayer, and of queries and
// keys; GGUF files store the norms' weights with their 1 added.
#include <cmath>

#include "model/family.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

constexpr std::int64_t kPattern = 6;       // every sixth layer is global
constexpr std::int64_t kLayersOf27B = 62;  // the one size whose queries are scaled by hidden / heads

/// Which layers have a window: from a list of flags, or one in every `pattern` layers has none.
Result<std::vector<bool>> windowed_layers(const ConfigReader& config, std::size_t layers) {
  const std::string_view key = "attention.sliding_window_pattern";
  const io::Value* value = config.find(key);
  std::vector<bool> windowed(layers);
  if (const auto* flags = value == nullptr ? nullptr : value->get_if<io::NumberList>()) {
    if (flags->size() != layers) {
      return fail(ErrorCode::kConfigRange, "{}: {} has {} values for {} layers", config.source(), config.full(key),
                  flags->size(), layers);
    }
    for (std::size_t i = 0; i < layers; ++i) windowed[i] = flags->number(i) != 0;
    return windowed;
  }
  const std::int64_t pattern = PAGODA_TRY(config.integer_or(key, kPattern, 1, 4096));
  for (std::size_t i = 0; i < layers; ++i) windowed[i] = static_cast<std::int64_t>(i + 1) % pattern != 0;
  return windowed;
}

Result<ModelSpec> make_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                            std::span<const TensorName> names) {
  ModelSpec spec = PAGODA_TRY(read_transformer(config, catalog, names));
  // The scale is a float in every implementation of this family that we know.
  spec.embedding_scale = static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(spec.hidden))));
  const std::int64_t window = PAGODA_TRY(config.integer("attention.sliding_window", 1, std::int64_t{1} << 31));
  const double local_theta = PAGODA_TRY(config.number_or("rope.freq_base_swa", 10000, 1, 1e12));
  const bool theta_given = config.contains("rope.freq_base");
  const bool scale_given = config.contains("attention.scale");
  const std::vector<bool> windowed = PAGODA_TRY(windowed_layers(config, spec.layers.size()));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.norms = NormPlacement::kBoth;
    layer.feed_forward.activation = kernels::ActivationKind::kGeluTanh;
    AttentionSpec& attention = layer.attention;
    attention.qk_norm = kernels::QkvNorm::kQueryKey;
    if (!theta_given) attention.rope.theta = 1e6;
    if (windowed[i]) {  // scaling is for the global layers alone
      attention.window = window;
      attention.rope.kind = kernels::RopeKind::kDefault;
      attention.rope.factor = 1;
      attention.rope.theta = local_theta;
    }
    if (!scale_given && std::ssize(spec.layers) == kLayersOf27B) {
      attention.scale = 1.0 / std::sqrt(static_cast<double>(spec.hidden) / static_cast<double>(attention.heads));
    }
  }
  return spec;
}

constexpr std::string_view kGguf[] = {"gemma3"};
constexpr std::string_view kHf[] = {"Gemma3ForCausalLM"};

}  // namespace

extern const Family kGemma3;
const Family kGemma3{.name = "gemma3",
                     .gguf_architectures = kGguf,
                     .hf_architectures = kHf,
                     .tensor_aliases = {},
                     .make_spec = make_spec};

}  // namespace pagoda::model
