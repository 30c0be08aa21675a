// Finds the tokens that stand apart from the text around them: marks and user-defined ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace pagoda::text {

/// A prefix tree of their texts.
class ApartTokens {
 public:
  explicit ApartTokens(const Vocabulary& vocabulary);

  struct Match {
    std::int32_t id = -1;
    std::size_t length = 0;
  };
  /// The longest such token at text[begin], marks only where `special` allows them.
  std::optional<Match> longest_at(std::string_view text, std::size_t begin, const SpecialTokens& special) const;

 private:
  void add(std::string_view text, std::int32_t id);

  const Vocabulary* vocabulary_;
  FlatMap<std::int32_t> edges_;      ///< (node, byte) to node
  std::vector<std::int32_t> token_;  ///< of each node, -1: none
};

}  // namespace pagoda::text
