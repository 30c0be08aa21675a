#include "runtime/step_results.h"

#include <algorithm>

namespace pagoda::runtime {
namespace {

std::size_t tokens_wanted(const sched::Row& row) {
  return row.want == sched::Want::kNothing ? 0 : static_cast<std::size_t>(std::max(0, row.count - row.want_from));
}

}  // namespace

void StepResults::begin(const sched::Batch& batch) {
  wanted_.clear();
  wanted_tokens_.clear();
  places_.clear();
  rows_.assign(batch.rows.size(), RowResult{});
  Places totals;
  for (std::int32_t r = 0; r < std::ssize(batch.rows); ++r) {
    const sched::Row& row = batch.rows[static_cast<std::size_t>(r)];
    rows_[static_cast<std::size_t>(r)].slot = row.slot;
    reserve_row(row, num_best_[static_cast<std::size_t>(r)], totals);
    const std::int64_t first = row.want == sched::Want::kNothing ? row.count : row.want_from;
    for (std::int64_t i = std::min<std::int64_t>(first, row.count - 1); i < row.count; ++i) {
      const bool draws = row.wants_id && i == row.count - 1;
      const bool reports = i >= first;
      if (!draws && !reports) continue;
      wanted_.push_back({.row = r, .place = reports ? i - first : -1, .draws = draws});
      wanted_tokens_.push_back(row.token_offset + i);
    }
  }
  best_.resize(totals.best);
  target_logprobs_.assign(totals.targets, 0.0f);
  target_best_.resize(totals.target_best);
  logits_.resize(totals.logits);
  hidden_states_.resize(totals.hidden);
  point_rows(batch);
}

void StepResults::reserve_row(const sched::Row& row, const NumBest& num_best, Places& totals) {
  Places place = totals;
  const std::size_t tokens = tokens_wanted(row);
  place.best_count = row.wants_id ? static_cast<std::size_t>(std::max(0, num_best.drawn)) : 0;
  totals.best += place.best_count;
  if (row.want == sched::Want::kPromptLogprobs) {
    place.target_best_each = static_cast<std::size_t>(num_best.prompt);
    totals.targets += tokens;
    totals.target_best += tokens * place.target_best_each;
  }
  if (row.want == sched::Want::kLogits) totals.logits += tokens * static_cast<std::size_t>(vocab_);
  if (row.want == sched::Want::kHidden) totals.hidden += tokens * static_cast<std::size_t>(hidden_);
  places_.push_back(place);
}

void StepResults::point_rows(const sched::Batch& batch) {
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const std::size_t tokens = tokens_wanted(batch.rows[r]);
    RowResult& result = rows_[r];
    const Places& place = places_[r];
    switch (batch.rows[r].want) {
      case sched::Want::kNothing:
        break;
      case sched::Want::kPromptLogprobs:
        result.target_logprobs = std::span(target_logprobs_).subspan(place.targets, tokens);
        result.target_best = std::span(target_best_).subspan(place.target_best, tokens * place.target_best_each);
        break;
      case sched::Want::kLogits:
        result.logits = std::span(logits_).subspan(place.logits, tokens * static_cast<std::size_t>(vocab_));
        break;
      case sched::Want::kHidden:
        result.hidden = std::span(hidden_states_).subspan(place.hidden, tokens * static_cast<std::size_t>(hidden_));
        break;
    }
  }
}

std::span<TokenLogprob> StepResults::best(std::int32_t row) {
  const Places& place = places_[static_cast<std::size_t>(row)];
  return std::span(best_).subspan(place.best, place.best_count);
}

float& StepResults::target_logprob(const WantedToken& token) {
  return target_logprobs_[places_[static_cast<std::size_t>(token.row)].targets + static_cast<std::size_t>(token.place)];
}

std::span<TokenLogprob> StepResults::target_best(const WantedToken& token) {
  const Places& place = places_[static_cast<std::size_t>(token.row)];
  return std::span(target_best_)
      .subspan(place.target_best + static_cast<std::size_t>(token.place) * place.target_best_each,
               place.target_best_each);
}

std::span<float> StepResults::logits(const WantedToken& token) {
  const auto vocab = static_cast<std::size_t>(vocab_);
  const std::size_t at = places_[static_cast<std::size_t>(token.row)].logits;
  return std::span(logits_).subspan(at + static_cast<std::size_t>(token.place) * vocab, vocab);
}

std::span<float> StepResults::hidden(const WantedToken& token) {
  const auto width = static_cast<std::size_t>(hidden_);
  const std::size_t at = places_[static_cast<std::size_t>(token.row)].hidden;
  return std::span(hidden_states_).subspan(at + static_cast<std::size_t>(token.place) * width, width);
}

}  // namespace pagoda::runtime
