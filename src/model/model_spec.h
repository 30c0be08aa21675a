// What a model computes, as capabilities: the decoder, the plan and the binding read nothing else and know no family.
//
//   x = embed(ids) · embedding_scale
//   each layer:  x += residual_scale · N_post(out(attention(norm(x))))
//                x += residual_scale · N_post(down(act(gate(n)) · up(n))),  n = norm(x)
//   logits = cap(head(norm(x)) · logit_scale)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gated_activation/gated_activation.h"
#include "kernels/qkv_postprocess/qkv_postprocess.h"

namespace pagoda::model {

/// Where a layer's norms stand.
enum class NormPlacement : std::uint8_t {
  kPre,   ///< before attention and feed-forward
  kBoth,  ///< before, and after each one, before its residual sum
};

/// Softmax attention over the past.
struct AttentionSpec {
  std::int64_t heads = 0;  ///< a multiple of kv_heads
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;  ///< of a head; queries too
  std::int64_t value_dim = 0;
  std::int64_t window = 0;  ///< keys a query sees, its own among them; 0: all
  double scale = 0;         ///< of query · key
  double softcap = 0;       ///< of scores; 0: none
  bool sinks = false;
  kernels::QkvNorm qk_norm = kernels::QkvNorm::kNone;
  kernels::RopeSpec rope;  ///< its frequency_divisors stay empty: see ModelSpec::rope_divisors
  bool query_bias = false, key_bias = false, value_bias = false, output_bias = false;
  std::int32_t cache_group = 0;  ///< of ModelSpec::cache_groups
  /// Of an fp8 cache: an element stands for itself times this. 0: the checkpoint has none.
  float key_cache_scale = 0, value_cache_scale = 0;
};

/// Dense, gated.
struct FeedForwardSpec {
  std::int64_t width = 0;
  kernels::ActivationKind activation = kernels::ActivationKind::kSilu;
  bool gate_bias = false, up_bias = false, down_bias = false;
};

struct LayerSpec {
  AttentionSpec attention;
  FeedForwardSpec feed_forward;
  NormPlacement norms = NormPlacement::kPre;
  double residual_scale = 1;
};

/// Layers that keep their past in the same pages.
struct CacheGroupSpec {
  std::string name;         ///< for people: "full", "window 512"
  std::int64_t window = 0;  ///< 0: full
  std::vector<std::int32_t> layers;
};

struct ModelSpec {
  std::string family;  ///< for people only
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< positions the model was made for
  double norm_epsilon = 1e-5;
  float norm_weight_shift = 0;  ///< 1 where the checkpoint stores weight - 1
  double embedding_scale = 1;
  double logit_scale = 1;
  double logit_softcap = 0;    ///< 0: none
  bool tied_head = false;      ///< the head is the embedding, stored once
  bool rope_divisors = false;  ///< the checkpoint has a tensor that divides each pair's frequency
  std::vector<LayerSpec> layers;
  std::vector<CacheGroupSpec> cache_groups;
};

/// Fills cache_groups and each layer's cache_group: one group for each window, in the order of first use.
void assign_cache_groups(ModelSpec& spec);

/// Weights, norms and biases aside: what people call the model's size.
std::int64_t num_parameters(const ModelSpec& spec);

/// One "name: value" line for each fact, for `inspect`.
std::vector<std::string> describe(const ModelSpec& spec);

}  // namespace pagoda::model
