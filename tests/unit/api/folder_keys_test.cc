// What lies in a Hugging Face directory beside config.json and the weights.
#include "api/folder_keys.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/model_state.h"
#include "fixtures/hf_model.h"
#include "pagoda/pagoda.h"

namespace pagoda::api {
namespace {

using fixtures::TemporaryFolder;

/// Byte-level BPE without merges: <s> is 0, </s> is 1, then the letters; `extra` further tokens beside the vocabulary.
std::string tokenizer_json(const std::string& extra = "") {
  std::string vocab = R"("<s>": 0, "</s>": 1)";
  for (char c = 'a'; c <= 'z'; ++c) vocab += pagoda::format(", \"{}\": {}", c, c - 'a' + 2);
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
      {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true},
      {"id": 1, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true})" +
         extra + R"(], "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
      "post_processor": null,
      "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
      "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": {)" +
         vocab + R"(}, "merges": []}})";
}

class Folder : public testing::Test {
 protected:
  Folder() { fixtures::write_hf_model(folder_, fixtures::read_hf_golden("llama_default")); }

  Result<Model> open() const { return Model::open(library_, folder_.path(), {.device = "cpu", .context = 64}); }
  std::string rendered(const Model& model) const {
    Chat chat;
    chat.messages_json = R"([{"role": "user", "content": "abc"}])";
    const auto text = model.render(chat);
    return text.ok() ? *text : "error: " + text.error().message;
  }

  TemporaryFolder folder_;
  Library library_ = Library::create({.threads = 2}).value();
};

TEST_F(Folder, TextGoesInAndComesOut) {
  folder_.write("tokenizer.json", tokenizer_json(R"(, {"id": 28, "content": "<end>", "single_word": false,
      "lstrip": false, "rstrip": false, "normalized": false, "special": true})"));
  folder_.write("tokenizer_config.json",
                R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "tokenizer_class": "X",
                    "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"})");
  folder_.write("generation_config.json", R"({"eos_token_id": [1, 28], "do_sample": true, "temperature": 0.5})");
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(model->info().has_tokenizer);
  EXPECT_TRUE(model->info().has_chat_template);
  EXPECT_EQ(model->tokenize("cab").value(), (std::vector<std::int32_t>{4, 2, 3}));
  EXPECT_EQ(model->tokenize("cab", {.bos = true}).value(), (std::vector<std::int32_t>{0, 4, 2, 3}));
  EXPECT_EQ(rendered(*model), "<s>abc");
  const auto ends = model->state()->tokenizer->end_of_generation_ids();
  for (const std::int32_t id : {1, 28}) EXPECT_NE(std::ranges::find(ends, id), ends.end()) << id;
  EXPECT_EQ(model->state()->sampling_defaults.temperature, 0.5f);
  Request request;
  request.prompt = RawText{.text = "abc"};
  request.sampling.max_tokens = 4;
  EXPECT_TRUE(model->generate(request).ok());
}

TEST_F(Folder, EndsOfConfigJsonCountWithoutAGenerationConfig) {
  folder_.write("tokenizer.json", tokenizer_json());
  const auto model = open();  // its config.json has [2, 3]
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto ends = model->state()->tokenizer->end_of_generation_ids();
  for (const std::int32_t id : {2, 3}) EXPECT_NE(std::ranges::find(ends, id), ends.end()) << id;
}

TEST_F(Folder, TheTemplatesFileComesFirst) {
  folder_.write("tokenizer.json", tokenizer_json());
  folder_.write("tokenizer_config.json", R"({"chat_template": "of the configuration"})");
  EXPECT_EQ(rendered(open().value()), "of the configuration");
  folder_.write("chat_template.jinja", "of the file");
  EXPECT_EQ(rendered(open().value()), "of the file");
  EXPECT_EQ(rendered(Model::open(library_, folder_.path(), {.device = "cpu", .chat_template = "asked for"}).value()),
            "asked for");
}

TEST_F(Folder, AListOfTemplates) {
  folder_.write("tokenizer.json", tokenizer_json());
  folder_.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                             {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(rendered(open().value()), "plain");
  folder_.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_EQ(open().error().code, ErrorCode::kConfigRange);
}

// Gemma's directories name a token for images behind the embedding's last row.
TEST_F(Folder, TokensThatTheModelLacksAreRefusedWhenUsed) {
  folder_.write("tokenizer.json",
                tokenizer_json(R"(, {"id": 61, "content": "<image>", "single_word": false, "lstrip": false,
                                     "rstrip": false, "normalized": false, "special": true})"));
  for (int i = 0; i < 2; ++i) {
    const auto model = open();
    if (!model.ok()) {  // a gap in the vocabulary may be refused too
      EXPECT_EQ(kind_of(model.error().code), ErrorKind::kModel) << model.error().message;
      return;
    }
    EXPECT_TRUE(model->tokenize("abc<image>").ok());
    const auto refused = model->tokenize("abc<image>", {.special = true});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(Folder, IgnoredKeysAreSaid) {
  folder_.write("generation_config.json", R"({"num_beams": 4})");
  EXPECT_EQ(open().error().code, ErrorCode::kConfigUnknown);
  const auto model = Model::open(library_, folder_.path(), {.device = "cpu", .ignore_keys = {"num_beams", "other"}});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->info().ignored_keys, std::vector<std::string>{"num_beams"});
}

TEST_F(Folder, ABrokenTokenizerIsNamedWithItsFolder) {
  folder_.write("tokenizer.json", "{");
  const auto model = open();
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(kind_of(model.error().code), ErrorKind::kModel);
  EXPECT_TRUE(model.error().message.starts_with(folder_.path() + "/")) << model.error().message;
}

/// The defaults of a generation_config.json.
Result<SamplingParams> defaults(std::string_view text, const std::vector<std::string>& ignored = {}) {
  const TemporaryFolder folder;
  folder.write("generation_config.json", text);
  return folder_sampling_defaults(folder.path(), ignored);
}

TEST(GenerationConfig, SamplesOnlyIfItSaysSo) {
  const TemporaryFolder none;
  EXPECT_FALSE(folder_sampling_defaults(none.path(), {}).value().temperature);
  const char* both = R"("temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.05})";
  const SamplingParams greedy = defaults(std::string("{") + both).value();
  EXPECT_FALSE(greedy.temperature || greedy.top_p || greedy.top_k || greedy.min_p);
  EXPECT_EQ(greedy.repetition_penalty, 1.05f);
  const SamplingParams sampled = defaults(std::string("{\"do_sample\": true, ") + both).value();
  EXPECT_EQ(sampled.temperature, 0.6f);
  EXPECT_EQ(sampled.top_p, 0.9f);
  EXPECT_EQ(sampled.top_k, 20);
  EXPECT_EQ(sampled.min_p, 0.1f);
  EXPECT_EQ(defaults(R"({"do_sample": true})").value().temperature, 1.0f);
  EXPECT_FALSE(defaults(R"({"do_sample": true, "top_k": -1, "top_p": 1.0})").value().top_k);
}

TEST(GenerationConfig, OtherWaysToChooseAreRefusedByName) {
  EXPECT_TRUE(defaults(R"({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": [2], "max_length": 4096,
                           "transformers_version": "4.51", "num_beams": 1, "typical_p": 1.0, "suppress_tokens": null,
                           "cache_implementation": "hybrid", "pad_token_id": 0, "bad_words_ids": null})")
                  .ok());
  for (const char* text : {R"({"num_beams": 4})", R"({"typical_p": 0.9})", R"({"no_repeat_ngram_size": 3})",
                           R"({"suppress_tokens": [1, 2]})", R"({"stop_strings": ["x"]})", R"({"min_length": 5})",
                           R"({"a_new_penalty": 0.5})"}) {
    const auto refused = defaults(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kConfigUnknown) << refused.error().message;
  }
  EXPECT_TRUE(defaults(R"({"num_beams": 4})", {"num_beams"}).ok());
  EXPECT_EQ(defaults(R"({"temperature": -1})").error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(defaults(R"({"top_p": "high"})").error().code, ErrorCode::kConfigType);
  EXPECT_EQ(defaults("[").error().code, ErrorCode::kJsonSyntax);
}

}  // namespace
}  // namespace pagoda::api
