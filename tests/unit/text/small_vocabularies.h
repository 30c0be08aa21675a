// Vocabularies small enough to see through, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace pagoda::text {

inline std::string byte_level(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_level_character(static_cast<unsigned char>(c));
  return out;
}

/// Ids 0 to 255 are the bytes; then what the merges make, in order; then the marks of ChatML.
/// `merges` holds pairs of bytes strings as they are, as {"t", "h"}.
inline TokenizerSource byte_level_source(const std::vector<std::pair<std::string, std::string>>& merges,
                                         const std::string& pre = "smollm") {
  TokenizerSource source;
  source.kind = "gpt2";
  source.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    source.tokens.push_back(byte_level({&c, 1}));
  }
  for (const auto& [left, right] : merges) {
    source.tokens.push_back(byte_level(left + right));
    source.merges.push_back(byte_level(left) + " " + byte_level(right));
  }
  source.types.assign(source.tokens.size(), 1);
  for (const char* mark : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    source.tokens.push_back(mark);
    source.types.push_back(3);
  }
  source.tokens.push_back("<think>");
  source.types.push_back(4);
  source.bos = std::ssize(source.tokens) - 3;
  source.eos = std::ssize(source.tokens) - 2;
  return source;
}

inline std::vector<std::pair<std::string, std::string>> english_merges() {
  return {{"t", "h"},  {"h", "e"}, {"th", "e"}, {" ", "the"}, {"i", "n"},
          {"in", "g"}, {" ", "a"}, {" ", " "},  {"a", "a"},   {"aa", "aa"}};
}

/// <unk> <s> </s>, the 256 bytes, then pieces with falling scores.
inline TokenizerSource sentence_piece_source(const std::vector<std::string>& pieces) {
  TokenizerSource source;
  source.kind = "llama";
  source.tokens = {"<unk>", "<s>", "</s>"};
  source.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    source.tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    source.types.push_back(6);
  }
  source.scores.assign(source.tokens.size(), 0);
  float score = 0;
  for (const std::string& piece : pieces) {
    source.tokens.push_back(piece);
    source.types.push_back(1);
    source.scores.push_back(score -= 1);
  }
  return source;
}

inline std::unique_ptr<const Tokenizer> create(TokenizerSource source) {
  auto tokenizer = Tokenizer::create(std::move(source));
  if (!tokenizer.ok()) std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
  return std::move(tokenizer).value();
}

using Ids = std::vector<std::int32_t>;

/// The tokens' texts of `ids`, for comparisons that a reader can check.
inline std::vector<std::string> texts_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  for (const std::int32_t id : ids) out.emplace_back(tokenizer.piece(id));
  return out;
}

}  // namespace pagoda::text
