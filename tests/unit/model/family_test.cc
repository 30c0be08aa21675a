#include "model/family.h"

#include <gtest/gtest.h>

#include "fixtures/tiny_model.h"

namespace pagoda::model {
namespace {

using fixtures::TinyConfig;
using fixtures::TinyModel;

/// A tiny model whose file is changed before it is read.
class Subject {
 public:
  explicit Subject(const TinyConfig& config = {}) : model_(config) {}

  template <class T>
  Subject& set(std::string_view key, const T& value) {
    model_.writer().set(key, value);
    return *this;
  }
  Subject& tensor(std::string_view name, std::vector<std::int64_t> shape) {
    std::int64_t size = 1;
    for (const std::int64_t each : shape) size *= each;
    model_.writer().add_tensor(name, shape, std::vector<float>(static_cast<std::size_t>(size), 1.0f));
    return *this;
  }

  Result<ModelSpec> spec(const std::vector<std::string>& ignored = {}) {
    bytes_ = model_.bytes();
    file_ = std::make_unique<io::ModelFile>(fixtures::open_bytes(bytes_).value());
    ModelDescription description = PAGODA_TRY(describe_model(file_->config(), file_->tensors(), ignored));
    return std::move(description.spec);
  }

  /// The refusal, or an error without a message.
  Error refusal(const std::vector<std::string>& ignored = {}) {
    Result<ModelSpec> result = spec(ignored);
    return result.ok() ? Error{} : result.error();
  }

 private:
  TinyModel model_;
  std::string bytes_;
  std::unique_ptr<io::ModelFile> file_;
};

TinyConfig of(const char* architecture) {
  TinyConfig config;
  config.architecture = architecture;
  return config;
}

/// A file written without some of the tiny model's keys or tensors.
fixtures::GgufWriter minimal(std::int64_t layers) {
  fixtures::GgufWriter writer;
  writer.set("general.architecture", "llama").set("llama.block_count", static_cast<std::uint32_t>(layers));
  return writer;
}

Error refusal_of(const fixtures::GgufWriter& writer) {
  const std::string bytes = writer.bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  auto result = describe_model(file.config(), file.tensors());
  return result.ok() ? Error{} : result.error();
}

TEST(Families, LlamaIsTheDefaultWithNeighboursPaired) {
  const ModelSpec spec = Subject().spec().value();
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.hidden, 160);
  EXPECT_EQ(spec.vocab, 67);
  EXPECT_EQ(spec.context, 200);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), 3u);
  const LayerSpec& layer = spec.layers[1];
  EXPECT_EQ(layer.attention.heads, 5);
  EXPECT_EQ(layer.attention.kv_heads, 1);
  EXPECT_EQ(layer.attention.key_dim, 32);
  EXPECT_EQ(layer.attention.rope.pairing, kernels::RopePairing::kInterleaved);
  EXPECT_EQ(layer.norms, NormPlacement::kPre);
  ASSERT_EQ(spec.cache_groups.size(), 1u);
  EXPECT_EQ(spec.cache_groups[0].layers, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Families, Gemma3AlternatesWindowsAndBases) {
  TinyConfig config = of("gemma3");
  config.layers = 7;
  config.window = 8;
  config.theta = 1e6;
  config.rope_scaling = "linear";
  config.rope_factor = 8;
  const ModelSpec spec = Subject(config).spec().value();
  EXPECT_EQ(spec.embedding_scale, static_cast<double>(std::sqrt(160.0f)));
  for (std::size_t i = 0; i < 7; ++i) {
    const AttentionSpec& attention = spec.layers[i].attention;
    EXPECT_EQ(attention.window, i == 5 ? 0 : 8) << i;
    EXPECT_EQ(attention.rope.theta, i == 5 ? 1e6 : 1e4) << i;
    EXPECT_EQ(attention.rope.kind, i == 5 ? kernels::RopeKind::kLinear : kernels::RopeKind::kDefault) << i;
    EXPECT_EQ(attention.rope.pairing, kernels::RopePairing::kHalfSplit);
    EXPECT_EQ(attention.qk_norm, kernels::QkvNorm::kQueryKey);
    EXPECT_EQ(spec.layers[i].norms, NormPlacement::kBoth);
  }
  ASSERT_EQ(spec.cache_groups.size(), 2u);
  EXPECT_EQ(spec.cache_groups[0].window, 8);
  EXPECT_EQ(spec.cache_groups[1].layers, (std::vector<std::int32_t>{5}));
}

TEST(Families, Gemma3PatternAsNumberOrList) {
  TinyConfig config = of("gemma3");
  config.layers = 3;
  config.window = 8;
  const ModelSpec number =
      Subject(config).set("gemma3.attention.sliding_window_pattern", std::uint32_t{2}).spec().value();
  EXPECT_EQ(number.layers[1].attention.window, 0);
  EXPECT_EQ(number.layers[2].attention.window, 8);
  const ModelSpec list = Subject(config)
                             .set("gemma3.attention.sliding_window_pattern", std::vector<bool>{false, true, true})
                             .spec()
                             .value();
  EXPECT_EQ(list.layers[0].attention.window, 0);
  EXPECT_EQ(list.layers[1].attention.window, 8);
  EXPECT_EQ(
      Subject(config).set("gemma3.attention.sliding_window_pattern", std::vector<bool>{false, true}).refusal().code,
      ErrorCode::kConfigRange);
}

TEST(Families, QwensDifferByBiasesAndNorms) {
  const ModelSpec two = Subject(of("qwen2")).spec().value();
  EXPECT_TRUE(two.layers[0].attention.query_bias && two.layers[0].attention.key_bias &&
              two.layers[0].attention.value_bias);
  EXPECT_FALSE(two.layers[0].attention.output_bias);
  EXPECT_EQ(two.layers[0].attention.qk_norm, kernels::QkvNorm::kNone);
  const ModelSpec three = Subject(of("qwen3")).spec().value();
  EXPECT_FALSE(three.layers[0].attention.query_bias);
  EXPECT_EQ(three.layers[0].attention.qk_norm, kernels::QkvNorm::kQueryKey);
}

TEST(Families, WithoutAnArchitectureTheKeysOfBothKindsAreNamed) {
  fixtures::GgufWriter writer;
  writer.set("general.name", "nobody");
  const Error error = refusal_of(writer);
  EXPECT_EQ(error.code, ErrorCode::kConfigMissing);
  EXPECT_NE(error.message.find("no general.architecture (of a GGUF file)"), std::string::npos) << error.message;
}

TEST(Families, UnknownArchitectureNamesTheKnownOnes) {
  fixtures::GgufWriter writer;
  writer.set("general.architecture", "mamba");
  const Error error = refusal_of(writer);
  EXPECT_EQ(error.code, ErrorCode::kArchitectureUnknown);
  EXPECT_NE(error.message.find("mamba"), std::string::npos);
  EXPECT_NE(error.message.find("qwen3"), std::string::npos);
}

// CASES E7: no key that could change the result goes unread.
TEST(Config, UnknownKeysAreRefusedByName) {
  Subject subject;
  subject.set("llama.rope.scaling.rope_type", "llama3");
  const Error error = subject.refusal();
  EXPECT_EQ(error.code, ErrorCode::kConfigUnknown);
  EXPECT_NE(error.message.find("llama.rope.scaling.rope_type"), std::string::npos) << error.message;
  EXPECT_TRUE(subject.spec({"llama.rope.scaling.rope_type"}).ok());
  EXPECT_FALSE(subject.spec({"llama.rope.scaling"}).ok()) << "the whole name counts";
}

TEST(Config, KeysOfOthersAreNotOurs) {
  EXPECT_TRUE(Subject()
                  .set("general.name", "x")
                  .set("tokenizer.ggml.model", "gpt2")
                  .set("quantize.imatrix.file", "y")
                  .spec()
                  .ok());
}

TEST(Config, OffValuesPass) {
  EXPECT_TRUE(Subject().set("llama.expert_count", std::uint32_t{0}).spec().ok());
  Subject experts;
  experts.set("llama.expert_count", std::uint32_t{8});
  EXPECT_EQ(experts.refusal().code, ErrorCode::kConfigUnknown);
  EXPECT_NE(experts.refusal().message.find("llama.expert_count"), std::string::npos);
  EXPECT_TRUE(experts.spec({"llama.expert_count"}).ok());
  EXPECT_EQ(Subject().set("llama.attention.causal", false).refusal().code, ErrorCode::kConfigRange);
}

TEST(Config, ScalingKinds) {
  TinyConfig config;
  config.rope_scaling = "yarn";
  config.rope_factor = 4;
  const kernels::RopeSpec yarn = Subject(config).spec().value().layers[0].attention.rope;
  EXPECT_EQ(yarn.kind, kernels::RopeKind::kYarn);
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_context, 64);
  config.rope_scaling = "longrope";
  const Error error = Subject(config).refusal();
  EXPECT_EQ(error.code, ErrorCode::kConfigRange);
  EXPECT_NE(error.message.find("longrope"), std::string::npos);
  const ModelSpec legacy = Subject().set("llama.rope.scale_linear", 2.0f).spec().value();
  EXPECT_EQ(legacy.layers[0].attention.rope.kind, kernels::RopeKind::kLinear);
  EXPECT_EQ(legacy.layers[0].attention.rope.factor, 2);
}

// E11: softcaps are part of the model.
TEST(Config, Softcaps) {
  TinyConfig config;
  config.attention_softcap = 50;
  config.logit_softcap = 30;
  const ModelSpec spec = Subject(config).spec().value();
  EXPECT_EQ(spec.layers[2].attention.softcap, 50);
  EXPECT_EQ(spec.logit_softcap, 30);
}

TEST(Config, RangesAreChecked) {
  const auto code = [](std::string_view key, auto value) {
    fixtures::GgufWriter writer;
    writer.set("general.architecture", "llama");
    const std::pair<const char*, std::uint32_t> keys[] = {
        {"llama.block_count", 2},         {"llama.context_length", 64},      {"llama.embedding_length", 96},
        {"llama.feed_forward_length", 8}, {"llama.attention.head_count", 3}, {"llama.attention.head_count_kv", 1}};
    for (const auto& [name, number] : keys) {
      if (name != key) writer.set(name, number);
    }
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.set(key, value);
    writer.add_tensor("token_embd.weight", {5, 96}, std::vector<float>(5 * 96));
    return refusal_of(writer).code;
  };
  EXPECT_EQ(code("llama.context_length", std::uint32_t{64}), ErrorCode::kTensorMissing) << "the rest is right";
  EXPECT_EQ(code("llama.block_count", std::uint32_t{0}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.block_count", std::uint32_t{4000000000u}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.context_length", std::uint32_t{0}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.embedding_length", "wide"), ErrorCode::kConfigType);
  EXPECT_EQ(code("llama.attention.head_count", std::uint32_t{0}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.attention.head_count", std::uint32_t{5}), ErrorCode::kConfigRange) << "96 is no multiple of 5";
  EXPECT_EQ(code("llama.attention.head_count_kv", std::uint32_t{2}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.rope.dimension_count", std::uint32_t{33}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.rope.dimension_count", std::uint32_t{7}), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.rope.freq_base", 0.0f), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.rope.freq_base", 1.0f), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.rope.freq_base", std::nanf("")), ErrorCode::kConfigRange);
  EXPECT_EQ(code("llama.attention.key_length", std::uint32_t{1u << 20}), ErrorCode::kConfigRange);
}

TEST(Config, MissingKeysAreNamed) {
  const Error error = refusal_of(minimal(2));
  EXPECT_EQ(error.code, ErrorCode::kConfigMissing);
  EXPECT_NE(error.message.find("llama.context_length"), std::string::npos) << error.message;
}

// CASES H4: a head of its own is used, none is the embedding's.
TEST(Binding, Heads) {
  TinyConfig config;
  EXPECT_TRUE(Subject(config).spec().value().tied_head);
  config.separate_head = true;
  EXPECT_FALSE(Subject(config).spec().value().tied_head);
}

TEST(Binding, EveryTensorIsClaimedOnce) {
  Subject subject;
  subject.tensor("blk.3.attn_norm.weight", {160});
  const Error error = subject.refusal();
  EXPECT_EQ(error.code, ErrorCode::kTensorUnclaimed);
  EXPECT_NE(error.message.find("blk.3.attn_norm.weight (160)"), std::string::npos) << error.message;
}

TEST(Binding, ShapesAreHeldAgainstTheConfiguration) {
  Subject subject;  // the bias is optional: its presence is taken at its word, its size is not
  subject.tensor("blk.1.attn_k.bias", {31});
  const Error error = subject.refusal();
  EXPECT_EQ(error.code, ErrorCode::kTensorShape);
  EXPECT_NE(error.message.find("blk.1.attn_k.bias has the shape (31); the configuration asks for (32)"),
            std::string::npos)
      << error.message;
}

TEST(Binding, MissingTensorsAreNamed) {
  TinyConfig config = of("qwen3");
  config.layers = 2;
  TinyModel model(config);
  fixtures::GgufWriter& writer = model.writer();
  // One layer more than there are tensors for.
  writer.set("qwen3.expert_count", std::uint32_t{0});
  const std::string bytes = [&] {
    std::string all = writer.bytes();
    const std::string key = "qwen3.block_count";
    all[all.find(key) + key.size() + 4] = 3;
    return all;
  }();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  const auto result = describe_model(file.config(), file.tensors());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kTensorMissing);
  EXPECT_NE(result.error().message.find("blk.2.attn_norm.weight"), std::string::npos) << result.error().message;
}

Result<ModelSpec> spec_of_file(const char* name) {
  const io::ModelFile file = PAGODA_TRY(io::open_model(std::string(PAGODA_SOURCE_DIR) + "/models/" + name));
  ModelDescription description = PAGODA_TRY(describe_model(file.config(), file.tensors()));
  return std::move(description.spec);
}

TEST(Families, TheDemoModel) {
  const auto smol = spec_of_file("SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_TRUE(smol.ok()) << smol.error().message;
  EXPECT_EQ(num_parameters(*smol), 134515008 - 576 * 61) << "all but the norms";
  EXPECT_EQ(smol->layers.size(), 30u);
  EXPECT_TRUE(smol->tied_head);
}

// Needs the second model: the slow suite runs it.
TEST(Families, TheGemmaFile) {
  const auto gemma = spec_of_file("gemma-3-270m-q4_k_m.gguf");
  ASSERT_TRUE(gemma.ok()) << gemma.error().message;
  EXPECT_EQ(gemma->cache_groups[0].window, 512);
  EXPECT_EQ(gemma->cache_groups[1].layers, (std::vector<std::int32_t>{5, 11, 17}));
}

}  // namespace
}  // namespace pagoda::model
