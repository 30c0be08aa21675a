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

  void matrix(Role role, std::int32_t layer, std::int64_t rows, std::int64_t cols) {
    claim({.role = role, .layer = layer, .rows = rows, .cols = cols, .matrix = true});
  }
  void vector(Role role, std::int32_t layer, std::int64_t size, bool there = true) {
    if (there) claim({.role = role, .layer = layer, .rows = 1, .cols = size, .matrix = false});
  }

  Result<Binding> finish() {
    if (error_.has_value()) return *std::move(error_);
    for (std::size_t i = 0; i < claimed_.size(); ++i) {
      if (claimed_[i]) continue;
      const io::TensorEntry& entry = catalog_.entries()[i];
      return fail(ErrorCode::kTensorUnclaimed,
                  "{}: tensor {} {} is no part of the model as its configuration declares it", source_, entry.name,
                  shape_text(entry.shape));
    }
    return std::move(binding_);
  }

 private:
  void claim(BoundTensor tensor) {
    if (error_.has_value()) return;
    tensor.entry = find_tensor(catalog_, names_, tensor.role, tensor.layer);
    if (tensor.entry == nullptr) {
      const auto name = std::ranges::find(names_, tensor.role, &TensorName::role);
      error_ =
          fail(ErrorCode::kTensorMissing, "{}: tensor {} is missing", source_, name_of(name->pattern, tensor.layer));
      return;
    }
    const io::TensorEntry& entry = *tensor.entry;
    const bool fits = tensor.matrix
                          ? entry.shape.size() == 2 && entry.rows() == tensor.rows && entry.cols() == tensor.cols
                          : entry.rows() == 1 && entry.cols() == tensor.cols;
    if (!fits) {
      const std::int64_t wanted[] = {tensor.rows, tensor.cols};
      error_ = fail(ErrorCode::kTensorShape, "{}: tensor {} has the shape {}; the configuration asks for {}", source_,
                    entry.name, shape_text(entry.shape), shape_text(std::span(wanted).subspan(tensor.matrix ? 0 : 1)));
      return;
    }
    const auto index = static_cast<std::size_t>(&entry - catalog_.entries().data());
    PAGODA_CHECK(!claimed_[index], "{} is claimed twice", entry.name);
    claimed_[index] = true;
    binding_.tensors.push_back(tensor);
  }

  const io::TensorCatalog& catalog_;
  std::span<const TensorName> names_;
  std::string_view source_;
  std::vector<bool> claimed_;
  std::optional<Error> error_;
  Binding binding_;
};

void bind_layer(Binder& binder, const ModelSpec& spec, std::int32_t index) {
  const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
  const AttentionSpec& a = layer.attention;
  const FeedForwardSpec& f = layer.feed_forward;
  const bool post = layer.norms == NormPlacement::kBoth;
  binder.vector(Role::kAttentionNorm, index, spec.hidden);
  binder.matrix(Role::kQuery, index, a.heads * a.key_dim, spec.hidden);
  binder.matrix(Role::kKey, index, a.kv_heads * a.key_dim, spec.hidden);
  binder.matrix(Role::kValue, index, a.kv_heads * a.value_dim, spec.hidden);
  binder.vector(Role::kQueryBias, index, a.heads * a.key_dim, a.query_bias);
  binder.vector(Role::kKeyBias, index, a.kv_heads * a.key_dim, a.key_bias);
  binder.vector(Role::kValueBias, index, a.kv_heads * a.value_dim, a.value_bias);
  binder.vector(Role::kQueryNorm, index, a.key_dim, a.qk_norm != kernels::QkvNorm::kNone);
  binder.vector(Role::kKeyNorm, index, a.key_dim, a.qk_norm != kernels::QkvNorm::kNone);
  binder.vector(Role::kSinks, index, a.heads, a.sinks);
  binder.matrix(Role::kAttentionOut, index, spec.hidden, a.heads * a.value_dim);
  binder.vector(Role::kAttentionOutBias, index, spec.hidden, a.output_bias);
  binder.vector(Role::kAttentionPostNorm, index, spec.hidden, post);
  binder.vector(Role::kFeedForwardNorm, index, spec.hidden);
  binder.matrix(Role::kGate, index, f.width, spec.hidden);
  binder.matrix(Role::kUp, index, f.width, spec.hidden);
  binder.matrix(Role::kDown, index, spec.hidden, f.width);
  binder.vector(Role::kGateBias, index, f.width, f.gate_bias);
  binder.vector(Role::kUpBias, index, f.width, f.up_bias);
  binder.vector(Role::kDownBias, index, spec.hidden, f.down_bias);
  binder.vector(Role::kFeedForwardPostNorm, index, spec.hidden, post);
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

Result<Binding> bind_tensors(const ModelSpec& spec, const io::TensorCatalog& catalog, std::span<const TensorName> names,
                             std::string_view source) {
  Binder binder(catalog, names, source);
  binder.matrix(Role::kEmbedding, -1, spec.vocab, spec.hidden);
  binder.vector(Role::kFinalNorm, -1, spec.hidden);
  if (!spec.tied_head) binder.matrix(Role::kHead, -1, spec.vocab, spec.hidden);
  if (spec.rope_divisors) {
    binder.vector(Role::kRopeDivisors, -1, spec.layers.front().attention.rope.num_pairs());
  }
  for (std::int32_t i = 0; i < std::ssize(spec.layers); ++i) bind_layer(binder, spec, i);
  return binder.finish();
}

}  // namespace pagoda::model
