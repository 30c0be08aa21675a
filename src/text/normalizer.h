// What is done to a text before it is cut into words: the normalizers that a tokenizer declares, in their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/canonical.h"
#include "text/pattern.h"

namespace pagoda::text {

/// One declared step.
struct NormalizerRule {
  enum class Kind : std::uint8_t {
    kForm,             ///< Unicode's normal form `form`
    kLowercase,        ///< each character by itself
    kStrip,            ///< white space at the ends, where `left` and `right` say
    kDropMarks,        ///< combining marks
    kDropMarksInLine,  ///< combining marks that take no room of their own
    kReplace,          ///< `content` for all that `pattern` finds
    kPrepend,          ///< `content` in front of a text that is not empty
    kControlToSpace,   ///< the clean-up of machine translation's vocabularies
    kCleanText,        ///< no control characters, any white space is a space
    kSpaceIdeographs,  ///< a space on each side of Chinese characters
    kByteCharacters,   ///< the characters that byte-level text writes for the bytes
  };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kC;
  bool left = false;
  bool right = false;
  bool literal = true;  ///< whether `pattern` stands for itself or is an expression in Oniguruma's syntax
  std::string pattern = {};
  std::string content = {};
};

/// Compiled steps. Immutable; any number of threads may use one. Bytes that are no UTF-8 stay as they are.
class Normalizer {
 public:
  static Result<Normalizer> create(std::vector<NormalizerRule> rules);

  bool empty() const { return steps_.empty(); }
  /// Bytes at the front of `text` that a step takes away because they are white space.
  std::size_t cut_in_front(std::string_view text) const;
  Result<std::string> apply(std::string_view text, MatchWorkspace& work) const;

 private:
  struct Step {
    NormalizerRule rule;
    std::vector<Pattern> pattern;  ///< one, of kReplace
  };
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  std::vector<Step> steps_;
};

}  // namespace pagoda::text
