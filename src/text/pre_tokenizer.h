// How byte-level BPE cuts a text into pieces that are merged each by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"

namespace pagoda::text {

/// One cut: what it finds becomes a piece of its own, and so does what lies between.
struct Cut {
  enum class Kind : std::uint8_t {
    kPattern,          ///< a regular expression, as Perl writes them; `\s` is Unicode's White_Space
    kDigitGroups,      ///< runs of digits in groups of three, counted from the right
    kDigitGroupsWord,  ///< the same, for runs that no letter follows
    kByteDigits,       ///< runs of the bytes that byte-level text writes as digits, see cut_byte_digits
  };
  Kind kind = Kind::kPattern;
  std::string pattern;
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

/// Compiled rules. Immutable; any number of threads may use one.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const PreTokenizerRules& rules);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Cuts `text`; the pieces, joined, are the text again. Bytes that are no UTF-8 are pieces of their own.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Step;
  explicit PreTokenizer(std::vector<Step> steps);

  std::vector<Step> steps_;
};

}  // namespace pagoda::text
