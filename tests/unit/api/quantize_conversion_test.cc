// quantize from one kind of checkpoint to the other: the model stays the same.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "fixtures/hf_logits.h"
#include "io/model_file.h"
#include "pagoda/quantize.h"
#include "tiny_chat_model.h"

namespace pagoda {
namespace {

using fixtures::HfGolden;
using fixtures::largest_error;
using fixtures::TemporaryFolder;
using fixtures::two_threads;

/// What GGUF's keys cannot say of these models, and words of the refusal.
const std::map<std::string, std::string> kNotInGguf = {
    {"qwen2_windows", "window"},
    {"llama_longrope", "RoPE's attention factor"},
    {"llama_yarn_untruncated", "RoPE's frequency 1 of layer 0"},
    {"qwen3_yarn_bias", "sliding_window"},
};

class ToGguf : public testing::TestWithParam<std::string> {};

TEST_P(ToGguf, LogitsStay) {
  const HfGolden golden = fixtures::read_hf_golden(GetParam());
  const TemporaryFolder folder;
  fixtures::write_hf_model(folder, golden);
  const std::string out = folder.path() + "/out.gguf";
  const auto done = quantize(two_threads(), folder.path(), out, {.format = "f32"});
  const auto refused = kNotInGguf.find(golden.name);
  if (refused != kNotInGguf.end()) {
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::kConfigUnknown);
    EXPECT_NE(done.error().message.find(refused->second), std::string::npos) << done.error().message;
    EXPECT_FALSE(std::filesystem::exists(out));
    return;
  }
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_LE(largest_error(golden, out, {.device = "reference"}), 2e-3);
}

/// Logits of some ids on the reference device.
std::vector<float> logits_of(const std::string& path, const std::vector<std::int32_t>& ids) {
  const auto model = Model::open(two_threads(), path, {.device = "reference"});
  PAGODA_CHECK(model.ok(), "{}", model.error().message);
  std::vector<float> logits;
  ScoreRequest request{.text = TokenIds{ids}, .on_logits = {}};
  request.on_logits = [&](std::int64_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
    return true;
  };
  const auto scored = score(*model, request);
  PAGODA_CHECK(scored.ok(), "{}", scored.error().message);
  return logits;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0, squares = 0, worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i];
    squares += static_cast<double>(a[i]) * a[i];
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  const auto count = static_cast<double>(a.size());
  return worst / std::sqrt(squares / count - sum / count * (sum / count));
}

struct GgufModel {
  std::string name;
  api::TinyChat chat;
};

std::vector<GgufModel> gguf_models() {
  std::vector<GgufModel> all;
  const auto add = [&](std::string name, const std::function<void(fixtures::TinyConfig&)>& change) {
    GgufModel model{.name = std::move(name), .chat = {}};
    change(model.chat.model);
    all.push_back(std::move(model));
  };
  add("llama", [](auto& model) { model.separate_head = true; });
  add("llama_bos", [](auto&) {});
  all.back().chat.add_bos = true;
  add("llama_window", [](auto& model) { model.window = 7; });
  add("llama_linear", [](auto& model) { model.rope_scaling = "linear", model.rope_factor = 2.5; });
  add("llama_yarn", [](auto& model) { model.rope_scaling = "yarn", model.rope_factor = 3; });
  add("qwen2", [](auto& model) { model.architecture = "qwen2"; });
  add("qwen3", [](auto& model) { model.architecture = "qwen3", model.head_dim = 48; });
  add("gemma3",
      [](auto& model) { model.architecture = "gemma3", model.layers = 7, model.window = 9, model.logit_softcap = 20; });
  return all;
}

class ToFolder : public testing::TestWithParam<GgufModel> {};

TEST_P(ToFolder, LogitsAndIdsStay) {
  const api::TemporaryFile in(api::tiny_chat_bytes(GetParam().chat));
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/out";
  const auto done = quantize(two_threads(), in.path(), out, {.format = "f32"});
  ASSERT_TRUE(done.ok()) << done.error().message;
  const auto ids = fixtures::some_ids(41, GetParam().chat.model.vocab);
  EXPECT_LE(largest_difference(logits_of(in.path(), ids), logits_of(out, ids)), 1e-4);
  const ModelOptions header{.weights = false};
  const Model before = Model::open(two_threads(), in.path(), header).value();
  const Model after = Model::open(two_threads(), out, header).value();
  const std::string text = "hello <|im_end|> world 12 }} {x}!";
  for (const bool special : {false, true}) {
    EXPECT_EQ(before.tokenize(text, {.special = special, .bos = true}).value(),
              after.tokenize(text, {.special = special, .bos = true}).value());
  }
  EXPECT_TRUE(after.info().has_chat_template);

  // And back: the same file of tensors, bit for bit.
  const std::string again = folder.path() + "/again.gguf";
  ASSERT_TRUE(quantize(two_threads(), out, again, {.format = "f32"}).ok());
  const io::ModelFile first = io::open_model(in.path()).value();
  const io::ModelFile second = io::open_model(again).value();
  for (const io::TensorEntry& entry : first.tensors().entries()) {
    SCOPED_TRACE(entry.name);
    const io::TensorEntry* const other = second.tensors().find(entry.name);
    ASSERT_NE(other, nullptr);
    std::vector<std::byte> a(entry.bytes), b(other->bytes);
    ASSERT_TRUE(first.read_bytes(entry, 0, a).ok() && second.read_bytes(*other, 0, b).ok());
    const bool norm_of_gemma = GetParam().name == "gemma3" && entry.shape.size() == 1;
    EXPECT_TRUE(norm_of_gemma || a == b);  // such norms lose a bit by their 1
  }
}

INSTANTIATE_TEST_SUITE_P(All, ToFolder, testing::ValuesIn(gguf_models()),
                         [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(All, ToGguf, testing::ValuesIn(fixtures::hf_golden_names()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace pagoda
