// A checked vocabulary: what each id is and says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/string_pool.h"
#include "text/tokenizer_source.h"

namespace pagoda::text {

/// How tokens write text.
enum class TextForm {
  kByteLevel,  ///< a character for each byte, as GPT-2 does: "Ġthe" is " the"
  kMetaspace,  ///< "▁" for a space, "<0x0A>" for a byte: "▁the" is " the"
};

/// Tokens, their kinds and their bytes. Everything in it is consistent once `make_vocabulary` has returned it.
struct Vocabulary {
  TextForm form = TextForm::kByteLevel;
  StringPool texts;                        ///< as the file writes them
  StringPool pieces;                       ///< the bytes that they stand for
  std::optional<StringPool> first_pieces;  ///< the same where a text begins; absent: no difference
  std::vector<TokenType> types;
  std::vector<float> scores;           ///< empty, or one for each token
  std::vector<std::int32_t> byte_ids;  ///< 256: the token of each byte, -1 for none
  std::vector<std::int32_t> end_ids;   ///< sorted: tokens that end an answer
  std::optional<std::int32_t> bos, eos, unknown, padding;
  std::optional<StringIndex> index;  ///< over texts

  std::int32_t size() const { return texts.size(); }
  TokenType type(std::int32_t id) const { return types[static_cast<std::size_t>(id)]; }
  /// Whether the token is a mark and no text.
  bool is_control(std::int32_t id) const { return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown; }
  /// The token that writes `text` in an ordinary text: never a mark, a byte, or one that stands apart.
  std::optional<std::int32_t> find_plain(std::string_view text) const;
  /// The token for text that no other covers. Some files name a mark such as "<|endoftext|>" here; text must never
  /// become one, so that counts as none.
  std::optional<std::int32_t> unknown_for_text() const;
};

/// Checks the lists of `source` and takes them over. Errors as Tokenizer::create.
Result<std::unique_ptr<const Vocabulary>> make_vocabulary(TokenizerSource& source, TextForm form);

/// The character that byte-level text writes for a byte, as UTF-8.
std::string_view byte_level_character(unsigned char byte);
/// The bytes of a byte-level token, in `out`; a text with other characters stands for itself.
std::string_view byte_level_bytes(std::string_view text, std::string& out);
/// The byte of "<0xHH>": exactly two hexadecimal digits.
std::optional<unsigned char> parse_byte_token(std::string_view text);
/// Whether a text has the shape of a mark, "<|...|>". Some files call such tokens user-defined, which would let any
/// user write one.
bool looks_like_mark(std::string_view text);

}  // namespace pagoda::text
