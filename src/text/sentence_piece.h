// SentencePiece's byte pair encoding (Kudo and Richardson, 2018): every pair of neighbours whose joint text is a token
// may join, the one of the highest score first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/fragment_encoder.h"

namespace pagoda::text {

/// The vocabulary, which has scores, must outlive it.
class SentencePieceEncoder : public FragmentEncoder {
 public:
  /// `add_space_prefix`: every text starts with a space that is not there.
  SentencePieceEncoder(const Vocabulary& vocabulary, bool add_space_prefix);

  Status encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  Merge find(std::string_view joined) const;

  const Vocabulary* vocabulary_;
  bool add_space_prefix_;
  std::size_t longest_ = 0;  ///< bytes of the longest token
};

}  // namespace pagoda::text
