// A tiny random model with a tokenizer of single characters and a ChatML template, as a file for the whole path from
// open to text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fixtures/tiny_model.h"
#include "pagoda/pagoda.h"

namespace pagoda::api {

inline constexpr std::int32_t kBos = 0, kEos = 1, kTurnStart = 2, kTurnEnd = 3;

/// A file that goes with its object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    char name[] = "/tmp/pagoda_api_XXXXXX.gguf";
    const int descriptor = mkstemps(name, 5);
    PAGODA_CHECK(descriptor >= 0, "no temporary file");
    close(descriptor);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct TinyChat {
  std::string chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  std::string pre = "smollm";  // empty: the file has no such key
  std::vector<std::string> merges = {"} }"};
  bool add_bos = false;
  fixtures::TinyConfig model = {};
  float sampling_temp = -1;  // below 0: the file has no such key
};

/// The vocabulary: four control tokens, then one token for each character that the tests use.
inline std::vector<std::string> tiny_tokens() {
  std::vector<std::string> tokens = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  tokens.emplace_back("Ġ");
  tokens.emplace_back("Ċ");
  for (const char c : std::string("0123456789<>|_.,!?:/-'()\"=+*#@[]{}")) tokens.emplace_back(1, c);
  tokens.emplace_back("}}");  // the one merge
  return tokens;
}

inline std::string tiny_chat_bytes(const TinyChat& chat = {}) {
  fixtures::TinyModel model(chat.model);
  const std::vector<std::string> tokens = tiny_tokens();
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (std::size_t i = 0; i < 4; ++i) types[i] = 3;
  model.writer()
      .set("tokenizer.ggml.model", "gpt2")
      .set("tokenizer.ggml.tokens", tokens)
      .set("tokenizer.ggml.token_type", types)
      .set("tokenizer.ggml.merges", chat.merges)
      .set("tokenizer.ggml.bos_token_id", std::uint32_t{kBos})
      .set("tokenizer.ggml.eos_token_id", std::uint32_t{kEos})
      .set("tokenizer.ggml.add_bos_token", chat.add_bos);
  if (!chat.pre.empty()) model.writer().set("tokenizer.ggml.pre", chat.pre);
  if (!chat.chat_template.empty()) model.writer().set("tokenizer.chat_template", chat.chat_template);
  if (chat.sampling_temp >= 0) model.writer().set("general.sampling.temp", chat.sampling_temp);
  return model.bytes();
}

inline Library test_library() {
  auto library = Library::create({.threads = 2});
  PAGODA_CHECK(library.ok(), "{}", library.error().message);
  return std::move(library).value();
}

inline Model open_tiny(const TinyChat& chat = {}, ModelOptions options = {}) {
  const TemporaryFile file(tiny_chat_bytes(chat));
  if (options.device == "auto") options.device = "cpu";
  auto model = Model::open(test_library(), file.path(), std::move(options));
  PAGODA_CHECK(model.ok(), "{}", model.error().message);
  return std::move(model).value();
}

inline Request ask_text(std::string text, std::int64_t max_tokens) {
  Request request;
  request.prompt = RawText{.text = std::move(text)};
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

inline Answer collect(const Model& model, const Request& request) {
  auto generation = model.generate(request);
  PAGODA_CHECK(generation.ok(), "{}", generation.error().message);
  auto answer = generation->collect();
  PAGODA_CHECK(answer.ok(), "{}", answer.error().message);
  return std::move(answer).value();
}

/// Blocks of the cache that requests hold; 0 when all have ended.
inline std::int64_t blocks_used(const Model& model) { return model.stats().blocks_used; }

}  // namespace pagoda::api
