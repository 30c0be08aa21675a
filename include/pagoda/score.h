// How likely a model finds a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "pagoda/model.h"

namespace pagoda {

struct ScoreRequest {
  std::variant<RawText, TokenIds> text{};
  /// If set, is given the raw logits at every position, in order; `logits` (vocabulary) is lent for the call. Called
  /// from the engine's thread; returning false ends the scoring with kCancelled.
  std::function<bool(std::int64_t position, std::span<const float> logits)> on_logits{};
};

struct Score {
  std::vector<std::int32_t> tokens{};
  std::vector<double> logprobs{};  ///< natural logarithm; one fewer than tokens: the first has no past
  double perplexity = 0;           ///< exp(-mean(logprobs)); 1 for a single token
};

/// Errors: those of Model::generate.
Result<Score> score(const Model& model, const ScoreRequest& request);

}  // namespace pagoda
