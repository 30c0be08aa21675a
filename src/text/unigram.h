// The pieces whose scores add up to most (Kudo, 2018): Viterbi's algorithm over all ways to cut a text into tokens.
#pragma once

#include <vector>

#include "text/fragment_encoder.h"
#include "text/prefix_tree.h"

namespace pagoda::text {

/// The vocabulary must outlive it.
class UnigramEncoder : public FragmentEncoder {
 public:
  /// `scores`: one for each of the vocabulary's first tokens, which are those that text is cut into. `unknown`: -1 for
  /// none. Errors: kTokenizerInvalid for a piece that is too long to be looked for everywhere.
  static Result<std::unique_ptr<const FragmentEncoder>> create(const Vocabulary& vocabulary, std::vector<double> scores,
                                                               std::int32_t unknown, bool byte_fallback);

  Status encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  UnigramEncoder(const Vocabulary& vocabulary, std::vector<double> scores, std::int32_t unknown, bool byte_fallback);

  /// The best way to a place of the text.
  struct Place {
    double score = 0;
    std::int64_t from = -1;  ///< where its last token begins; -1: no way leads here yet
    std::int32_t id = -1;    ///< of the last token; -1: unknown
  };
  Result<std::vector<Place>> best_ways(std::string_view text) const;
  Status add_unknown(std::string_view text, std::vector<std::int32_t>& out) const;

  const Vocabulary* vocabulary_;
  std::vector<double> scores_;
  std::int32_t unknown_;
  bool byte_fallback_;
  double unknown_score_ = 0;
  PrefixTree tree_;
};

}  // namespace pagoda::text
