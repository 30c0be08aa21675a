#include "model/hf_config.h"

#include <cmath>

namespace pagoda::model {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 31;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 31;

/// What says how a model was trained, how a library ran it, or who wrote the file.
void mark_irrelevant(const ConfigReader& config) {
  config.irrelevant({"architectures",
                     "model_type",
                     "_name_or_path",
                     "name_or_path",
                     "transformers_version",
                     "torch_dtype",
                     "dtype",
                     "initializer_range",
                     "attention_dropout",
                     "hidden_dropout",
                     "use_cache",
                     "pretraining_tp",
                     "bos_token_id",
                     "eos_token_id",
                     "pad_token_id",
                     "sep_token_id",
                     "decoder_start_token_id",
                     "tokenizer_class",
                     "task_specific_params",
                     "problem_type",
                     "id2label",
                     "label2id",
                     "num_labels",
                     "finetuning_task",
                     "gradient_checkpointing",
                     "output_attentions",
                     "output_hidden_states",
                     "return_dict",
                     "use_return_dict",
                     "torchscript",
                     "use_bfloat16",
                     "is_decoder",
                     "cache_implementation",
                     "_attn_implementation",
                     "_attn_implementation_autoset",
                     "chunk_size_feed_forward",
                     "prefix",
                     "is_llama_config",
                     "transformers.js_config",
                     "unsloth_fixed",
                     "unsloth_version",
                     "model_name",
                     "_commit_hash",
                     "max_sequence_length"});
}

/// Sizes of heads, the same in all layers.
Result<AttentionSpec> read_heads(const ConfigReader& config, std::int64_t hidden, const HfDefaults& defaults) {
  AttentionSpec attention;
  attention.heads = PAGODA_TRY(config.integer("num_attention_heads", 1, kMaxHeads));
  const bool as_heads = defaults.kv_heads == 0 || config.is_null("num_key_value_heads");
  attention.kv_heads = PAGODA_TRY(
      config.integer_or("num_key_value_heads", as_heads ? attention.heads : defaults.kv_heads, 1, kMaxHeads));
  if (attention.heads % attention.kv_heads != 0) {
    return fail(ErrorCode::kConfigRange,
                "{}: num_attention_heads is {}, no multiple of num_key_value_heads, which is {}", config.source(),
                attention.heads, attention.kv_heads);
  }
  const bool implied = defaults.head_dim == 0 || config.is_null("head_dim");
  if (implied && !config.contains("head_dim") && hidden % attention.heads != 0) {
    return fail(ErrorCode::kConfigRange,
                "{}: hidden_size is {}, no multiple of num_attention_heads, which is {}, and head_dim is not given",
                config.source(), hidden, attention.heads);
  }
  const std::int64_t fallback = implied ? hidden / attention.heads : defaults.head_dim;
  attention.key_dim = PAGODA_TRY(config.integer_or("head_dim", fallback, 2, kMaxHeadDim));
  attention.value_dim = attention.key_dim;
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.key_dim));
  return attention;
}

}  // namespace

Result<ModelSpec> read_hf_sizes(const ConfigReader& config, const io::TensorCatalog& catalog,
                                std::span<const TensorName> names, const HfDefaults& defaults) {
  mark_irrelevant(config);
  PAGODA_TRY(config.off({"is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder", "rope_interleaved",
                         "use_mrope", "pruned_heads"}));
  ModelSpec spec;
  spec.layers.resize(static_cast<std::size_t>(PAGODA_TRY(config.integer("num_hidden_layers", 1, kMaxLayers))));
  spec.hidden = PAGODA_TRY(config.integer("hidden_size", 1, kMaxWidth));
  spec.vocab = PAGODA_TRY(config.integer("vocab_size", 1, kMaxVocab));
  spec.context = PAGODA_TRY(config.integer_or("max_position_embeddings", defaults.context, 1, kMaxContext));
  spec.norm_epsilon = PAGODA_TRY(config.number_or("rms_norm_eps", 1e-6, 0, 1));
  const bool tied = PAGODA_TRY(config.boolean_or("tie_word_embeddings", defaults.tied_head));
  spec.tied_head = tied && find_tensor(catalog, names, Role::kHead, -1) == nullptr;
  const AttentionSpec attention = PAGODA_TRY(read_heads(config, spec.hidden, defaults));
  const std::int64_t width = PAGODA_TRY(config.integer("intermediate_size", 1, kMaxWidth));
  for (LayerSpec& layer : spec.layers) {
    layer.attention = attention;
    layer.feed_forward.width = width;
  }
  return spec;
}

Status read_hf_rope_of_all(const ConfigReader& config, ModelSpec& spec, double default_theta) {
  HfRopeKeys keys = PAGODA_TRY(find_hf_rope(config));
  keys.default_theta = default_theta;
  const HfRope rope = PAGODA_TRY(read_hf_rope(config, keys, spec.layers.front().attention.key_dim, spec.context));
  for (LayerSpec& layer : spec.layers) layer.attention.rope = rope.spec;
  spec.context = rope.context;
  return Ok{};
}

Status require_silu(const ConfigReader& config, std::string_view key) {
  const std::string_view name = PAGODA_TRY(config.text_or(key, "silu"));
  if (name == "silu" || name == "swish") return Ok{};
  return fail(ErrorCode::kConfigRange, "{}: {} is \"{}\"; this family has silu", config.source(), config.full(key),
              name);
}

Status read_attention_bias(const ConfigReader& config, ModelSpec& spec) {
  const bool bias = PAGODA_TRY(config.boolean_or("attention_bias", false));
  for (LayerSpec& layer : spec.layers) {
    AttentionSpec& attention = layer.attention;
    attention.query_bias = attention.key_bias = attention.value_bias = attention.output_bias = bias;
  }
  return Ok{};
}

Result<std::optional<std::vector<bool>>> read_layer_types(const ConfigReader& config, std::size_t layers) {
  if (!config.contains("layer_types")) return std::optional<std::vector<bool>>();
  const io::StringList& types = *PAGODA_TRY(config.texts("layer_types"));
  if (types.size() != layers) {
    return fail(ErrorCode::kConfigRange, "{}: layer_types has {} values for {} layers", config.source(), types.size(),
                layers);
  }
  std::vector<bool> windowed(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    windowed[i] = types[i] == "sliding_attention";
    if (windowed[i] || types[i] == "full_attention") continue;
    return fail(ErrorCode::kConfigRange,
                "{}: layer_types names \"{}\" for layer {}; Pagoda knows full_attention and sliding_attention",
                config.source(), types[i], i);
  }
  return std::optional(std::move(windowed));
}

Status read_optional_windows(const ConfigReader& config, ModelSpec& spec) {
  const bool used = PAGODA_TRY(config.boolean_or("use_sliding_window", false)) && !config.is_null("sliding_window");
  const std::int64_t window = PAGODA_TRY(config.integer_or("sliding_window", 4096, 1, kMaxWindow));
  const std::int64_t first = PAGODA_TRY(config.integer_or("max_window_layers", 28, 0, kMaxWindow));
  const auto types = PAGODA_TRY(read_layer_types(config, spec.layers.size()));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const bool windowed = types ? (*types)[i] : used && static_cast<std::int64_t>(i) >= first;
    if (windowed && !used) {
      return fail(ErrorCode::kConfigRange,
                  "{}: layer_types gives layer {} a window, but use_sliding_window and sliding_window give none",
                  config.source(), i);
    }
    spec.layers[i].attention.window = windowed ? window : 0;
  }
  return Ok{};
}

}  // namespace pagoda::model
