#include "model/binding.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"

namespace pagoda::model {
namespace {

constexpr TensorName kGgufNames[] = {
    {Role::kEmbedding, "token_embd.weight"},
    {Role::kFinalNorm, "output_norm.weight"},
    {Role::kHead, "output.weight"},
    {Role::kRopeDivisors, "rope_freqs.weight"},
    {Role::kAttentionNorm, "blk.{}.attn_norm.weight"},
    {Role::kQuery, "blk.{}.attn_q.weight"},
    {Role::kKey, "blk.{}.attn_k.weight"},
    {Role::kValue, "blk.{}.attn_v.weight"},
    {Role::kQueryBias, "blk.{}.attn_q.bias"},
    {Role::kKeyBias, "blk.{}.attn_k.bias"},
    {Role::kValueBias, "blk.{}.attn_v.bias"},
    {Role::kQueryNorm, "blk.{}.attn_q_norm.weight"},
    {Role::kKeyNorm, "blk.{}.attn_k_norm.weight"},
    {Role::kSinks, "blk.{}.attn_sinks.weight"},
    {Role::kAttentionOut, "blk.{}.attn_output.weight"},
    {Role::kAttentionOutBias, "blk.{}.attn_output.bias"},
    {Role::kAttentionPostNorm, "blk.{}.post_attention_norm.weight"},
    {Role::kFeedForwardNorm, "blk.{}.ffn_norm.weight"},
    {Role::kGate, "blk.{}.ffn_gate.weight"},
    {Role::kUp, "blk.{}.ffn_up.weight"},
    {Role::kDown, "blk.{}.ffn_down.weight"},
    {Role::kGateBias, "blk.{}.ffn_gate.bias"},
    {Role::kUpBias, "blk.{}.ffn_up.bias"},
    {Role::kDownBias, "blk.{}.ffn_down.bias"},
    {Role::kFeedForwardPostNorm, "blk.{}.post_ffw_norm.weight"},
};

constexpr TensorName kHfNames[] = {
    {Role::kEmbedding, "model.embed_tokens.weight"},
    {Role::kFinalNorm, "model.norm.weight"},
    {Role::kHead, "lm_head.weight"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm.weight"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj.weight"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj.weight"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj.weight"},
    {Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias"},
    {Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias"},
    {Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm.weight"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm.weight"},
    {Role::kAttentionOut, "model.layers.{}.self_attn.o_proj.weight"},
    {Role::kAttentionOutBias, "model.layers.{}.self_attn.o_proj.bias"},
    {Role::kFeedForwardNorm, "model.layers.{}.post_attention_layernorm.weight"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj.weight"},
    {Role::kUp, "model.layers.{}.mlp.up_proj.weight"},
    {Role::kDown, "model.layers.{}.mlp.down_proj.weight"},
    {Role::kGateBias, "model.layers.{}.mlp.gate_proj.bias"},
    {Role::kUpBias, "model.layers.{}.mlp.up_proj.bias"},
    {Role::kDownBias, "model.layers.{}.mlp.down_proj.bias"},
};

/// What follows from the configuration: allowed, and read by nobody.
bool is_implied(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

/// Names of products that some writers store as one tensor.
constexpr std::string_view kFusedNames[] = {"qkv_proj", "query_key_value", "attn_qkv",
                                            "W_pack",   "c_attn",          "gate_up_proj"};

const io::TensorEntry* find_fused(const io::TensorCatalog& catalog) {
  for (const io::TensorEntry& entry : catalog.entries()) {
    for (const std::string_view fused : kFusedNames) {
      if (entry.name.find(fused) != std::string::npos) return &entry;
    }
  }
  return nullptr;
}

std::string name_of(std::string_view pattern, std::int32_t layer) {
  std::string name(pattern);
  const std::size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += pagoda::format("{}{}", text.empty() ? "" : ", ", size);
  return pagoda::format("({})", text);
}

/// Claims tensors one by one.
class Binder {
 public:
  Binder(const io::TensorCatalog& catalog, std::span<const TensorName> names, std::string_view source)
      : catalog_(catalog), names_(names), source_(source), claimed_(catalog.size()) {}

  Status claim(BoundTensor tensor) {
    tensor.entry = find_tensor(catalog_, names_, tensor.role, tensor.layer);
    if (tensor.entry == nullptr) return missing(tensor);
    const io::TensorEntry& entry = *tensor.entry;
    const bool fits = tensor.matrix
                          ? entry.shape.size() == 2 && entry.rows() == tensor.rows && entry.cols() == tensor.cols
                          : entry.rows() == 1 && entry.cols() == tensor.cols;
    if (!fits) {
      const std::int64_t wanted[] = {tensor.rows, tensor.cols};
      return fail(ErrorCode::kTensorShape, "{}: tensor {} has the shape {}; the configuration asks for {}", source_,
                  entry.name, shape_text(entry.shape), shape_text(std::span(wanted).subspan(tensor.matrix ? 0 : 1)));
    }
    const auto index = static_cast<std::size_t>(&entry - catalog_.entries().data());
    PAGODA_CHECK(!claimed_[index], "{} is claimed twice", entry.name);
    claimed_[index] = true;
    binding_.tensors.push_back(tensor);
    return Ok{};
  }

  Result<Binding> finish() {
    for (std::size_t i = 0; i < claimed_.size(); ++i) {
      const io::TensorEntry& entry = catalog_.entries()[i];
      if (claimed_[i] || is_implied(entry.name) || entry.zero) continue;
      return fail(ErrorCode::kTensorUnclaimed,
                  "{}: tensor {} {} is no part of the model as its configuration declares it", source_, entry.name,
                  shape_text(entry.shape));
    }
    return std::move(binding_);
  }

 private:
  Error missing(const BoundTensor& tensor) const {
    const std::string name = tensor_name(names_, tensor.role, tensor.layer);
    if (const io::TensorEntry* fused = find_fused(catalog_)) {
      return fail(ErrorCode::kTensorMissing,
                  "{}: tensor {} is missing; {} {} holds several weights in one, which is not read", source_, name,
                  fused->name, shape_text(fused->shape));
    }
    return fail(ErrorCode::kTensorMissing, "{}: tensor {} is missing", source_, name);
  }

  const io::TensorCatalog& catalog_;
  std::span<const TensorName> names_;
  std::string_view source_;
  std::vector<bool> claimed_;
  Binding binding_;
};

/// The list of what is wanted as it grows.
struct Wanted {
  std::vector<BoundTensor> tensors;

  void matrix(Role role, std::int32_t layer, std::int64_t rows, std::int64_t cols) {
    tensors.push_back({.role = role, .layer = layer, .rows = rows, .cols = cols, .matrix = true});
  }
  void vector(Role role, std::int32_t layer, std::int64_t size, bool there = true) {
    if (there) tensors.push_back({.role = role, .layer = layer, .rows = 1, .cols = size, .matrix = false});
  }
};

void want_layer(Wanted& wanted, const ModelSpec& spec, std::int32_t index) {
  const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
  const AttentionSpec& a = layer.attention;
  const FeedForwardSpec& f = layer.feed_forward;
  const bool post = layer.norms == NormPlacement::kBoth;
  wanted.vector(Role::kAttentionNorm, index, spec.hidden);
  wanted.matrix(Role::kQuery, index, a.heads * a.key_dim, spec.hidden);
  wanted.matrix(Role::kKey, index, a.kv_heads * a.key_dim, spec.hidden);
  wanted.matrix(Role::kValue, index, a.kv_heads * a.value_dim, spec.hidden);
  wanted.vector(Role::kQueryBias, index, a.heads * a.key_dim, a.query_bias);
  wanted.vector(Role::kKeyBias, index, a.kv_heads * a.key_dim, a.key_bias);
  wanted.vector(Role::kValueBias, index, a.kv_heads * a.value_dim, a.value_bias);
  wanted.vector(Role::kQueryNorm, index, a.key_dim, a.qk_norm != kernels::QkvNorm::kNone);
  wanted.vector(Role::kKeyNorm, index, a.key_dim, a.qk_norm != kernels::QkvNorm::kNone);
  wanted.vector(Role::kSinks, index, a.heads, a.sinks);
  wanted.matrix(Role::kAttentionOut, index, spec.hidden, a.heads * a.value_dim);
  wanted.vector(Role::kAttentionOutBias, index, spec.hidden, a.output_bias);
  wanted.vector(Role::kAttentionPostNorm, index, spec.hidden, post);
  wanted.vector(Role::kFeedForwardNorm, index, spec.hidden);
  wanted.matrix(Role::kGate, index, f.width, spec.hidden);
  wanted.matrix(Role::kUp, index, f.width, spec.hidden);
  wanted.matrix(Role::kDown, index, spec.hidden, f.width);
  wanted.vector(Role::kGateBias, index, f.width, f.gate_bias);
  wanted.vector(Role::kUpBias, index, f.width, f.up_bias);
  wanted.vector(Role::kDownBias, index, spec.hidden, f.down_bias);
  wanted.vector(Role::kFeedForwardPostNorm, index, spec.hidden, post);
}

}  // namespace

std::string_view to_string(Role role) {
  constexpr std::string_view names[] = {"embedding",
                                        "final norm",
                                        "head",
                                        "rope divisors",
                                        "attention norm",
                                        "query",
                                        "key",
                                        "value",
                                        "query bias",
                                        "key bias",
                                        "value bias",
                                        "query norm",
                                        "key norm",
                                        "sinks",
                                        "attention out",
                                        "attention out bias",
                                        "attention post norm",
                                        "feed-forward norm",
                                        "gate",
                                        "up",
                                        "down",
                                        "gate bias",
                                        "up bias",
                                        "down bias",
                                        "feed-forward post norm"};
  return names[static_cast<std::size_t>(role)];
}

std::span<const TensorName> gguf_tensor_names() { return kGgufNames; }
std::span<const TensorName> hf_tensor_names() { return kHfNames; }

std::string tensor_name(std::span<const TensorName> names, Role role, std::int32_t layer) {
  const auto name = std::ranges::find(names, role, &TensorName::role);
  PAGODA_CHECK(name != names.end(), "no name for the {}", to_string(role));
  return name_of(name->pattern, layer);
}

const io::TensorEntry* find_tensor(const io::TensorCatalog& catalog, std::span<const TensorName> names, Role role,
                                   std::int32_t layer) {
  for (const TensorName& name : names) {
    if (name.role != role) continue;
    if (const io::TensorEntry* entry = catalog.find(name_of(name.pattern, layer))) return entry;
  }
  return nullptr;
}

const BoundTensor* Binding::find(Role role, std::int32_t layer) const {
  const auto at = std::ranges::find_if(
      tensors, [&](const BoundTensor& tensor) { return tensor.role == role && tensor.layer == layer; });
  return at == tensors.end() ? nullptr : &*at;
}

std::vector<BoundTensor> wanted_tensors(const ModelSpec& spec) {
  Wanted wanted;
  wanted.matrix(Role::kEmbedding, -1, spec.vocab, spec.hidden);
  wanted.vector(Role::kFinalNorm, -1, spec.hidden);
  if (!spec.tied_head) wanted.matrix(Role::kHead, -1, spec.vocab, spec.hidden);
  if (spec.rope_divisors) {
    wanted.vector(Role::kRopeDivisors, -1, spec.layers.front().attention.rope.num_pairs());
  }
  for (std::int32_t i = 0; i < std::ssize(spec.layers); ++i) want_layer(wanted, spec, i);
  return std::move(wanted.tensors);
}

Result<Binding> bind_tensors(const ModelSpec& spec, const io::TensorCatalog& catalog, std::span<const TensorName> names,
                             std::string_view source) {
  Binder binder(catalog, names, source);
  for (const BoundTensor& tensor : wanted_tensors(spec)) PAGODA_TRY(binder.claim(tensor));
  return binder.finish();
}

}  // namespace pagoda::model
