// Configurations of published checkpoints (tests/golden/configs): what is served is read as what it is, and everything
// else, be it another family or a known one with a key that changes its mathematics, is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/json_config.h"
#include "model/family.h"

namespace pagoda::model {
namespace {

const std::string kFolder = PAGODA_SOURCE_DIR "/tests/golden/configs";

Result<ModelSpec> read(const std::string& name, const std::string& folder = kFolder) {
  const io::RawConfig config = io::read_json_config(folder + "/" + name + ".json").value();
  const io::TensorCatalog tensors = PAGODA_TRY(dummy_tensors(config, *quant::find_format("bf16")));
  return PAGODA_TRY(describe_model(config, tensors)).spec;
}

/// A checkpoint, what stands on its card (parameters without norms and biases), and what `inspect` says of it.
struct Served {
  const char* name;
  std::int64_t parameters;
  std::int64_t context;
  std::vector<const char*> facts;
};

const std::vector<Served>& served() {
  static const std::vector<Served> all = {
      {"llama-3.1-8b", 8029995008, 131072, {"rope llama3, theta 500000, 128 of 128", "factor 8", "its own"}},
      {"llama-3.2-1b", 1235746816, 131072, {"32 heads over 8", "rope llama3, theta 500000, 64 of 64", "factor 32"}},
      {"deepseek-r1-distill-llama-8b", 8029995008, 131072, {"rope llama3, theta 500000", "factor 8"}},
      {"llama-2-7b", 6738149376, 4096, {"32 heads over 32", "rope default, theta 10000, 128", "its own"}},
      {"tinyllama-1.1b", 1099956224, 2048, {"32 heads over 4", "rope default, theta 10000, 64"}},
      {"smollm2-135m", 134479872, 8192, {"9 heads over 3", "rope default, theta 100000, 64", "the embedding"}},
      {"vicuna-13b-16k", 13015449600, 4096, {"rope linear, theta 10000, 128", "factor 4"}},
      {"yi-1.5-9b", 8829009920, 4096, {"32 heads over 4", "rope default, theta 5000000, 128"}},
      {"mistral-7b-v0.1", 7241465856, 32768, {"32 heads over 8", "window 4096", "rope default, theta 10000"}},
      {"mistral-7b-v0.3", 7247757312, 32768, {"rope default, theta 1000000, 128", "full"}},
      {"mistral-nemo-12b", 12247367680, 131072, {"dimensions 128 and 128", "scale 0.0883883", "full"}},
      {"qwen2-7b", 7615283200, 32768, {"28 heads over 4", "biases", "rope default, theta 1000000", "full"}},
      {"qwen2.5-7b-yarn", 7615283200, 32768, {"biases", "rope yarn, theta 1000000, 128 of 128", "factor 4"}},
      {"qwen3-4b", 4022272000, 40960, {"norms of queries and keys", "rope default, theta 1000000", "full"}},
      {"gemma-3-1b",
       999751680,
       32768,
       {"0-4,6-10,12-16,18-22,24-25", "window 512", "gelu_tanh, norms before and after"}},
      {"gemma-3-270m", 268042240, 32768, {"0-4,6-10,12-16", "scale 0.0625, window 512", "25.2982"}},
  };
  return all;
}

struct Refused {
  const char* name;
  ErrorCode code;
  const char* said;
};

constexpr Refused kRefused[] = {
    {"baichuan2-7b", ErrorCode::kArchitectureUnknown, "'BaichuanForCausalLM'"},
    {"bert-base", ErrorCode::kArchitectureUnknown, "'BertForMaskedLM'"},
    {"command-r7b", ErrorCode::kArchitectureUnknown, "'Cohere2ForCausalLM'"},
    {"deepseek-v2-lite", ErrorCode::kArchitectureUnknown, "'DeepseekV2ForCausalLM'"},
    {"exaone-3.5-2.4b", ErrorCode::kArchitectureUnknown, "'ExaoneForCausalLM'"},
    {"exaone-4.0-1.2b", ErrorCode::kArchitectureUnknown, "'Exaone4ForCausalLM'"},
    {"falcon-7b", ErrorCode::kArchitectureUnknown, "'FalconForCausalLM'"},
    {"gemma-2-2b", ErrorCode::kArchitectureUnknown, "'Gemma2ForCausalLM'"},
    {"gemma-2b", ErrorCode::kArchitectureUnknown, "'GemmaForCausalLM'"},
    {"gemma-3-4b", ErrorCode::kArchitectureUnknown, "'Gemma3ForConditionalGeneration'"},
    {"gemma-3-embedding", ErrorCode::kArchitectureUnknown, "'Gemma3TextModel'"},
    {"gemma-3n-e2b", ErrorCode::kArchitectureUnknown, "'Gemma3nForConditionalGeneration'"},
    {"glm-4-9b-0414", ErrorCode::kArchitectureUnknown, "'Glm4ForCausalLM'"},
    {"gpt-oss-20b", ErrorCode::kArchitectureUnknown, "'GptOssForCausalLM'"},
    {"gpt2", ErrorCode::kArchitectureUnknown, "'GPT2LMHeadModel'"},
    {"granite-3.1-2b", ErrorCode::kArchitectureUnknown, "'GraniteForCausalLM'"},
    {"internlm2-7b", ErrorCode::kArchitectureUnknown, "'InternLM2ForCausalLM'"},
    {"llama-4-scout", ErrorCode::kArchitectureUnknown, "'Llama4ForConditionalGeneration'"},
    {"mamba-130m", ErrorCode::kArchitectureUnknown, "'MambaForCausalLM'"},
    {"minicpm-2b", ErrorCode::kArchitectureUnknown, "'MiniCPMForCausalLM'"},
    {"mixtral-8x7b", ErrorCode::kArchitectureUnknown, "'MixtralForCausalLM'"},
    {"nemotron-mini-4b", ErrorCode::kArchitectureUnknown, "'NemotronForCausalLM'"},
    {"olmo-2-7b", ErrorCode::kArchitectureUnknown, "'Olmo2ForCausalLM'"},
    {"phi-2", ErrorCode::kArchitectureUnknown, "'PhiForCausalLM'"},
    {"phi-3.5-mini", ErrorCode::kArchitectureUnknown, "'Phi3ForCausalLM'"},
    {"phi-4-mini", ErrorCode::kArchitectureUnknown, "'Phi3ForCausalLM'"},
    {"qwen2-vl-2b", ErrorCode::kArchitectureUnknown, "'Qwen2VLForConditionalGeneration'"},
    {"qwen3-30b-a3b", ErrorCode::kArchitectureUnknown, "'Qwen3MoeForCausalLM'"},
    {"qwen3-next-80b", ErrorCode::kArchitectureUnknown, "'Qwen3NextForCausalLM'"},
    {"smollm3-3b", ErrorCode::kArchitectureUnknown, "'SmolLM3ForCausalLM'"},
    {"stablelm-2-1.6b", ErrorCode::kArchitectureUnknown, "'StableLmForCausalLM'"},
    {"starcoder2-3b", ErrorCode::kArchitectureUnknown, "'Starcoder2ForCausalLM'"},
    // A class that is served, with a key that makes another model of it.
    {"llama-of-granite-scales", ErrorCode::kConfigUnknown,
     "attention_multiplier, embedding_multiplier, logits_scaling, residual_multiplier"},
    {"llama-of-layer-norms", ErrorCode::kConfigUnknown, "layer_norm_eps"},
    {"llama-with-a-cap", ErrorCode::kConfigUnknown, "final_logit_softcapping"},
    {"llama-with-a-window", ErrorCode::kConfigUnknown, "sliding_window"},
    {"llama-with-other-ntk", ErrorCode::kConfigUnknown, "rope_scaling.alpha"},
    {"llama-without-rope-in-some-layers", ErrorCode::kConfigUnknown, "no_rope_layers"},
    {"ministral-8b-interleaved", ErrorCode::kConfigUnknown, "layer_types"},
    {"qwen2-of-sections", ErrorCode::kConfigUnknown, "rope_scaling.mrope_section"},
    {"qwen2-remote-code", ErrorCode::kConfigUnknown, "auto_map.AutoModelForCausalLM"},
    {"qwen3-dual-chunk", ErrorCode::kConfigUnknown, "dual_chunk_attention_config.chunk_size"},
};

TEST(RealConfigs, WhatIsServedIsReadAsWhatItIs) {
  for (const Served& each : served()) {
    const auto spec = read(each.name);
    ASSERT_TRUE(spec.ok()) << each.name << ": " << spec.error().message;
    EXPECT_EQ(num_parameters(*spec), each.parameters) << each.name;
    EXPECT_EQ(spec->context, each.context) << each.name;
    std::string said;
    for (const std::string& line : describe(*spec)) said += line + "\n";
    for (const char* fact : each.facts) EXPECT_NE(said.find(fact), std::string::npos) << each.name << ": " << said;
  }
}

TEST(RealConfigs, EverythingElseIsRefusedByName) {
  for (const Refused& each : kRefused) {
    const auto spec = read(each.name);
    ASSERT_FALSE(spec.ok()) << each.name << " is taken for a " << spec->family;
    EXPECT_EQ(spec.error().code, each.code) << spec.error().message;
    EXPECT_EQ(kind_of(spec.error().code), ErrorKind::kModel) << each.name;  // exit 3
    EXPECT_NE(spec.error().message.find(each.said), std::string::npos) << spec.error().message;
  }
}

TEST(RealConfigs, EveryFileIsInOneOfTheTables) {
  std::set<std::string> files, named;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) files.insert(entry.path().stem());
  for (const Served& each : served()) EXPECT_TRUE(named.insert(each.name).second) << each.name;
  for (const Refused& each : kRefused) EXPECT_TRUE(named.insert(each.name).second) << each.name;
  EXPECT_EQ(files, named);
}

// The sizes that are in the release's pack are those that people run.
TEST(RealConfigs, TheProjectsOwnConfigsSayTheSame) {
  for (const auto& [own, real] :
       {std::pair{"Llama-3.1-8B", "llama-3.1-8b"}, {"Llama-3.2-1B", "llama-3.2-1b"}, {"Qwen3-4B", "qwen3-4b"}}) {
    const auto packed = read(own, PAGODA_SOURCE_DIR "/configs");
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    EXPECT_EQ(describe(*packed), describe(read(real).value())) << own;
  }
}

}  // namespace
}  // namespace pagoda::model
