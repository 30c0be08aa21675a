// Finds the tokens that stand apart from the text around them: marks and those that a file has added.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/declared.h"
#include "text/prefix_tree.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace pagoda::text {

/// A part of a text: a token, or text between tokens.
struct TextPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;  ///< -1: text
};

class ApartTokens {
 public:
  /// The marks and user-defined tokens of a vocabulary, as they are written.
  explicit ApartTokens(const Vocabulary& vocabulary);
  /// Those of `tokens` that are looked for in the normalised text, or the others.
  ApartTokens(const Vocabulary& vocabulary, const std::vector<AddedToken>& tokens, bool normalized);

  bool empty() const { return tree_.empty(); }

  /// Adds the parts of `text`, from left to right: at each place the longest token, marks only where `special` allows
  /// them. A part may overlap the one before by white space that both take. `offset`: where `text` begins in the text
  /// whose bytes `special` speaks of.
  void cut(std::string_view text, std::size_t offset, const SpecialTokens& special, std::vector<TextPart>& out) const;

 private:
  struct Match {
    std::int32_t index = -1;  ///< of rules_
    std::size_t end = 0;
  };
  std::optional<Match> longest_at(std::string_view text, std::size_t begin, std::size_t offset,
                                  const SpecialTokens& special) const;

  const Vocabulary* vocabulary_;
  bool declared_;  ///< a longest match that does not count hides the shorter ones
  std::vector<AddedToken> rules_;
  PrefixTree tree_;  ///< to indices of rules_
};

}  // namespace pagoda::text
