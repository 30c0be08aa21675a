// How a text is cut into pieces that are turned into tokens each by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/pattern.h"

namespace pagoda::text {

/// What becomes of the parts that a pattern finds. The parts between them are always pieces.
enum class SplitBehavior : std::uint8_t {
  kIsolated,            ///< pieces of their own
  kRemoved,             ///< gone
  kMergedWithPrevious,  ///< the end of the piece before
  kMergedWithNext,      ///< the beginning of the piece after
  kContiguous,          ///< neighbours among them are one piece
};

/// Where a vocabulary that marks spaces puts a mark that no space asks for.
enum class PrependScheme : std::uint8_t { kNever, kFirst, kAlways };

/// One step of cutting.
struct Cut {
  enum class Kind : std::uint8_t {
    kPattern,          ///< a regular expression in Oniguruma's syntax; `behavior` says what its matches become
    kLiteral,          ///< the same for the text `pattern` as it stands
    kDigitGroups,      ///< runs of digits in groups of three, counted from the right
    kDigitGroupsWord,  ///< the same, for runs that no letter follows
    kByteDigits,       ///< runs of the bytes that byte-level text writes as digits, see cut_byte_digits
    kFixedLength,      ///< pieces of `length` characters
    kPrefixSpace,      ///< a space in front of each piece that has none
    kMarkSpaces,       ///< `pattern` in place of each space, and in front of pieces as `prepend` says
    kByteCharacters,   ///< the characters that byte-level text writes for the bytes
  };
  Kind kind = Kind::kPattern;
  std::string pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  ///< what lies between the matches counts as found
  PrependScheme prepend = PrependScheme::kNever;
  std::int64_t length = 0;

  bool operator==(const Cut&) const = default;
};

/// The rules that a name in `tokenizer.ggml.pre` stands for.
struct PreTokenizerRules {
  std::vector<Cut> cuts;       ///< each applied to the pieces that the one before has left
  bool normal_form_c = false;  ///< the text is brought to Unicode's normal form C first
  bool ignore_merges = false;  ///< a whole piece that is a token is that token, whatever merging would make of it
  bool add_bos = false;        ///< raw text starts with BOS unless the file says otherwise
};

/// The rules of `name`, or null for a name that Pagoda does not know.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

/// All names that are known, sorted.
std::vector<std::string_view> pre_tokenizer_names();

/// GPT-2's expression for words.
const std::string& gpt2_pattern();

/// The pieces of one text, and the memory of a call. One thread.
struct PieceWorkspace {
  struct Piece {
    std::string_view text;
    bool fixed = false;      ///< bytes that are no UTF-8: not cut further
    bool continues = false;  ///< such bytes stand before it, so that no mark is put in front
    bool first = false;      ///< where the whole text begins
  };
  std::vector<Piece> pieces;
  std::vector<Piece> next;
  std::vector<ByteRange> matches;
  std::deque<std::string> changed;  ///< what pieces look at that is no part of the text
  MatchWorkspace match;
};

/// Compiled rules. Immutable; any number of threads may use one.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const PreTokenizerRules& rules);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Cuts `text` into `work.pieces`, which look at it and at `work.changed`. `at_start`: whether the text is the
  /// beginning of what is encoded. Bytes that are no UTF-8 are pieces of their own.
  Status split(std::string_view text, bool at_start, PieceWorkspace& work) const;

  /// The same for rules that change nothing: the pieces, joined, are the text again.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Step;
  explicit PreTokenizer(std::vector<Step> steps);

  std::vector<Step> steps_;
};

}  // namespace pagoda::text
