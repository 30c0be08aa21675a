// Tokens as the API shows them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pagoda/generation.h"
#include "pagoda/model.h"
#include "server/json/json.h"

namespace pagoda::server {

/// A token's bytes as text; what is no whole UTF-8 by itself is written as OpenAI does: bytes:\xe2\x9c.
std::string token_string(std::string_view bytes);

/// Characters that begin in `bytes`.
std::int64_t num_characters(std::string_view bytes);

/// Where the first of a prompt's tokens begins in its text. Below 0 by the characters that only the tokens have: those
/// of tokens that the model wants before a text, a space that its tokenizer puts there.
std::int64_t first_offset(std::span<const std::int32_t> ids, std::string_view text, const Model& model);

/// {"token", "logprob", "bytes", "top_logprobs"}: an entry of a chat's logprobs.content.
void write_chat_logprob(const TokenChoice& choice, const Model& model, JsonWriter& out);

/// {"<id>": {"logprob", "decoded_token"}, ...}: an entry of prompt_logprobs, the token itself first.
void write_prompt_logprob(const TokenChoice& choice, const Model& model, JsonWriter& out);

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of the older API.
class TokenTable {
 public:
  /// `offset`: where the first token begins in the text that is shown. What begins before that text is said to begin
  /// with it.
  explicit TokenTable(const Model& model, std::int64_t offset = 0) : model_(model), offset_(offset) {}

  void add(const TokenChoice& choice);
  /// A token without a past: the first one of a prompt.
  void add_first(std::int32_t id);
  void write(JsonWriter& out);  ///< and begins anew; offsets go on

 private:
  std::string next_token(std::int32_t id);

  const Model& model_;
  JsonWriter tokens_, logprobs_, best_, offsets_;
  bool begun_ = false;
  std::int64_t offset_;
};

}  // namespace pagoda::server
