#include "server/protocol/token_text.h"

#include <algorithm>
#include <set>

namespace pagoda::server {
namespace {

bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// The bytes of the character that begins there; 0 if none does.
std::size_t character_bytes(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(at(i))) return 0;
  }
  const bool overlong = (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xF0 && at(1) < 0x90);
  const bool surrogate = lead == 0xED && at(1) > 0x9F;
  const bool beyond = lead == 0xF4 && at(1) > 0x8F;
  return overlong || surrogate || beyond ? 0 : size;
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string string_of(const Model& model, std::int32_t id) { return token_string(model.token_bytes(id)); }

void write_token(const TokenLogprob& token, const Model& model, JsonWriter& out) {
  const std::string bytes = model.token_bytes(token.id);
  out.member("token", token_string(bytes)).member("logprob", token.logprob).key("bytes").open_array();
  for (const char byte : bytes) out.value(std::int64_t{static_cast<unsigned char>(byte)});
  out.close_array();
}

}  // namespace

std::string token_string(std::string_view bytes) {
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char byte : bytes) out += format("\\x{:02x}", static_cast<unsigned char>(byte));
  return out;
}

std::int64_t num_characters(std::string_view bytes) {
  std::int64_t count = 0;
  for (const char byte : bytes) count += !continues(static_cast<unsigned char>(byte));
  return count;
}

std::int64_t first_offset(std::span<const std::int32_t> ids, std::string_view text, const Model& model) {
  std::int64_t offset = num_characters(text);
  for (const std::int32_t id : ids) offset -= num_characters(model.token_bytes(id));
  return offset;
}

void write_chat_logprob(const TokenChoice& choice, const Model& model, JsonWriter& out) {
  out.open_object();
  write_token(choice.token, model, out);
  out.key("top_logprobs").open_array();
  for (const TokenLogprob& best : choice.best) {
    out.open_object();
    write_token(best, model, out);
    out.close_object();
  }
  out.close_array().close_object();
}

void write_prompt_logprob(const TokenChoice& choice, const Model& model, JsonWriter& out) {
  const auto add = [&](const TokenLogprob& token) {
    out.key(std::to_string(token.id)).open_object().member("logprob", token.logprob);
    out.member("decoded_token", string_of(model, token.id)).close_object();
  };
  out.open_object();
  add(choice.token);
  for (const TokenLogprob& best : choice.best) {
    if (best.id != choice.token.id) add(best);
  }
  out.close_object();
}

std::string TokenTable::next_token(std::int32_t id) {
  if (!begun_) {
    for (JsonWriter* const column : {&tokens_, &logprobs_, &best_, &offsets_}) column->open_array();
    begun_ = true;
  }
  const std::string bytes = model_.token_bytes(id);
  std::string token = token_string(bytes);
  tokens_.value(token);
  offsets_.value(std::max<std::int64_t>(offset_, 0));
  offset_ += num_characters(bytes);
  return token;
}

void TokenTable::add_first(std::int32_t id) {
  next_token(id);
  logprobs_.null();
  best_.null();
}

void TokenTable::add(const TokenChoice& choice) {
  const std::string token = next_token(choice.token.id);
  logprobs_.value(choice.token.logprob);
  best_.open_object().member(token, choice.token.logprob);
  std::set<std::string> seen = {token};  // several ids may have one text: the likeliest stands for them
  for (const TokenLogprob& best : choice.best) {
    std::string text = string_of(model_, best.id);
    if (const auto [at, added] = seen.insert(std::move(text)); added) best_.member(*at, best.logprob);
  }
  best_.close_object();
}

void TokenTable::write(JsonWriter& out) {
  if (!begun_) {
    for (JsonWriter* const column : {&tokens_, &logprobs_, &best_, &offsets_}) column->open_array();
  }
  out.open_object();
  out.key("text_offset").raw(offsets_.close_array().text());
  out.key("token_logprobs").raw(logprobs_.close_array().text());
  out.key("tokens").raw(tokens_.close_array().text());
  out.key("top_logprobs").raw(best_.close_array().text());
  out.close_object();
  for (JsonWriter* const column : {&tokens_, &logprobs_, &best_, &offsets_}) *column = {};
  begun_ = false;
}

}  // namespace pagoda::server
