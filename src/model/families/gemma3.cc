// Gemma 3, text: five windowed layers, then a global one; norms before and after each sublayer, and of queries and
// keys; GGUF files store the norms' weights with their 1 added, Hugging Face's without.
#include <cmath>

#include "model/family.h"
#include "model/hf_config.h"
#include "model/transformer_config.h"

namespace pagoda::model {
namespace {

constexpr std::string_view kGelu = "gelu_pytorch_tanh";
constexpr std::int64_t kPattern = 6;       // every sixth layer is global
constexpr std::int64_t kLayersOf27B = 62;  // the one size whose queries are scaled by hidden / heads

/// A float in every implementation of this family that we know.
double embedding_scale(std::int64_t hidden) {
  return static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(hidden))));
}

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
  spec.embedding_scale = embedding_scale(spec.hidden);
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

/// `layer_types`, or one layer in every `sliding_window_pattern` is global.
Result<std::vector<bool>> hf_windowed_layers(const ConfigReader& config, std::size_t layers) {
  const std::int64_t hidden_pattern = PAGODA_TRY(config.integer_or("_sliding_window_pattern", kPattern, 1, 4096));
  const std::int64_t pattern = PAGODA_TRY(config.integer_or("sliding_window_pattern", hidden_pattern, 1, 4096));
  if (auto types = PAGODA_TRY(read_layer_types(config, layers))) return *std::move(types);
  std::vector<bool> windowed(layers);
  for (std::size_t i = 0; i < layers; ++i) windowed[i] = static_cast<std::int64_t>(i + 1) % pattern != 0;
  return windowed;
}

/// The two kinds of layers turn by bases of their own; only the global ones' frequencies may be scaled.
Status read_hf_ropes(const ConfigReader& config, const std::vector<bool>& windowed, ModelSpec& spec) {
  const HfRopeKeys found = PAGODA_TRY(find_hf_rope(config));
  const bool by_type = found.object == "rope_parameters";
  const HfRopeKeys full{.object = by_type ? "rope_parameters.full_attention" : found.object,
                        .outer_theta = "rope_theta",
                        .default_theta = 1e6};
  const HfRopeKeys local{.object = by_type ? "rope_parameters.sliding_attention" : "",
                         .outer_theta = "rope_local_base_freq",
                         .default_theta = 1e4};
  const std::int64_t dim = spec.layers.front().attention.key_dim;
  const HfRope full_rope = PAGODA_TRY(read_hf_rope(config, full, dim, spec.context));
  const HfRope local_rope = PAGODA_TRY(read_hf_rope(config, local, dim, spec.context));
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    spec.layers[i].attention.rope = windowed[i] ? local_rope.spec : full_rope.spec;
  }
  spec.context = std::min(full_rope.context, local_rope.context);
  return Ok{};
}

Result<ModelSpec> make_hf_spec(const ConfigReader& config, const io::TensorCatalog& catalog,
                               std::span<const TensorName> names) {
  const HfDefaults defaults{.head_dim = 256, .kv_heads = 4, .context = 131072, .tied_head = true};
  ModelSpec spec = PAGODA_TRY(read_hf_sizes(config, catalog, names, defaults));
  spec.embedding_scale = embedding_scale(spec.hidden);
  spec.norm_weight_shift = 1;
  spec.logit_softcap = PAGODA_TRY(config.number_or("final_logit_softcapping", 0, 0, 1e6));
  const std::vector<bool> windowed = PAGODA_TRY(hf_windowed_layers(config, spec.layers.size()));
  PAGODA_TRY(read_hf_ropes(config, windowed, spec));
  PAGODA_TRY(read_attention_bias(config, spec));
  // transformers reads the cap of scores and does not apply it: no model says what it would mean here.
  PAGODA_TRY(config.off({"use_bidirectional_attention", "attn_logit_softcapping"}));
  const std::string_view activation = PAGODA_TRY(config.text_or("hidden_activation", kGelu));
  if (activation != kGelu) {
    return fail(ErrorCode::kConfigRange, "{}: hidden_activation is \"{}\"; this family has {}", config.source(),
                activation, kGelu);
  }
  const std::int64_t window = PAGODA_TRY(config.integer_or("sliding_window", 4096, 1, kMaxWindow));
  const double scalar = PAGODA_TRY(config.number_or("query_pre_attn_scalar", 256, 1e-6, 1e12));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.norms = NormPlacement::kBoth;
    layer.feed_forward.activation = kernels::ActivationKind::kGeluTanh;
    layer.attention.qk_norm = kernels::QkvNorm::kQueryKey;
    layer.attention.window = windowed[i] ? window : 0;
    layer.attention.scale = 1.0 / std::sqrt(scalar);
  }
  return spec;
}

constexpr std::string_view kGguf[] = {"gemma3"};
constexpr std::string_view kHf[] = {"Gemma3ForCausalLM"};
constexpr std::string_view kHfTypes[] = {"gemma3_text"};
constexpr TensorName kHfNames[] = {
    {Role::kAttentionPostNorm, "model.layers.{}.post_attention_layernorm.weight"},
    {Role::kFeedForwardNorm, "model.layers.{}.pre_feedforward_layernorm.weight"},
    {Role::kFeedForwardPostNorm, "model.layers.{}.post_feedforward_layernorm.weight"},
};

}  // namespace

extern const Family kGemma3;
const Family kGemma3{
    .name = "gemma3",
    .gguf = {.architectures = kGguf, .make_spec = make_spec},
    .hf = {.architectures = kHf, .model_types = kHfTypes, .tensor_names = kHfNames, .make_spec = make_hf_spec},
};

}  // namespace pagoda::model
