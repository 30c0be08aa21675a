// What a tokenizer.json declares, as plain data: the steps from a text to ids and back, in their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/string_pool.h"

namespace pagoda::text {

/// How the text of an added token is looked for.
struct AddedToken {
  std::int32_t id = -1;
  std::string looked_for;    ///< its text, or what the normalizers make of it if `normalized`
  bool special = false;      ///< a mark of the model
  bool single_word = false;  ///< only where no word goes on before or behind it
  bool strips_left = false;  ///< takes the white space before it
  bool strips_right = false;
  bool normalized = false;  ///< looked for in the normalised text
};

/// How a piece of text becomes ids.
struct ModelRules {
  enum class Kind : std::uint8_t { kBytePairs, kUnigram, kWordPiece, kWordLevel };
  Kind kind = Kind::kBytePairs;
  std::int32_t unknown = -1;  ///< for what no token covers; -1: none
  bool byte_level = false;    ///< pieces are bytes; the vocabulary writes a character for each
  bool byte_fallback = false;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  std::string word_prefix;             ///< of what is not the beginning of a piece
  std::string word_suffix;             ///< of the end of a piece
  std::int64_t most_characters = 100;  ///< of a word that WordPiece looks at
  StringPool merges;                   ///< left, right, left, right ...: the first pair merges first
  std::vector<double> scores;          ///< of Unigram: one for each of the first tokens
};

/// One step from tokens to text.
struct DecoderRule {
  enum class Kind : std::uint8_t {
    kByteLevel,     ///< the bytes of byte-level characters
    kByteFallback,  ///< "<0xHH>" is a byte
    kReplace,       ///< `content` for all that `pattern` finds
    kMarkedSpaces,  ///< a space for each `pattern`, none in the first token if `drops_first`
    kWordPiece,     ///< a space before each token that does not begin with `pattern`
    kCleanUp,       ///< no spaces before the punctuation of English
    kStrip,         ///< at most `left` times `content` at the beginning of a token and `right` at its end
    kStripText,     ///< at most `left` times `content` at the beginning of the whole text
    kJoin,          ///< a space between tokens
  };
  Kind kind = Kind::kJoin;
  bool literal = true;
  bool drops_first = false;
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::string pattern = {};
  std::string content = {};
};

struct DeclaredTokenizer {
  std::vector<NormalizerRule> normalizer;
  std::vector<Cut> cuts;
  ModelRules model;
  std::vector<DecoderRule> decoder;
  std::vector<AddedToken> added;
  std::vector<std::int32_t> prefix;   ///< ids before raw text
  std::vector<std::int32_t> suffix;   ///< ids behind it
  std::vector<std::int32_t> end_ids;  ///< more ids that end an answer
};

}  // namespace pagoda::text
