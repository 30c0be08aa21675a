#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/metaspace.h"

namespace pagoda::text {
namespace {

constexpr std::int64_t kMaxTokens = 1 << 22;
constexpr std::size_t kMaxTokenBytes = 1 << 16;
constexpr std::size_t kMaxApartBytes = 1 << 10;  // of tokens that are looked for at every place of a text

/// The bytes that are printable in Latin-1 stand for themselves, the others for U+0100 and on, in order.
struct ByteLevelTable {
  std::array<std::string, 256> characters;
  std::array<std::int32_t, 0x144> bytes;  // by code point, -1: stands for none

  ByteLevelTable() {
    bytes.fill(-1);
    char32_t other = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t character = printable ? byte : other++;
      append_utf8(characters[byte], character);
      bytes[character] = static_cast<std::int32_t>(byte);
    }
  }
};

const ByteLevelTable& byte_level() {
  static const ByteLevelTable table;
  return table;
}

std::string_view metaspace_bytes(std::string_view text, std::string& out) {
  out.clear();
  while (true) {
    const std::size_t mark = text.find(kMetaspace);
    out += text.substr(0, mark);
    if (mark == std::string_view::npos) return out;
    out += ' ';
    text.remove_prefix(mark + kMetaspace.size());
  }
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

/// Tokens whose text is known to end an answer (in the vocabularies of known models).
constexpr std::string_view kEndTexts[] = {
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|end|>",  "<end_of_turn>",    "<turn|>",
    "<|eot_id|>",    "<|eom_id|>",      "<|return|>", "<|call|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
};

/// The same, where the file itself calls them marks: elsewhere "</s>" is a tag of HTML.
constexpr std::string_view kEndTextsOfMarks[] = {
    "<eos>", "</s>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "[e~[", "<end_of_utterance>",
};

/// Marks that begin a turn: never text, whatever the file calls them.
constexpr std::string_view kBeginTexts[] = {"<start_of_turn>", "<|turn>"};

Status add_tokens(TokenizerSource& source, Vocabulary& out) {
  const auto count = std::ssize(source.tokens);
  if (count == 0) return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.tokens is missing or empty");
  if (count > kMaxTokens) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.tokens has {} tokens; at most {} are allowed", count,
                kMaxTokens);
  }
  std::size_t bytes = 0;
  for (const std::string& token : source.tokens) bytes += token.size();
  out.texts.reserve(source.tokens.size(), bytes);
  out.pieces.reserve(source.tokens.size(), bytes);
  for (std::int64_t id = 0; id < count; ++id) {
    const std::string& token = source.tokens[id];
    if (token.size() > kMaxTokenBytes) {
      return fail(ErrorCode::kTokenizerInvalid, "token {} has {} bytes; at most {} are allowed", id, token.size(),
                  kMaxTokenBytes);
    }
    out.texts.add(token);
  }
  source.tokens = {};
  out.index.emplace(out.texts);
  for (std::int32_t id = 0; id < out.size(); ++id) {
    const auto earlier = out.index->insert(id);
    if (earlier.has_value() && !out.texts[id].empty()) {
      return fail(ErrorCode::kTokenizerInvalid, "tokens {} and {} are both \"{}\"", *earlier, id, out.texts[id]);
    }
  }
  return Ok{};
}

Status add_types(const TokenizerSource& source, Vocabulary& out) {
  const std::int64_t count = out.size();
  if (!source.types.empty() && std::ssize(source.types) != count) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.token_type has {} entries for {} tokens",
                source.types.size(), count);
  }
  out.types.assign(static_cast<std::size_t>(count), TokenType::kNormal);
  for (std::int64_t id = 0; id < std::ssize(source.types); ++id) {
    const std::int32_t type = source.types[id];
    if (type < 0 || type > 6) {
      return fail(ErrorCode::kTokenizerInvalid, "token {} has the type {}; 1 to 6 are allowed", id, type);
    }
    if (type != 0) out.types[id] = static_cast<TokenType>(type);  // 0: the file does not say
  }
  return Ok{};
}

Status add_scores(TokenizerSource& source, Vocabulary& out) {
  if (source.scores.empty()) return Ok{};
  if (std::ssize(source.scores) != out.size()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.scores has {} entries for {} tokens",
                source.scores.size(), out.size());
  }
  const auto bad = std::ranges::find_if_not(source.scores, [](float score) { return std::isfinite(score); });
  if (bad != source.scores.end()) {
    return fail(ErrorCode::kTokenizerInvalid, "the score of token {} is not finite", bad - source.scores.begin());
  }
  out.scores = std::move(source.scores);
  return Ok{};
}

Result<std::optional<std::int32_t>> checked_id(std::string_view key, std::optional<std::int64_t> id,
                                               const Vocabulary& vocabulary) {
  if (!id.has_value()) return std::optional<std::int32_t>{};
  if (*id < 0 || *id >= vocabulary.size()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.{} is {}; the vocabulary has {} tokens", key, *id,
                vocabulary.size());
  }
  return std::optional<std::int32_t>(static_cast<std::int32_t>(*id));
}

/// A SentencePiece file that names no ids means its usual ones, if these tokens are marks.
void use_customary_ids(Vocabulary& out) {
  const auto adopt = [&](std::optional<std::int32_t>& id, std::int32_t usual) {
    if (!id.has_value() && usual < out.size() && out.is_control(usual)) id = usual;
  };
  adopt(out.unknown, 0);
  adopt(out.bos, 1);
  adopt(out.eos, 2);
}

/// The ids with a meaning; all of them and all that look like marks become control tokens.
Status add_special_ids(const TokenizerSource& source, Vocabulary& out) {
  out.bos = PAGODA_TRY(checked_id("bos_token_id", source.bos, out));
  out.eos = PAGODA_TRY(checked_id("eos_token_id", source.eos, out));
  out.unknown = PAGODA_TRY(checked_id("unknown_token_id", source.unknown, out));
  out.padding = PAGODA_TRY(checked_id("padding_token_id", source.padding, out));
  const auto eot = PAGODA_TRY(checked_id("eot_token_id", source.eot, out));
  const auto eom = PAGODA_TRY(checked_id("eom_token_id", source.eom, out));
  if (source.kind == "llama") use_customary_ids(out);

  for (const auto& id : {out.eos, eot, eom}) {
    if (id.has_value()) out.end_ids.push_back(*id);
  }
  if (source.declared) {
    out.end_ids.insert(out.end_ids.end(), source.declared->end_ids.begin(), source.declared->end_ids.end());
  }
  const bool has_return = out.index->find("<|return|>").has_value();  // there "<|end|>" ends a message, not the answer
  for (const std::string_view text : kEndTexts) {
    const auto id = out.index->find(text);
    if (id.has_value() && !(text == "<|end|>" && has_return)) out.end_ids.push_back(*id);
  }
  for (const std::string_view text : kEndTextsOfMarks) {
    const auto id = out.index->find(text);
    if (id.has_value() && out.type(*id) == TokenType::kControl) out.end_ids.push_back(*id);
  }
  std::ranges::sort(out.end_ids);
  out.end_ids.erase(std::unique(out.end_ids.begin(), out.end_ids.end()), out.end_ids.end());

  for (const std::int32_t id : out.end_ids) out.types[id] = TokenType::kControl;
  if (out.bos.has_value()) out.types[*out.bos] = TokenType::kControl;
  for (const std::string_view text : kBeginTexts) {
    if (const auto id = out.index->find(text); id.has_value()) out.types[*id] = TokenType::kControl;
  }
  for (std::int32_t id = 0; id < out.size(); ++id) {
    if (out.type(id) == TokenType::kUserDefined && looks_like_mark(out.texts[id])) out.types[id] = TokenType::kControl;
  }
  return Ok{};
}

/// The bytes of every token as the steps of a tokenizer.json make them. What a normalizer has made of an added token's
/// text is what decoding starts from.
Status add_declared_pieces(const DeclaredTokenizer& declared, Vocabulary& out) {
  Detokenizer detokenizer = PAGODA_TRY(Detokenizer::create(declared.decoder));
  std::vector<std::string_view> texts;
  for (std::int32_t id = 0; id < out.size(); ++id) texts.push_back(out.texts[id]);
  for (const AddedToken& token : declared.added) texts[static_cast<std::size_t>(token.id)] = token.looked_for;
  if (detokenizer.depends_on_place()) out.first_pieces.emplace();
  for (const std::string_view text : texts) {
    out.pieces.add(PAGODA_TRY(detokenizer.bytes_of(text, false)));
    if (out.first_pieces) out.first_pieces->add(PAGODA_TRY(detokenizer.bytes_of(text, true)));
  }
  return Ok{};
}

/// The bytes of every token, and the token of every byte.
Status add_pieces(const TokenizerSource& source, Vocabulary& out) {
  out.byte_ids.assign(256, -1);
  std::string buffer;
  for (std::int32_t id = 0; id < out.size(); ++id) {
    const std::string_view text = out.texts[id];
    const TokenType type = out.type(id);
    const bool apart = out.is_control(id) || type == TokenType::kUserDefined;
    if (apart && text.size() > kMaxApartBytes) {
      return fail(ErrorCode::kTokenizerInvalid, "token {} is a mark of {} bytes; at most {} are allowed", id,
                  text.size(), kMaxApartBytes);
    }
    if (type == TokenType::kByte) {
      const auto byte = parse_byte_token(text);
      if (!byte.has_value()) {
        return fail(ErrorCode::kTokenizerInvalid, "token {} is of type byte and reads \"{}\"; \"<0xHH>\" is expected",
                    id, text);
      }
      if (out.form == TextForm::kMetaspace) out.byte_ids[*byte] = id;
      const char c = static_cast<char>(*byte);
      if (!source.declared) out.pieces.add(std::string_view(&c, 1));
    } else if (source.declared) {
      continue;
    } else if (out.form == TextForm::kMetaspace) {
      out.pieces.add(metaspace_bytes(text, buffer));
    } else {
      out.pieces.add(apart ? text : byte_level_bytes(text, buffer));
    }
  }
  if (out.form == TextForm::kByteLevel) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto id = out.find_plain(byte_level().characters[byte]);
      if (id.has_value()) out.byte_ids[byte] = *id;
    }
  }
  return Ok{};
}

}  // namespace

std::string_view byte_level_character(unsigned char byte) { return byte_level().characters[byte]; }

std::string_view byte_level_bytes(std::string_view text, std::string& out) {
  out.clear();
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Part part = read_utf8(rest);
    const bool known = part.kind == Utf8Part::Kind::kCharacter && part.character < byte_level().bytes.size() &&
                       byte_level().bytes[part.character] >= 0;
    if (!known) return text;
    out += static_cast<char>(byte_level().bytes[part.character]);
    rest.remove_prefix(part.length);
  }
  return out;
}

std::optional<unsigned char> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto high = hex_digit(text[3]);
  const auto low = hex_digit(text[4]);
  if (!high.has_value() || !low.has_value()) return std::nullopt;
  return static_cast<unsigned char>(*high * 16 + *low);
}

bool looks_like_mark(std::string_view text) {
  return (text.size() > 4 && text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with("<｜") && text.ends_with("｜>"));
}

std::optional<std::int32_t> Vocabulary::find_plain(std::string_view text) const {
  const auto id = index->find(text);
  if (!id.has_value() || (type(*id) != TokenType::kNormal && type(*id) != TokenType::kUnused)) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Vocabulary::unknown_for_text() const {
  return unknown.has_value() && type(*unknown) == TokenType::kUnknown ? unknown : std::nullopt;
}

Result<std::unique_ptr<const Vocabulary>> make_vocabulary(TokenizerSource& source, TextForm form) {
  auto out = std::make_unique<Vocabulary>();
  out->form = form;
  PAGODA_TRY(add_tokens(source, *out));
  PAGODA_TRY(add_types(source, *out));
  PAGODA_TRY(add_scores(source, *out));
  PAGODA_TRY(add_special_ids(source, *out));
  PAGODA_TRY(add_pieces(source, *out));
  if (source.declared) PAGODA_TRY(add_declared_pieces(*source.declared, *out));
  return std::unique_ptr<const Vocabulary>(std::move(out));
}

}  // namespace pagoda::text
