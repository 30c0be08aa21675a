// What config.json files say, and which of them are refused.
#include <gtest/gtest.h>

#include <cmath>

#include "fixtures/hf_model.h"
#include "io/json_config.h"
#include "model/family.h"

namespace pagoda::model {
namespace {

constexpr char kLlama[] = R"("architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 88,
    "vocab_size": 61, "max_position_embeddings": 512)";
constexpr char kQwen2[] = R"("architectures": ["Qwen2ForCausalLM"], "hidden_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 88,
    "vocab_size": 61)";
constexpr char kGemma3[] = R"("architectures": ["Gemma3ForCausalLM"], "hidden_size": 96,
    "num_hidden_layers": 7, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 88,
    "vocab_size": 61, "sliding_window": 8)";

/// The model of a config.json, `more` beside the keys of `base`; tensors as the configuration asks for them.
Result<ModelSpec> read(std::string_view base, const std::string& more, const std::vector<std::string>& ignored = {}) {
  const std::string text = "{" + std::string(base) + (more.empty() ? "" : ", ") + more + "}";
  const io::RawConfig config = io::parse_json_config("config.json", text).value();
  const io::TensorCatalog tensors = PAGODA_TRY(dummy_tensors(config, *quant::find_format("bf16"), ignored));
  ModelDescription description = PAGODA_TRY(describe_model(config, tensors, ignored));
  return std::move(description.spec);
}

void expect_refused(std::string_view base, const std::string& more, ErrorCode code, const std::string& said) {
  const auto spec = read(base, more);
  ASSERT_FALSE(spec.ok()) << more;
  EXPECT_EQ(static_cast<int>(spec.error().code), static_cast<int>(code)) << spec.error().message;
  EXPECT_NE(spec.error().message.find(said), std::string::npos) << spec.error().message;
  EXPECT_TRUE(spec.error().message.starts_with("config.json: ")) << spec.error().message;
}

TEST(HfConfig, Llama) {
  const ModelSpec spec = read(kLlama, R"("rope_theta": 500000, "tie_word_embeddings": true)").value();
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.vocab, 61);
  EXPECT_EQ(spec.context, 512);
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  EXPECT_TRUE(spec.tied_head);
  const AttentionSpec& attention = spec.layers[2].attention;
  EXPECT_EQ(attention.heads, 6);
  EXPECT_EQ(attention.kv_heads, 2);
  EXPECT_EQ(attention.key_dim, 16);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.rope.theta, 500000);
  EXPECT_EQ(attention.rope.pairing, kernels::RopePairing::kHalfSplit);
  EXPECT_FALSE(attention.query_bias);
  EXPECT_EQ(read(kLlama, R"("head_dim": 40, "attention_bias": true)").value().layers[0].attention.key_dim, 40);
  EXPECT_FALSE(read(kLlama, "").value().tied_head);
}

// CASES E7: both spellings of the kind, both places of the base, and the table's numbers.
TEST(HfConfig, RopeIsReadFromEveryPlace) {
  const std::string parts = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 128)";
  std::vector<kernels::RopeSpec> ropes;
  for (const char* kind :
       {R"("rope_type": "llama3", )", R"("type": "llama3", )", R"("type": "llama3", "rope_type": "llama3", )"}) {
    ropes.push_back(read(kLlama, R"("rope_theta": 5e5, "rope_scaling": {)" + std::string(kind) + parts + "}")
                        .value()
                        .layers[0]
                        .attention.rope);
    ropes.push_back(read(kLlama, R"("rope_parameters": {"rope_theta": 5e5, )" + std::string(kind) + parts + "}")
                        .value()
                        .layers[2]
                        .attention.rope);
    ropes.push_back(read(kLlama, R"("rope_theta": 5e5, "rope_parameters": {)" + std::string(kind) + parts + "}")
                        .value()
                        .layers[1]
                        .attention.rope);
  }
  for (const kernels::RopeSpec& rope : ropes) EXPECT_EQ(rope, ropes.front());
  EXPECT_EQ(ropes.front().kind, kernels::RopeKind::kLlama3);
  const std::vector<double> frequencies = kernels::rope_inverse_frequencies(ropes.front());
  EXPECT_EQ(frequencies[0], 1);                                       // a short wave
  EXPECT_NEAR(frequencies[7], std::pow(5e5, -14.0 / 16) / 8, 1e-18);  // a long one
}

TEST(HfConfig, KindsOfRope) {
  using Kind = kernels::RopeKind;
  const auto rope = [](const std::string& object) {
    return read(kLlama, R"("rope_scaling": {)" + object + "}").value().layers[0].attention.rope;
  };
  EXPECT_EQ(rope("").kind, Kind::kDefault);
  EXPECT_EQ(rope(R"("rope_type": "default")").kind, Kind::kDefault);
  EXPECT_EQ(rope(R"("type": "linear", "factor": 4)").factor, 4);
  EXPECT_EQ(rope(R"("type": "dynamic", "factor": 4)").kind, Kind::kDefault);
  const kernels::RopeSpec yarn = rope(R"("type": "yarn", "factor": 4, "original_max_position_embeddings": 128)");
  EXPECT_EQ(yarn.kind, Kind::kYarn);
  EXPECT_EQ(yarn.original_context, 128);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_NEAR(kernels::rope_attention_factor(yarn), 0.1 * std::log(4) + 1, 1e-12);
  EXPECT_FALSE(rope(R"("type": "yarn", "factor": 4, "truncate": false)").truncate);
  EXPECT_EQ(rope(R"("type": "yarn", "factor": 4)").original_context, 512);
  EXPECT_EQ(rope(R"("type": "yarn", "factor": null, "original_max_position_embeddings": 64)").factor, 8);
}

TEST(HfConfig, LongropeAndDynamicBoundTheContext) {
  const ModelSpec spec = read(kLlama, R"("rope_scaling": {"type": "longrope", "original_max_position_embeddings": 128,
                  "short_factor": [1, 1, 1, 1, 1.5, 1.5, 2, 2], "long_factor": [4, 4, 4, 4, 4, 4, 4, 4]})")
                             .value();
  EXPECT_EQ(spec.context, 128);
  const kernels::RopeSpec& rope = spec.layers[0].attention.rope;
  EXPECT_EQ(rope.pair_factors[6], 2);
  EXPECT_NEAR(rope.attention_factor, std::sqrt(1 + std::log(4) / std::log(128)), 1e-12);
  EXPECT_NEAR(kernels::rope_inverse_frequencies(rope)[6], std::pow(1e4, -12.0 / 16) / 2, 1e-12);
  EXPECT_EQ(read(kLlama, R"("rope_scaling": {"type": "dynamic", "factor": 4})").value().context, 512);
}

TEST(HfConfig, RopeThatIsNotServed) {
  using E = ErrorCode;
  expect_refused(kLlama, R"("rope_scaling": {"type": "su", "factor": 4})", E::kConfigRange, "\"su\"; Pagoda knows");
  expect_refused(kLlama, R"("rope_scaling": {"type": "linear"})", E::kConfigMissing, "rope_scaling.factor");
  expect_refused(kLlama, R"("rope_scaling": {"type": "linear", "factor": -1})", E::kConfigRange, "-1");
  expect_refused(kLlama, R"("rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 4})", E::kConfigRange,
                 "must be equal");
  expect_refused(kLlama, R"("rope_scaling": {"type": "linear", "factor": 4, "beta_fast": 3})", E::kConfigUnknown,
                 "rope_scaling.beta_fast");
  expect_refused(kLlama, R"("rope_scaling": "linear")", E::kConfigUnknown, "rope_scaling");
  expect_refused(kLlama, R"("rope_scaling": {"factor": 2, "type": "linear"}, "rope_parameters": {"rope_theta": 3})",
                 E::kConfigRange, "both rope_parameters and rope_scaling");
  expect_refused(kLlama, R"("rope_theta": 5000, "rope_parameters": {"rope_theta": 300})", E::kConfigRange,
                 "must be equal");
  expect_refused(kLlama, R"("rope_theta": 1)", E::kConfigRange, "rope_theta");
  expect_refused(kLlama, R"("partial_rotary_factor": 0.5)", E::kConfigRange, "whole heads");
  expect_refused(kLlama, R"("head_dim": 15)", E::kConfigRange, "even number");
  expect_refused(kLlama, R"("rope_scaling": {"type": "longrope", "short_factor": [1, 1], "long_factor": [1, 1]})",
                 E::kConfigRange, "2 numbers for 8 pairs");
  expect_refused(kLlama, R"("rope_parameters": {"full_attention": {"rope_theta": 3}})", E::kConfigUnknown,
                 "rope_parameters.full_attention.rope_theta");
  expect_refused(kLlama,
                 R"("rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})",
                 E::kConfigRange, "not over");
}

TEST(HfConfig, WindowsOfQwen2) {
  const auto windows = [](const std::string& more) {
    std::vector<std::int64_t> found;
    const ModelSpec spec = read(kQwen2, more).value();
    for (const LayerSpec& layer : spec.layers) found.push_back(layer.attention.window);
    return found;
  };
  using W = std::vector<std::int64_t>;
  EXPECT_EQ(windows(""), (W{0, 0, 0}));
  EXPECT_EQ(windows(R"("sliding_window": 7, "max_window_layers": 1)"), (W{0, 0, 0}));
  EXPECT_EQ(windows(R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1)"), (W{0, 7, 7}));
  EXPECT_EQ(windows(R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 1)"), (W{0, 0, 0}));
  EXPECT_EQ(windows(R"("use_sliding_window": true, "sliding_window": 7,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"])"),
            (W{7, 0, 7}));
  expect_refused(kQwen2, R"("layer_types": ["sliding_attention", "full_attention", "full_attention"])",
                 ErrorCode::kConfigRange, "layer 0 a window");
  expect_refused(kQwen2, R"("layer_types": ["full_attention"])", ErrorCode::kConfigRange, "1 values for 3 layers");
  expect_refused(kQwen2, R"("layer_types": ["full_attention", "linear_attention", "full_attention"])",
                 ErrorCode::kConfigRange, "linear_attention");
}

TEST(HfConfig, Gemma3) {
  const ModelSpec spec = read(kGemma3, R"("query_pre_attn_scalar": 144, "rope_scaling": {"rope_type": "linear",
      "factor": 8}, "final_logit_softcapping": 30, "_sliding_window_pattern": 3)")
                             .value();
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.norm_weight_shift, 1);
  EXPECT_EQ(spec.logit_softcap, 30);
  EXPECT_EQ(spec.embedding_scale, static_cast<double>(std::sqrt(96.0f)));
  for (std::size_t i = 0; i < 7; ++i) {
    const AttentionSpec& attention = spec.layers[i].attention;
    const bool global = i == 2 || i == 5;
    EXPECT_EQ(attention.key_dim, 256);
    EXPECT_EQ(attention.scale, 1.0 / 12);
    EXPECT_EQ(attention.window, global ? 0 : 8) << i;
    EXPECT_EQ(attention.rope.theta, global ? 1e6 : 1e4) << i;
    EXPECT_EQ(attention.rope.factor, global ? 8 : 1) << i;
  }
  expect_refused(kGemma3, R"("use_bidirectional_attention": true)", ErrorCode::kConfigUnknown,
                 "use_bidirectional_attention");
  expect_refused(kGemma3, R"("attn_logit_softcapping": 50.0)", ErrorCode::kConfigUnknown, "attn_logit_softcapping");
  expect_refused(kGemma3, R"("hidden_activation": "gelu")", ErrorCode::kConfigRange, "gelu_pytorch_tanh");
  expect_refused(kGemma3, R"("rope_parameters": {"rope_theta": 5e5, "rope_type": "default"})",
                 ErrorCode::kConfigUnknown, "rope_parameters.rope_theta");
}

TEST(HfConfig, MistralHasAWindowUnlessNull) {
  std::string mistral = kLlama;
  mistral.replace(mistral.find("LlamaForCausalLM"), 16, "MistralForCausalLM");
  mistral.replace(mistral.find("\"llama\""), 7, "\"mistral\"");
  EXPECT_EQ(read(mistral, "").value().layers[1].attention.window, 4096);
  EXPECT_EQ(read(mistral, R"("sliding_window": 9)").value().layers[1].attention.window, 9);
  EXPECT_EQ(read(mistral, R"("sliding_window": null)").value().layers[1].attention.window, 0);
  expect_refused(mistral, R"("mlp_bias": true)", ErrorCode::kConfigUnknown, "mlp_bias");
}

TEST(HfConfig, WhatIsNotServedIsRefusedByName) {
  using E = ErrorCode;
  expect_refused(R"("model_type": "llama")", "", E::kConfigMissing, "architectures");
  expect_refused(R"("architectures": ["MixtralForCausalLM"])", "", E::kArchitectureUnknown,
                 "'MixtralForCausalLM'; Pagoda knows LlamaForCausalLM");
  expect_refused(R"("architectures": ["Gemma3ForConditionalGeneration"])", "", E::kArchitectureUnknown,
                 "'Gemma3ForConditionalGeneration'");
  expect_refused(R"("architectures": ["LlamaForCausalLM"], "model_type": "qwen2")", "", E::kArchitectureUnknown,
                 "model_type is 'qwen2', not llama");
  expect_refused(R"("architectures": ["A", "B"])", "", E::kArchitectureUnknown, "2 classes");
  expect_refused(kLlama, R"("quantization_config": {"quant_method": "gptq", "bits": 4})", E::kConfigUnknown,
                 "quantization_config.bits");
  expect_refused(kLlama, R"("hidden_act": "gelu")", E::kConfigRange, "silu");
  expect_refused(kLlama, R"("rope_interleaved": true)", E::kConfigUnknown, "rope_interleaved");
  expect_refused(kLlama, R"("logit_scale": 0.5)", E::kConfigUnknown, "logit_scale");
  expect_refused(kLlama, R"("auto_map": {"AutoModel": "x.y"})", E::kConfigUnknown, "auto_map.AutoModel");
  expect_refused(kLlama, R"("num_experts": 8)", E::kConfigUnknown, "num_experts");
  expect_refused(kLlama, R"("rms_norm_eps": "small")", E::kConfigType, "rms_norm_eps");
  expect_refused(kLlama, R"("head_dim": 4096)", E::kConfigRange, "head_dim");
  std::string heads = kLlama;
  heads.replace(heads.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 4");
  expect_refused(heads, "", E::kConfigRange, "no multiple");
  std::string without = kLlama;
  without.replace(without.find("\"vocab_size\": 61, "), 18, "");
  expect_refused(without, "", E::kConfigMissing, "vocab_size");
}

TEST(HfConfig, KeysMayBeIgnored) {
  EXPECT_TRUE(read(kLlama, R"("logit_scale": 0.5)", {"logit_scale"}).ok());
  EXPECT_TRUE(read(kLlama, R"("auto_map": {"AutoModel": "x.y"})", {"auto_map"}).ok());
  const std::string scaled = R"("rope_scaling": {"type": "linear", "factor": 4})";
  EXPECT_EQ(read(kLlama, scaled, {"rope_scaling"}).value().layers[0].attention.rope.factor, 1);
  EXPECT_FALSE(read(kLlama, R"("logit_scale": 0.5)", {"logit"}).ok());
}

// What a training run or a library leaves in the file has no influence.
TEST(HfConfig, WhatHasNoInfluenceIsPassedOver) {
  EXPECT_TRUE(read(kLlama, R"("torch_dtype": "bfloat16", "transformers_version": "5.24.0", "use_cache": true,
      "initializer_range": 0.02, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": [2, 3],
      "pretraining_tp": 1, "id2label": {"0": "a", "1": "b"}, "task_specific_params": {"x": {"y": 1}},
      "is_llama_config": true, "rope_interleaved": false, "transformers.js_config": {"dtype": {"a": "q4"}},
      "rope_scaling": null, "pruned_heads": {}, "tie_encoder_decoder": false)")
                  .ok());
}

// Each value of every golden's configuration, replaced by what may not stand there: a model, or an error of its file.
TEST(HfConfig, EveryValueMayBeHostile) {
  const char* values[] = {"-1",
                          "0",
                          "1",
                          "1e300",
                          "9223372036854775807",
                          "18446744073709551615",
                          "null",
                          "\"x\"",
                          "[]",
                          "{}",
                          "true",
                          "0.3",
                          "[1, \"a\", {\"b\": 2}]",
                          "1e-300"};
  int refused = 0;
  int served = 0;
  for (const std::string& name : fixtures::hf_golden_names()) {
    const std::string config = fixtures::read_hf_golden(name).config;
    for (std::size_t at = config.find(": "); at != std::string::npos; at = config.find(": ", at + 1)) {
      const std::size_t end = config.find_first_of(",\n", at);
      for (const char* value : values) {
        const auto parsed = io::parse_json_config("x", config.substr(0, at + 2) + value + config.substr(end));
        if (!parsed.ok()) continue;  // the first line of an object or a list
        const auto tensors = dummy_tensors(*parsed, *quant::find_format("bf16"));
        if (tensors.ok()) {
          EXPECT_TRUE(describe_model(*parsed, *tensors).ok());
          ++served;
        } else {
          EXPECT_EQ(kind_of(tensors.error().code), ErrorKind::kModel) << tensors.error().message;
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(served, 200);
}

/// A catalog with one tensor changed; what the binding lends is gone.
Result<ModelDescription> with_tensors(std::string_view base,
                                      const std::function<void(std::vector<io::TensorEntry>&)>& change) {
  const io::RawConfig config = io::parse_json_config("config.json", "{" + std::string(base) + "}").value();
  const io::TensorCatalog good = dummy_tensors(config, *quant::find_format("bf16")).value();
  std::vector<io::TensorEntry> entries(good.entries().begin(), good.entries().end());
  change(entries);
  return describe_model(config, io::TensorCatalog(std::move(entries)));
}

void add(std::vector<io::TensorEntry>& entries, const std::string& name, std::vector<std::int64_t> shape) {
  entries.push_back({.name = name, .format = quant::find_format("f32"), .shape = std::move(shape)});
}

TEST(HfTensors, NamesAndShapesAreHeldToTheConfiguration) {
  const auto refusal = [](const auto& change) {
    const auto made = with_tensors(kLlama, change);
    return made.ok() ? Error{} : made.error();
  };
  using Entries = std::vector<io::TensorEntry>;
  EXPECT_TRUE(with_tensors(kLlama, [](Entries&) {}).ok());
  Error error = refusal([](Entries& e) { e[4].shape[0] += 1; });
  EXPECT_EQ(error.code, ErrorCode::kTensorShape) << error.message;
  error = refusal(
      [](Entries& e) { std::erase_if(e, [](const auto& t) { return t.name.ends_with("2.mlp.up_proj.weight"); }); });
  EXPECT_EQ(error.code, ErrorCode::kTensorMissing);
  EXPECT_NE(error.message.find("model.layers.2.mlp.up_proj.weight is missing"), std::string::npos) << error.message;
  error = refusal([](Entries& e) { std::erase_if(e, [](const auto& t) { return t.name == "lm_head.weight"; }); });
  EXPECT_EQ(error.code, ErrorCode::kTensorMissing);  // an untied head
  error = refusal([](Entries& e) { add(e, "model.layers.0.self_attn.q_proj.bias", {96}); });
  EXPECT_EQ(error.code, ErrorCode::kTensorUnclaimed);
  error = refusal([](Entries& e) { add(e, "model.layers.7.input_layernorm.weight", {96}); });
  EXPECT_EQ(error.code, ErrorCode::kTensorUnclaimed);
  error = refusal([](Entries& e) {
    std::erase_if(e, [](const auto& t) { return t.name.find("q_proj") != std::string::npos; });
    add(e, "model.layers.0.self_attn.qkv_proj.weight", {160, 96});
  });
  EXPECT_EQ(error.code, ErrorCode::kTensorMissing);
  EXPECT_NE(error.message.find("qkv_proj.weight (160, 96) holds several weights in one"), std::string::npos)
      << error.message;
}

TEST(HfTensors, FrequenciesOfRopeMayLieThere) {
  const auto made = with_tensors(kLlama, [](std::vector<io::TensorEntry>& entries) {
    add(entries, "model.layers.0.self_attn.rotary_emb.inv_freq", {8});
    add(entries, "model.rotary_emb.inv_freq", {8});
  });
  EXPECT_TRUE(made.ok()) << made.error().message;
}

// CASES H4: a head that is there is used, also of a model that says it is tied.
TEST(HfTensors, ATiedHeadThatIsThereIsUsed) {
  const std::string tied = std::string(kLlama) + R"(, "tie_word_embeddings": true)";
  EXPECT_TRUE(with_tensors(tied, [](std::vector<io::TensorEntry>&) {}).value().spec.tied_head);
  const auto with_head = with_tensors(tied, [](std::vector<io::TensorEntry>& entries) {
    add(entries, "lm_head.weight", {61, 96});
  });
  EXPECT_FALSE(with_head.value().spec.tied_head);
  EXPECT_NE(with_head.value().binding.find(Role::kHead, -1), nullptr);
}

}  // namespace
}  // namespace pagoda::model
