#include "model/model_spec.h"

#include <algorithm>

#include "base/format.h"

namespace pagoda::model {
namespace {

std::string describe_rope(const kernels::RopeSpec& rope) {
  constexpr std::string_view kinds[] = {"none", "default", "linear", "llama3", "yarn", "proportional", "longrope"};
  std::string text = pagoda::format(
      "{}, theta {}, {} of {} dimensions, {}", kinds[static_cast<std::size_t>(rope.kind)], rope.theta, rope.rotary_dim,
      rope.head_dim, rope.pairing == kernels::RopePairing::kInterleaved ? "neighbours paired" : "halves paired");
  if (rope.factor != 1) text += pagoda::format(", factor {}", rope.factor);
  return text;
}

std::string describe_attention(const AttentionSpec& attention) {
  std::string text =
      pagoda::format("{} heads over {} of keys and values, dimensions {} and {}, scale {:.6g}", attention.heads,
                     attention.kv_heads, attention.key_dim, attention.value_dim, attention.scale);
  if (attention.window > 0) text += pagoda::format(", window {}", attention.window);
  if (attention.softcap > 0) text += pagoda::format(", softcap {}", attention.softcap);
  if (attention.sinks) text += ", sinks";
  if (attention.qk_norm != kernels::QkvNorm::kNone) text += ", norms of queries and keys";
  if (attention.query_bias || attention.key_bias || attention.value_bias || attention.output_bias) text += ", biases";
  return text + "; rope " + describe_rope(attention.rope);
}

std::string describe_feed_forward(const LayerSpec& layer) {
  constexpr std::string_view names[] = {"silu", "gelu_tanh", "clamped_swiglu"};
  return pagoda::format("{} wide, {}, norms {}", layer.feed_forward.width,
                        names[static_cast<std::size_t>(layer.feed_forward.activation)],
                        layer.norms == NormPlacement::kBoth ? "before and after" : "before");
}

/// "0-4, 6-10": the layers for which `text` is the description.
template <class Describe>
void add_by_layers(std::vector<std::string>& lines, std::string_view name, const ModelSpec& spec, Describe&& text) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> kinds;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string words = text(spec.layers[i]);
    auto kind = std::ranges::find_if(kinds, [&](const auto& each) { return each.first == words; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {words, {}});
    kind->second.push_back(i);
  }
  for (const auto& [words, layers] : kinds) {
    std::string list;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::size_t last = i;
      while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
      list += pagoda::format("{}{}", list.empty() ? "" : ",", layers[i]);
      if (last > i) list += pagoda::format("-{}", layers[last]);
      i = last;
    }
    lines.push_back(pagoda::format("{} {}: {}", name, list, words));
  }
}

}  // namespace

void assign_cache_groups(ModelSpec& spec) {
  spec.cache_groups.clear();
  for (std::int32_t i = 0; i < std::ssize(spec.layers); ++i) {
    AttentionSpec& attention = spec.layers[static_cast<std::size_t>(i)].attention;
    auto group = std::ranges::find(spec.cache_groups, attention.window, &CacheGroupSpec::window);
    if (group == spec.cache_groups.end()) {
      CacheGroupSpec added{.name = attention.window > 0 ? pagoda::format("window {}", attention.window) : "full",
                           .window = attention.window,
                           .layers = {}};
      group = spec.cache_groups.insert(spec.cache_groups.end(), std::move(added));
    }
    group->layers.push_back(i);
    attention.cache_group = static_cast<std::int32_t>(group - spec.cache_groups.begin());
  }
}

std::int64_t num_parameters(const ModelSpec& spec) {
  std::int64_t count = spec.vocab * spec.hidden * (spec.tied_head ? 1 : 2);
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& a = layer.attention;
    count += spec.hidden * (a.heads * a.key_dim + a.kv_heads * (a.key_dim + a.value_dim));
    count += a.heads * a.value_dim * spec.hidden;
    count += 3 * spec.hidden * layer.feed_forward.width;
  }
  return count;
}

std::vector<std::string> describe(const ModelSpec& spec) {
  std::vector<std::string> lines;
  lines.push_back(pagoda::format("family: {}", spec.family));
  lines.push_back(pagoda::format("parameters: {}", num_parameters(spec)));
  lines.push_back(pagoda::format("layers: {}", spec.layers.size()));
  lines.push_back(pagoda::format("hidden: {}", spec.hidden));
  lines.push_back(pagoda::format("vocabulary: {}", spec.vocab));
  lines.push_back(pagoda::format("context: {}", spec.context));
  lines.push_back(pagoda::format("norm epsilon: {:.6g}", spec.norm_epsilon));
  if (spec.embedding_scale != 1) lines.push_back(pagoda::format("embedding scale: {:.6g}", spec.embedding_scale));
  if (spec.logit_softcap != 0) lines.push_back(pagoda::format("logit softcap: {:.6g}", spec.logit_softcap));
  lines.push_back(pagoda::format("head: {}", spec.tied_head ? "the embedding" : "its own"));
  if (spec.rope_divisors) lines.push_back("rope frequencies: divided as the checkpoint's tensor says");
  add_by_layers(lines, "attention", spec, [](const LayerSpec& layer) { return describe_attention(layer.attention); });
  add_by_layers(lines, "feed-forward", spec, describe_feed_forward);
  for (const CacheGroupSpec& group : spec.cache_groups) {
    lines.push_back(pagoda::format("cache group {}: {} layers", group.name, group.layers.size()));
  }
  return lines;
}

}  // namespace pagoda::model
