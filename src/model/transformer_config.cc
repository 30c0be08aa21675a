#include "model/transformer_config.h"

#include <cmath>

namespace pagoda::model {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 31;
constexpr double kMaxFactor = 1e6;
constexpr double kLeastTheta = 1.001;  // YaRN divides by its logarithm

/// How much attention grows with YaRN's factor, if the file gives its own part of it.
double yarn_attention_factor(double factor, double given) { return given * (0.1 * std::log(factor) + 1.0); }

Status read_yarn(const ConfigReader& config, kernels::RopeSpec& rope, std::int64_t context) {
  rope.kind = kernels::RopeKind::kYarn;
  rope.beta_fast = PAGODA_TRY(config.number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, kMaxFactor));
  rope.beta_slow = PAGODA_TRY(config.number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, kMaxFactor));
  if (rope.beta_slow >= rope.beta_fast) {
    return fail(ErrorCode::kConfigRange, "{}: {} is {}, not below {}, which is {}", config.source(),
                config.full("rope.scaling.yarn_beta_slow"), rope.beta_slow, config.full("rope.scaling.yarn_beta_fast"),
                rope.beta_fast);
  }
  const double original = PAGODA_TRY(
      config.number_or("rope.scaling.original_context_length", static_cast<double>(context), 1, kMaxContext));
  rope.original_context = original;
  if (config.contains("rope.scaling.yarn_attn_factor")) {
    const double given = PAGODA_TRY(config.number("rope.scaling.yarn_attn_factor", 1e-3, kMaxFactor));
    rope.attention_factor = yarn_attention_factor(rope.factor, given);
  } else if (config.contains("rope.scaling.attn_factor")) {
    const double given = PAGODA_TRY(config.number("rope.scaling.attn_factor", 1e-3, kMaxFactor));
    rope.attention_factor = yarn_attention_factor(rope.factor, given);
  }
  const double extrapolation = PAGODA_TRY(config.number_or("rope.scaling.yarn_ext_factor", 1, 0, kMaxFactor));
  if (extrapolation != 1) {
    return fail(ErrorCode::kConfigRange, "{}: {} is {}; Pagoda computes YaRN with 1 alone", config.source(),
                config.full("rope.scaling.yarn_ext_factor"), extrapolation);
  }
  return Ok{};
}

Result<kernels::RopeSpec> read_rope(const ConfigReader& config, std::int64_t head_dim, std::int64_t context) {
  kernels::RopeSpec rope;
  rope.head_dim = head_dim;
  rope.theta = PAGODA_TRY(config.number_or("rope.freq_base", 10000, kLeastTheta, 1e12));
  rope.rotary_dim = PAGODA_TRY(config.integer_or("rope.dimension_count", head_dim, 2, head_dim));
  if (rope.rotary_dim % 2 != 0) {
    return fail(ErrorCode::kConfigRange, "{}: {} is {}, which has no pairs; an even number is wanted", config.source(),
                config.full("rope.dimension_count"), rope.rotary_dim);
  }
  const std::string_view type = PAGODA_TRY(config.text_or("rope.scaling.type", "none"));
  const double legacy = PAGODA_TRY(config.number_or("rope.scale_linear", 1, 1e-3, kMaxFactor));
  rope.factor = PAGODA_TRY(config.number_or("rope.scaling.factor", legacy, 0, kMaxFactor));
  if (rope.factor == 0) rope.factor = 1;  // some writers mean "none" by it
  if (type == "linear" || (type == "none" && !config.contains("rope.scaling.type") && rope.factor != 1)) {
    rope.kind = kernels::RopeKind::kLinear;
  } else if (type == "yarn") {
    PAGODA_TRY(read_yarn(config, rope, context));
  } else if (type == "none") {
    rope.factor = 1;
  } else {
    return fail(ErrorCode::kConfigRange, "{}: {} is \"{}\"; Pagoda knows none, linear and yarn", config.source(),
                config.full("rope.scaling.type"), type);
  }
  config.irrelevant({"rope.scaling.finetuned"});
  if (rope.kind != kernels::RopeKind::kYarn) config.irrelevant({"rope.scaling.original_context_length"});
  return rope;
}

bool has(const io::TensorCatalog& catalog, std::span<const TensorName> names, Role role, std::int32_t layer) {
  return find_tensor(catalog, names, role, layer) != nullptr;
}

void note_biases(LayerSpec& layer, const io::TensorCatalog& catalog, std::span<const TensorName> names,
                 std::int32_t index) {
  layer.attention.query_bias = has(catalog, names, Role::kQueryBias, index);
  layer.attention.key_bias = has(catalog, names, Role::kKeyBias, index);
  layer.attention.value_bias = has(catalog, names, Role::kValueBias, index);
  layer.attention.output_bias = has(catalog, names, Role::kAttentionOutBias, index);
  layer.feed_forward.gate_bias = has(catalog, names, Role::kGateBias, index);
  layer.feed_forward.up_bias = has(catalog, names, Role::kUpBias, index);
  layer.feed_forward.down_bias = has(catalog, names, Role::kDownBias, index);
}

/// Attention of every layer but its RoPE.
Status read_attention(const ConfigReader& config, ModelSpec& spec) {
  const auto layers = std::ssize(spec.layers);
  const auto heads = PAGODA_TRY(config.each_layer("attention.head_count", layers, 1, kMaxHeads));
  const auto kv_heads = config.contains("attention.head_count_kv")
                            ? PAGODA_TRY(config.each_layer("attention.head_count_kv", layers, 1, kMaxHeads))
                            : heads;
  const double softcap = PAGODA_TRY(config.number_or("attn_logit_softcapping", 0, 0, 1e6));
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (heads[at] % kv_heads[at] != 0) {
      return fail(ErrorCode::kConfigRange, "{}: {} is {}, no multiple of {}, which is {}", config.source(),
                  config.full("attention.head_count"), heads[at], config.full("attention.head_count_kv"), kv_heads[at]);
    }
    const std::int64_t implied = spec.hidden / heads[at];
    if (implied * heads[at] != spec.hidden && !config.contains("attention.key_length")) {
      return fail(ErrorCode::kConfigRange, "{}: {} is {}, no multiple of {}, which is {}, and {} is not given",
                  config.source(), config.full("embedding_length"), spec.hidden, config.full("attention.head_count"),
                  heads[at], config.full("attention.key_length"));
    }
    AttentionSpec& attention = spec.layers[at].attention;
    attention.heads = heads[at];
    attention.kv_heads = kv_heads[at];
    attention.key_dim = PAGODA_TRY(config.integer_or("attention.key_length", implied, 2, kMaxHeadDim));
    attention.value_dim = PAGODA_TRY(config.integer_or("attention.value_length", implied, 1, kMaxHeadDim));
    const double root = 1.0 / std::sqrt(static_cast<double>(attention.key_dim));
    attention.scale = PAGODA_TRY(config.number_or("attention.scale", root, 1e-9, 1e6));
    attention.softcap = softcap;
  }
  return Ok{};
}

}  // namespace

Result<ModelSpec> read_transformer(const ConfigReader& config, const io::TensorCatalog& catalog,
                                   std::span<const TensorName> names) {
  ModelSpec spec;
  const std::int64_t layers = PAGODA_TRY(config.integer("block_count", 1, kMaxLayers));
  spec.layers.resize(static_cast<std::size_t>(layers));
  spec.context = PAGODA_TRY(config.integer("context_length", 1, kMaxContext));
  spec.hidden = PAGODA_TRY(config.integer("embedding_length", 1, kMaxWidth));
  spec.norm_epsilon = PAGODA_TRY(config.number("attention.layer_norm_rms_epsilon", 0, 1));
  spec.logit_softcap = PAGODA_TRY(config.number_or("final_logit_softcapping", 0, 0, 1e6));
  // The embedding says how many ids there are; the key repeats it and is wrong in some files.
  PAGODA_TRY(config.integer_or("vocab_size", 1, 1, std::int64_t{1} << 31));
  const io::TensorEntry* embedding = find_tensor(catalog, names, Role::kEmbedding, -1);
  if (embedding == nullptr) {
    return fail(ErrorCode::kTensorMissing, "{}: there is no token embedding, token_embd.weight", config.source());
  }
  spec.vocab = embedding->rows();
  spec.tied_head = !has(catalog, names, Role::kHead, -1);
  spec.rope_divisors = has(catalog, names, Role::kRopeDivisors, -1);

  PAGODA_TRY(read_attention(config, spec));
  const auto widths = PAGODA_TRY(config.each_layer("feed_forward_length", layers, 1, kMaxWidth));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(layers); ++i) {
    LayerSpec& layer = spec.layers[static_cast<std::size_t>(i)];
    layer.feed_forward.width = widths[static_cast<std::size_t>(i)];
    layer.attention.rope = PAGODA_TRY(read_rope(config, layer.attention.key_dim, spec.context));
    note_biases(layer, catalog, names, i);
  }
  config.irrelevant({"tensor_data_layout"});
  PAGODA_TRY(config.off({"expert_count", "expert_used_count", "use_parallel_residual", "attention.max_alibi_bias",
                         "attention.clamp_kqv", "pooling_type"}));
  if (!PAGODA_TRY(config.boolean_or("attention.causal", true))) {
    return fail(ErrorCode::kConfigRange, "{}: {} is false; Pagoda runs causal models only", config.source(),
                config.full("attention.causal"));
  }
  return spec;
}

}  // namespace pagoda::model
