#include "api/folder_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "quant/format.h"

namespace pagoda::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

Json compressed(const char* format, Json weights, Json activations, const std::vector<std::string>& ignore) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"kv_cache_scheme", nullptr},
          {"ignore", ignore},
          {"config_groups",
           {{"group_0",
             {{"targets", Json::array({"Linear"})},
              {"input_activations", std::move(activations)},
              {"output_activations", nullptr},
              {"weights", std::move(weights)}}}}}};
}

Json scheme(int bits, const char* type, const char* strategy) {
  return {{"num_bits", bits}, {"type", type}, {"symmetric", true}, {"strategy", strategy}, {"dynamic", false}};
}

/// The key and what stands there; an empty key for floats.
std::pair<std::string, Json> quantization(const QuantizeTarget& target, const std::vector<std::string>& ignore) {
  const quant::Coding* const coding = target.format->coding;
  switch (target.kind) {
    case CheckpointKind::kGguf:
    case CheckpointKind::kFloats:
      return {};
    case CheckpointKind::kMlx: {
      Json json = {{"group_size", coding->group}, {"bits", coding->bits}};
      if (target.name.starts_with("mx")) json["mode"] = std::string(target.name);
      return {"quantization", std::move(json)};
    }
    case CheckpointKind::kFp8Channel:
      // No leave to round activations: that costs a small model more than its weights' rounding does.
      return {"quantization_config", compressed("float-quantized", scheme(8, "float", "channel"), nullptr, ignore)};
    case CheckpointKind::kFp8Block:
      return {"quantization_config",
              {{"quant_method", "fp8"},
               {"fmt", "e4m3"},
               {"activation_scheme", "dynamic"},
               {"weight_block_size", Json::array({128, 128})},
               {"modules_to_not_convert", ignore}}};
    case CheckpointKind::kPacked: {
      Json weights = scheme(coding->bits, "int", "group");
      weights["group_size"] = coding->group;
      return {"quantization_config", compressed("pack-quantized", std::move(weights), nullptr, ignore)};
    }
    case CheckpointKind::kNvfp4: {
      Json weights = scheme(4, "float", "tensor_group");
      weights["group_size"] = 16;
      return {"quantization_config", compressed("nvfp4-pack-quantized", std::move(weights), nullptr, ignore)};
    }
  }
  return {};
}

Result<Json> own_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  Json json = Json::parse(PAGODA_TRY(read_text(path, kMaxConfigBytes)), nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::kJsonSyntax, "{}: is no JSON object", path);
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) json.erase(key);
  return json;
}

/// llama3's kind of RoPE from the divisors that a GGUF has for it; null if they are another's.
Json llama3_rope(const model::ModelSpec& spec, const std::vector<float>& divisors) {
  kernels::RopeSpec rope = spec.layers.front().attention.rope;
  const std::vector<double> plain = kernels::rope_inverse_frequencies(rope);
  rope.kind = kernels::RopeKind::kLlama3;
  for (const double factor : {8.0, 32.0, 16.0, 4.0, 2.0, 64.0}) {
    for (const double original : {8192.0, 4096.0, 2048.0, 16384.0, 32768.0}) {
      rope.factor = factor;
      rope.low_freq_factor = 1;
      rope.high_freq_factor = 4;
      rope.original_context = original;
      const std::vector<double> scaled = kernels::rope_inverse_frequencies(rope);
      bool same = scaled.size() == divisors.size();
      for (std::size_t i = 0; same && i < scaled.size(); ++i) {
        same = std::abs(plain[i] / scaled[i] / static_cast<double>(divisors[i]) - 1) < 1e-5;
      }
      if (!same) continue;
      return {{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", static_cast<std::int64_t>(original)}};
    }
  }
  return nullptr;
}

Json rope_scaling(const kernels::RopeSpec& rope) {
  if (rope.kind == kernels::RopeKind::kLinear) return {{"rope_type", "linear"}, {"factor", rope.factor}};
  if (rope.kind != kernels::RopeKind::kYarn) return nullptr;
  return {{"rope_type", "yarn"},
          {"factor", rope.factor},
          {"original_max_position_embeddings", static_cast<std::int64_t>(rope.original_context)},
          {"beta_fast", rope.beta_fast},
          {"beta_slow", rope.beta_slow},
          {"attention_factor", kernels::rope_attention_factor(rope)}};
}

/// A number as short as f32 needs it: keys of a GGUF are of that type.
double short_number(double value) { return std::stod(pagoda::format("{}", static_cast<float>(value))); }

void add_windows(const model::ModelSpec& spec, Json& json) {
  std::int64_t window = 0;
  double local_theta = 0;
  Json types = Json::array();
  for (const model::LayerSpec& layer : spec.layers) {
    types.push_back(layer.attention.window > 0 ? "sliding_attention" : "full_attention");
    if (layer.attention.window == 0) continue;
    window = layer.attention.window;
    local_theta = layer.attention.rope.theta;
  }
  if (window == 0) return;
  json["sliding_window"] = window;
  if (spec.family != "gemma3") return;
  json["layer_types"] = std::move(types);
  json["rope_local_base_freq"] = short_number(local_theta);
}

/// A configuration in the words of the family's class. What it cannot say is seen when it is read again.
Result<Json> config_of(const DescribedFile& described) {
  const model::ModelSpec& spec = described.description.spec;
  const model::Dialect& dialect = model::family_named(spec.family).hf;
  const model::LayerSpec* global = &spec.layers.front();
  bool all_windowed = true;
  for (const model::LayerSpec& layer : spec.layers) {
    all_windowed &= layer.attention.window > 0;
    if (layer.attention.window == 0) global = &layer;
  }
  // Of a family's classes the first has no window in all layers; a later one may.
  const std::size_t of_class = all_windowed && dialect.architectures.size() > 1 ? 1 : 0;
  const model::AttentionSpec& attention = global->attention;
  Json json = {{"architectures", Json::array({std::string(dialect.architectures[of_class])})},
               {"model_type", std::string(dialect.model_types[of_class])},
               {"hidden_size", spec.hidden},
               {"intermediate_size", global->feed_forward.width},
               {"num_hidden_layers", spec.layers.size()},
               {"num_attention_heads", attention.heads},
               {"num_key_value_heads", attention.kv_heads},
               {"head_dim", attention.key_dim},
               {"vocab_size", spec.vocab},
               {"max_position_embeddings", spec.context},
               {"rms_norm_eps", short_number(spec.norm_epsilon)},
               {"rope_theta", short_number(attention.rope.theta)},
               {"tie_word_embeddings", spec.tied_head},
               {"torch_dtype", "bfloat16"}};
  Json scaling = rope_scaling(attention.rope);
  if (const auto divisors = PAGODA_TRY(rope_divisors(described)); !divisors.empty()) {
    scaling = llama3_rope(spec, divisors);
    if (scaling.is_null()) {
      return fail(ErrorCode::kConfigUnknown,
                  "{}: its rope_freqs.weight is none that llama3's kind of RoPE makes; a config.json cannot state it",
                  described.file.path());
    }
  }
  if (!scaling.is_null()) json["rope_scaling"] = std::move(scaling);
  add_windows(spec, json);
  const bool gelu = global->feed_forward.activation == kernels::ActivationKind::kGeluTanh;
  if (spec.family == "gemma3") {
    json["hidden_activation"] = "gelu_pytorch_tanh";
    json["query_pre_attn_scalar"] = short_number(1 / (attention.scale * attention.scale));
    if (spec.logit_softcap > 0) json["final_logit_softcapping"] = short_number(spec.logit_softcap);
  } else if (!gelu) {
    json["hidden_act"] = "silu";
  }
  const std::string type(dialect.model_types[of_class]);
  if (type == "llama" || type == "qwen3") json["attention_bias"] = attention.query_bias;
  if (type == "llama") json["mlp_bias"] = global->feed_forward.gate_bias;
  return json;
}

}  // namespace

Result<std::vector<float>> rope_divisors(const DescribedFile& described) {
  std::vector<float> divisors;
  const model::BoundTensor* const tensor = described.description.binding.find(model::Role::kRopeDivisors, -1);
  if (tensor == nullptr) return divisors;
  std::vector<std::byte> bytes(tensor->entry->bytes);
  PAGODA_TRY(described.file.read_bytes(*tensor->entry, 0, bytes));
  divisors.resize(static_cast<std::size_t>(tensor->cols));
  tensor->entry->format->decode_row(bytes.data(), tensor->cols, divisors.data());
  return divisors;
}

Result<std::string> folder_config(const DescribedFile& described, const QuantizeTarget& target,
                                  const std::vector<std::string>& unquantised) {
  const std::string& folder = described.file.folder();
  Json json = PAGODA_TRY(folder.empty() ? config_of(described) : own_config(folder));
  auto [key, value] = quantization(target, unquantised);
  if (!key.empty()) json[key] = std::move(value);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pagoda::api
