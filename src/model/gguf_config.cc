#include "model/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace pagoda::model {
namespace {

using kernels::RopeKind;
using kernels::RopeSpec;

constexpr double kTolerance = 1e-6;  // of values that the keys hold as f32

bool near(double a, double b) { return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b)); }

/// The layers' value if it is one, else the list of them.
class LayerKeys {
 public:
  LayerKeys(const ModelSpec& spec, std::string prefix, io::GgufKeys& keys)
      : spec_(spec), prefix_(std::move(prefix)), keys_(keys) {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

  void add(std::string_view name, const std::function<std::int64_t(const LayerSpec&)>& value) const {
    std::vector<std::int32_t> values;
    for (const LayerSpec& layer : spec_.layers) values.push_back(static_cast<std::int32_t>(value(layer)));
    if (std::ranges::all_of(values, [&](std::int32_t each) { return each == values[0]; })) {
      keys_.add(key(name), static_cast<std::uint32_t>(values[0]));
    } else {
      keys_.add(key(name), std::span<const std::int32_t>(values));
    }
  }

 private:
  const ModelSpec& spec_;
  std::string prefix_;
  io::GgufKeys& keys_;
};

/// The layer whose RoPE the plain keys state: one without a window, if there is one.
const AttentionSpec& global_attention(const ModelSpec& spec) {
  const auto global =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.attention.window == 0; });
  return global == spec.layers.end() ? spec.layers.front().attention : global->attention;
}

void add_rope(const RopeSpec& rope, const LayerKeys& layers, io::GgufKeys& keys) {
  keys.add(layers.key("rope.dimension_count"), static_cast<std::uint32_t>(rope.rotary_dim));
  keys.add(layers.key("rope.freq_base"), static_cast<float>(rope.theta));
  if (rope.kind != RopeKind::kLinear && rope.kind != RopeKind::kYarn) return;
  keys.add(layers.key("rope.scaling.type"), rope.kind == RopeKind::kLinear ? "linear" : "yarn");
  keys.add(layers.key("rope.scaling.factor"), static_cast<float>(rope.factor));
  if (rope.kind == RopeKind::kLinear) return;
  keys.add(layers.key("rope.scaling.original_context_length"), static_cast<std::uint32_t>(rope.original_context));
  keys.add(layers.key("rope.scaling.yarn_beta_fast"), static_cast<float>(rope.beta_fast));
  keys.add(layers.key("rope.scaling.yarn_beta_slow"), static_cast<float>(rope.beta_slow));
  const double usual = 0.1 * std::log(rope.factor) + 1;
  const double factor = kernels::rope_attention_factor(rope);
  if (!near(factor, usual)) keys.add(layers.key("rope.scaling.yarn_attn_factor"), static_cast<float>(factor / usual));
}

/// Windows: of all layers, or of some, which a list of flags names.
void add_windows(const ModelSpec& spec, const LayerKeys& layers, io::GgufKeys& keys) {
  std::int64_t window = 0;
  double local_theta = 0;
  std::vector<std::int32_t> flags;
  for (const LayerSpec& layer : spec.layers) {
    flags.push_back(layer.attention.window > 0 ? 1 : 0);
    if (layer.attention.window == 0) continue;
    window = layer.attention.window;
    local_theta = layer.attention.rope.theta;
  }
  if (window == 0) return;
  keys.add(layers.key("attention.sliding_window"), static_cast<std::uint32_t>(window));
  if (std::ranges::all_of(flags, [](std::int32_t flag) { return flag == 1; })) return;
  keys.add(layers.key("attention.sliding_window_pattern"), std::span<const std::int32_t>(flags));
  keys.add(layers.key("rope.freq_base_swa"), static_cast<float>(local_theta));
}

/// Compares field by field and keeps the first that differs.
class Comparison {
 public:
  explicit Comparison(std::string_view source) : source_(source) {}

  void number(std::string_view name, double wanted, double found) {
    if (!near(wanted, found)) differs(name, pagoda::format("{}", wanted), pagoda::format("{}", found));
  }
  template <class T>
  void equal(std::string_view name, T wanted, T found) {
    number(name, static_cast<double>(wanted), static_cast<double>(found));
  }
  void differs(std::string_view name, const std::string& wanted, const std::string& found) {
    if (!status_.ok()) return;
    status_ = fail(ErrorCode::kConfigUnknown,
                   "{}: its {} is {}, which the other kind of file cannot say (it would be read as {})", source_, name,
                   wanted, found);
  }
  Status finish() { return std::move(status_); }

 private:
  std::string_view source_;
  Status status_ = Ok{};
};

std::vector<double> frequencies(const RopeSpec& rope, const std::vector<float>& divisors) {
  std::vector<double> all = kernels::rope_inverse_frequencies(rope);
  if (divisors.size() != all.size()) return all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] /= static_cast<double>(divisors[i]);
  return all;
}

void compare(const AttentionSpec& wanted, const AttentionSpec& found, Comparison& to) {
  to.equal("number of heads", wanted.heads, found.heads);
  to.equal("number of key-value heads", wanted.kv_heads, found.kv_heads);
  to.equal("size of keys", wanted.key_dim, found.key_dim);
  to.equal("size of values", wanted.value_dim, found.value_dim);
  to.equal("window", wanted.window, found.window);
  to.number("scale of attention", wanted.scale, found.scale);
  to.number("cap of scores", wanted.softcap, found.softcap);
  to.equal("sinks", wanted.sinks, found.sinks);
  to.equal("norm of queries and keys", static_cast<int>(wanted.qk_norm), static_cast<int>(found.qk_norm));
  to.equal("bias of queries", wanted.query_bias, found.query_bias);
  to.equal("bias of keys", wanted.key_bias, found.key_bias);
  to.equal("bias of values", wanted.value_bias, found.value_bias);
  to.equal("bias after attention", wanted.output_bias, found.output_bias);
  to.number("RoPE's attention factor", kernels::rope_attention_factor(wanted.rope),
            kernels::rope_attention_factor(found.rope));
}

}  // namespace

void add_gguf_config(const ModelSpec& spec, std::string_view architecture, io::GgufKeys& keys) {
  const LayerKeys layers(spec, std::string(architecture) + ".", keys);
  const auto count = [&](std::string_view name, std::int64_t value) {
    keys.add(layers.key(name), static_cast<std::uint32_t>(value));
  };
  keys.add("general.architecture", architecture);
  count("block_count", std::ssize(spec.layers));
  count("context_length", spec.context);
  count("embedding_length", spec.hidden);
  count("vocab_size", spec.vocab);
  layers.add("feed_forward_length", [](const LayerSpec& layer) { return layer.feed_forward.width; });
  layers.add("attention.head_count", [](const LayerSpec& layer) { return layer.attention.heads; });
  layers.add("attention.head_count_kv", [](const LayerSpec& layer) { return layer.attention.kv_heads; });
  const AttentionSpec& attention = global_attention(spec);
  count("attention.key_length", attention.key_dim);
  count("attention.value_length", attention.value_dim);
  keys.add(layers.key("attention.layer_norm_rms_epsilon"), static_cast<float>(spec.norm_epsilon));
  if (!near(attention.scale, 1 / std::sqrt(static_cast<double>(attention.key_dim)))) {
    keys.add(layers.key("attention.scale"), static_cast<float>(attention.scale));
  }
  if (attention.softcap > 0) keys.add(layers.key("attn_logit_softcapping"), static_cast<float>(attention.softcap));
  if (spec.logit_softcap > 0) {
    keys.add(layers.key("final_logit_softcapping"), static_cast<float>(spec.logit_softcap));
  }
  add_rope(attention.rope, layers, keys);
  add_windows(spec, layers, keys);
}

std::vector<float> gguf_rope_divisors(const ModelSpec& spec) {
  const RopeSpec& rope = global_attention(spec).rope;
  if (rope.kind == RopeKind::kDefault || rope.kind == RopeKind::kLinear || rope.kind == RopeKind::kYarn) return {};
  RopeSpec plain = rope;
  plain.kind = RopeKind::kDefault;
  const std::vector<double> all = kernels::rope_inverse_frequencies(plain);
  const std::vector<double> own = kernels::rope_inverse_frequencies(rope);
  PAGODA_CHECK(all.size() == own.size(), "{} and {} pairs", all.size(), own.size());
  std::vector<float> divisors(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) divisors[i] = static_cast<float>(all[i] / own[i]);
  return divisors;
}

Status same_model(const ModelSpec& wanted, const ModelSpec& found, const std::vector<float>& wanted_divisors,
                  const std::vector<float>& found_divisors, std::string_view source) {
  Comparison to(source);
  to.equal("number of layers", wanted.layers.size(), found.layers.size());
  to.equal("hidden size", wanted.hidden, found.hidden);
  to.equal("vocabulary", wanted.vocab, found.vocab);
  to.equal("context", wanted.context, found.context);
  to.number("norms' epsilon", wanted.norm_epsilon, found.norm_epsilon);
  to.number("scale of embeddings", wanted.embedding_scale, found.embedding_scale);
  to.number("scale of logits", wanted.logit_scale, found.logit_scale);
  to.number("cap of logits", wanted.logit_softcap, found.logit_softcap);
  to.equal("tied head", wanted.tied_head, found.tied_head);
  for (std::size_t i = 0; i < std::min(wanted.layers.size(), found.layers.size()); ++i) {
    const LayerSpec& a = wanted.layers[i];
    const LayerSpec& b = found.layers[i];
    compare(a.attention, b.attention, to);
    to.equal("width of the feed-forward", a.feed_forward.width, b.feed_forward.width);
    to.equal("activation", static_cast<int>(a.feed_forward.activation), static_cast<int>(b.feed_forward.activation));
    to.equal("bias of gates", a.feed_forward.gate_bias, b.feed_forward.gate_bias);
    to.equal("bias of up products", a.feed_forward.up_bias, b.feed_forward.up_bias);
    to.equal("bias of down products", a.feed_forward.down_bias, b.feed_forward.down_bias);
    to.equal("placement of norms", static_cast<int>(a.norms), static_cast<int>(b.norms));
    to.number("scale of residuals", a.residual_scale, b.residual_scale);
    const std::vector<double> turns = frequencies(a.attention.rope, wanted_divisors);
    const std::vector<double> other = frequencies(b.attention.rope, found_divisors);
    to.equal("number of RoPE's pairs", turns.size(), other.size());
    for (std::size_t pair = 0; pair < std::min(turns.size(), other.size()); ++pair) {
      to.number(pagoda::format("RoPE's frequency {} of layer {}", pair, i), turns[pair], other[pair]);
    }
  }
  return to.finish();
}

}  // namespace pagoda::model
