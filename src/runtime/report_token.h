#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "kernels/sample/sample.h"
#include "runtime/step_results.h"
#include "sched/batch.h"

namespace pagoda::runtime {

/// The log-probability of a token's target and its best ones, from its raw logits.
template <class T>
void report_logprobs(const sched::Batch& batch, const WantedToken& token, std::span<const T> logits,
                     StepResults& results, kernels::DrawScratch& scratch) {
  const sched::Row& row = batch.rows[static_cast<std::size_t>(token.row)];
  const std::int64_t at = row.token_offset + row.want_from + token.place;
  const std::int32_t target = batch.targets[static_cast<std::size_t>(at)];
  const kernels::RowSummary summary = kernels::summarize(logits, scratch.isa);
  const std::span<TokenLogprob> best = results.target_best(token);
  if (!summary.finite) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    results.target_logprob(token) = kNan;
    std::ranges::fill(best, TokenLogprob{.id = sched::kNoToken, .logprob = kNan});
    return;
  }
  const double log_sum = kernels::log_sum_exp(logits, summary.max, scratch.isa);
  if (target != sched::kNoToken) {
    results.target_logprob(token) =
        static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(target)]) - log_sum);
  }
  if (!best.empty()) kernels::best_tokens(logits, log_sum, best, scratch);
}

/// What its row wants of a token beside an id. T is float or double; `hidden` is the token's normed state.
template <class T>
void report_token(const sched::Batch& batch, const WantedToken& token, std::span<const T> logits,
                  std::span<const T> hidden, StepResults& results, kernels::DrawScratch& scratch) {
  const auto narrow = [](T value) { return static_cast<float>(value); };
  switch (batch.rows[static_cast<std::size_t>(token.row)].want) {
    case sched::Want::kNothing:
      break;
    case sched::Want::kLogits:
      std::ranges::transform(logits, results.logits(token).begin(), narrow);
      break;
    case sched::Want::kHidden:
      std::ranges::transform(hidden, results.hidden(token).begin(), narrow);
      break;
    case sched::Want::kPromptLogprobs:
      report_logprobs(batch, token, logits, results, scratch);
      break;
  }
}

}  // namespace pagoda::runtime
