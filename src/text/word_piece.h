// Vocabularies of whole words and of the longest parts of words (Schuster and Nakajima, 2012).
#pragma once

#include <string>
#include <vector>

#include "text/fragment_encoder.h"

namespace pagoda::text {

/// The longest token at the beginning of a word, then the longest at the rest, written with a prefix; a word for which
/// that fails is unknown. The vocabulary must outlive it.
class WordPieceEncoder : public FragmentEncoder {
 public:
  /// `unknown`: -1 for none. `most_characters`: a longer word is unknown at once.
  WordPieceEncoder(const Vocabulary& vocabulary, std::int32_t unknown, std::string prefix,
                   std::int64_t most_characters);

  Status encode(std::string_view word, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  std::int32_t longest_at(std::string_view word, std::size_t begin, std::string& buffer, std::size_t& end) const;

  const Vocabulary* vocabulary_;
  std::int32_t unknown_;
  std::string prefix_;
  std::int64_t most_characters_;
  std::size_t longest_ = 0;  ///< bytes of the longest token
};

/// A piece is a token or unknown. The vocabulary must outlive it.
class WordLevelEncoder : public FragmentEncoder {
 public:
  WordLevelEncoder(const Vocabulary& vocabulary, std::int32_t unknown) : vocabulary_(&vocabulary), unknown_(unknown) {}

  Status encode(std::string_view word, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  const Vocabulary* vocabulary_;
  std::int32_t unknown_;
};

}  // namespace pagoda::text
