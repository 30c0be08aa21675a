// A small Llama in each layout of quantised checkpoints: its logits are those of the values that its weights stand for,
// as computed elsewhere in float64.
#include <gtest/gtest.h>

#include <map>

#include "api/describe.h"
#include "fixtures/checkpoints.h"
#include "io/byte_source.h"
#include "io/safetensors.h"
#include "pagoda/pagoda.h"

namespace pagoda {
namespace {

const Library& library() {
  static const Library made = Library::create({.threads = 2}).value();
  return made;
}

using fixtures::TemporaryFolder;

constexpr std::size_t kPositions[] = {0, 1, 5, 16};

/// The largest error of a logit over the deviation of all logits.
double largest_error(const std::string& name, ModelOptions options) {
  const io::RawConfig expected = fixtures::checkpoint_expected(name);
  TokenIds ids;
  const std::vector<std::int64_t> numbers = expected.integers("ids", 0, 1 << 20).value();
  ids.ids.assign(numbers.begin(), numbers.end());
  const auto model = Model::open(library(), fixtures::checkpoint_path(name), std::move(options));
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return 1e9;
  }
  std::vector<std::vector<float>> logits;
  ScoreRequest request{.text = ids, .on_logits = {}};
  request.on_logits = [&](std::int64_t, std::span<const float> row) {
    logits.emplace_back(row.begin(), row.end());
    return true;
  };
  const auto scored = score(*model, request);
  if (!scored.ok() || logits.size() != ids.ids.size()) {
    ADD_FAILURE() << (scored.ok() ? "too few logits" : scored.error().message);
    return 1e9;
  }
  const auto& rows = *expected.find("logits")->get_if<io::Value::List>();
  EXPECT_EQ(rows.size(), std::size(kPositions));
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& want = *rows[i].get_if<io::NumberList>();
    EXPECT_EQ(want.size(), logits[kPositions[i]].size());
    for (std::size_t id = 0; id < want.size(); ++id) {
      worst = std::max(worst, std::abs(static_cast<double>(logits[kPositions[i]][id]) - want.number(id)));
    }
  }
  return worst / expected.number("deviation", 0, 1e6).value();
}

class CheckpointModels : public testing::TestWithParam<std::string> {};

TEST_P(CheckpointModels, LogitsAreThoseOfTheDequantisedWeights) {
  const double exact = largest_error(GetParam(), {.device = "reference"});
  EXPECT_LE(exact, 2e-3);
  const double high = largest_error(GetParam(), {.device = "cpu", .precision = Precision::kHigh});
  EXPECT_LE(high, 2e-2);
  std::printf("%-24s reference %.1e, high %.1e\n", GetParam().c_str(), exact, high);
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointModels, testing::ValuesIn(fixtures::checkpoint_names()),
                         [](const auto& each) { return each.param; });

/// The checkpoint with a second file, of small tensors.
void add_scales(const TemporaryFolder& folder, const std::vector<std::pair<std::string, std::vector<float>>>& scales) {
  fixtures::copy_checkpoint("fp8_channel", folder);
  std::filesystem::rename(folder.path() + "/model.safetensors", folder.path() + "/a.safetensors");
  const io::FileSource first(File::open(folder.path() + "/a.safetensors").value());
  std::string map;
  const std::vector<io::TensorEntry> entries = io::read_safetensors(first).value();
  for (const io::TensorEntry& entry : entries) {
    map += "\"" + entry.name + "\": \"a.safetensors\", ";
  }
  fixtures::SafetensorsWriter second;
  for (const auto& [name, values] : scales) {
    second.add(name, {std::ssize(values)}, values);
    map += "\"" + name + "\": \"b.safetensors\"" + (name == scales.back().first ? "" : ", ");
  }
  second.write(folder.path() + "/b.safetensors");
  folder.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
}

// CASES G8: the scales that a checkpoint has for an fp8 cache reach the kernels that write it and those that read it.
TEST(CheckpointCacheScales, AreThoseOfTheLayersPages) {
  const TemporaryFolder folder;
  add_scales(folder, {{"model.layers.0.self_attn.k_scale", {0.0625f}}, {"model.layers.0.self_attn.v_scale", {4.0f}}});
  ModelOptions options{.kv_dtype = "fp8_e4m3"};
  const api::DescribedFile described = api::describe_file(folder.path(), options).value();
  const device::DeviceCaps h200 = device::gpu_caps("h200").value();
  const model::Plan plan = api::plan_for(described.description, h200, options, 2).value();
  EXPECT_EQ(plan.kv_layouts.front().key_scale, 0.0625f);
  EXPECT_EQ(plan.kv_layouts.front().value_scale, 4.0f);
  EXPECT_EQ(plan.layers.front().attention.problem.layout, plan.kv_layouts.front());
  EXPECT_EQ(plan.layers.front().attention_in.problem.layout, plan.kv_layouts.front());
  options.kv_dtype = "bf16";
  EXPECT_EQ(api::plan_for(described.description, h200, options, 2).value().kv_layouts.front().key_scale, 1.0f);
}

TEST(CheckpointCacheScales, AreRefusedWhereNoLayerHasThem) {
  const std::pair<std::string, std::vector<float>> wrong[] = {{"model.layers.1.self_attn.k_scale", {1.0f}},
                                                              {"model.layers.0.mlp.k_scale", {1.0f}},
                                                              {"model.layers.0.self_attn.k_scale", {0.0f}},
                                                              {"model.layers.0.self_attn.v_scale", {1.0f, 1.0f}}};
  for (const auto& scale : wrong) {
    const TemporaryFolder folder;
    add_scales(folder, {scale});
    const auto described = api::describe_file(folder.path(), {});
    ASSERT_FALSE(described.ok()) << scale.first;
    EXPECT_EQ(kind_of(described.error().code), ErrorKind::kModel);
    EXPECT_NE(described.error().message.find("'" + scale.first + "'"), std::string::npos) << described.error().message;
  }
}

// A head that stays wide, and llama.cpp's mix: what lies where is what the file would hold.
TEST(CheckpointFormats, DummyWeightsOfSeveralFormats) {
  const std::string config = PAGODA_SOURCE_DIR "/configs/Llama-3.1-8B.json";
  const auto formats_of = [&](const ModelOptions& options) {
    const api::DescribedFile described = api::describe_file(config, options).value();
    std::map<std::string_view, std::int64_t> count;
    for (const model::BoundTensor& tensor : described.description.binding.tensors) {
      if (tensor.matrix) ++count[tensor.entry->format->name];
    }
    return count;
  };
  using Count = std::map<std::string_view, std::int64_t>;
  EXPECT_EQ(formats_of({.dummy_weights = "gptq4_g128", .dummy_head = "bf16"}),
            (Count{{"bf16", 2}, {"packed4_g128", 32 * 7}}));
  // Values and down products of 16 of 32 layers, and the head.
  EXPECT_EQ(formats_of({.dummy_weights = "q4_k_m"}), (Count{{"q6_k", 2 * 16 + 1}, {"q4_k", 32 * 5 + 2 * 16 + 1}}));
  for (const ModelOptions& wrong :
       {ModelOptions{.dummy_weights = "q4_k_l"}, ModelOptions{.dummy_weights = "bf16", .dummy_head = "b16"}}) {
    const auto described = api::describe_file(config, wrong);
    ASSERT_FALSE(described.ok());
    EXPECT_EQ(described.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(described.error().param, wrong.dummy_head.empty() ? "dummy_weights" : "dummy_head");
    EXPECT_NE(described.error().message.find("q4_k_m"), std::string::npos);
  }
  const auto own = api::describe_file(fixtures::checkpoint_path("packed4_g128"), {.dummy_head = "bf16"});
  ASSERT_FALSE(own.ok()) << "it has weights of its own";
  EXPECT_EQ(own.error().param, "dummy_head");
  // Another format's bytes, and one model's whole answer.
  const std::string small = fixtures::checkpoint_path("packed4_g128") + "/config.json";
  const auto logprobs = [&](const char* head) {
    const auto model =
        Model::open(library(), small, {.device = "cpu", .dummy_weights = "packed4_g128", .dummy_head = head});
    return score(*model, {.text = TokenIds{{3, 7, 11}}, .on_logits = {}}).value().logprobs;
  };
  EXPECT_EQ(logprobs(""), logprobs("packed4_g128"));
  EXPECT_NE(logprobs(""), logprobs("bf16"));
}

// The command line's names for weights that nobody has.
TEST(CheckpointFormats, DummyWeightsOfEachName) {
  for (const char* format : {"affine4_g64", "fp8_block128", "gptq4_g128", "nvfp4"}) {  // the others are like these
    const std::string config = fixtures::checkpoint_path("packed4_g128") + "/config.json";
    const auto model = Model::open(library(), config, {.device = "cpu", .dummy_weights = format});
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->info().format, format);
    const Score scored = score(*model, {.text = TokenIds{{3, 7, 11}}, .on_logits = {}}).value();
    for (const double logprob : scored.logprobs) EXPECT_TRUE(std::isfinite(logprob)) << format;
  }
}

}  // namespace
}  // namespace pagoda
