#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/sampler.h"
#include "sched/batch.h"

namespace pagoda::runtime {

/// A token of a step whose logits are needed, and for what.
struct WantedToken {
  std::int32_t row = 0;    ///< of the batch
  std::int64_t place = 0;  ///< among the tokens that the row's `want` holds for; -1: only an id is drawn
  bool draws = false;
};

/// Where a step's results are collected. Memory is kept from step to step.
class StepResults {
 public:
  StepResults(std::int64_t vocab, std::int64_t hidden) : vocab_(vocab), hidden_(hidden) {}

  /// Makes room for what the batch wants and lists its tokens in `wanted`. `sampler` is a Sampler or a DeviceSampler.
  template <class AnySampler>
  void begin(const sched::Batch& batch, const AnySampler& sampler) {
    num_best_.clear();
    for (const sched::Row& row : batch.rows) {
      num_best_.push_back({sampler.num_best(row.slot), sampler.num_prompt_best(row.slot)});
    }
    begin(batch);
  }

  std::span<const WantedToken> wanted() const { return wanted_; }
  /// The same tokens as places in the step.
  std::span<const std::int64_t> wanted_tokens() const { return wanted_tokens_; }

  RowResult& row(std::int32_t index) { return rows_[static_cast<std::size_t>(index)]; }
  std::span<const RowResult> rows() const { return rows_; }

  // Where the results of a row's parts go; the row's own spans point there.
  std::span<TokenLogprob> best(std::int32_t row);
  float& target_logprob(const WantedToken& token);
  std::span<TokenLogprob> target_best(const WantedToken& token);
  std::span<float> logits(const WantedToken& token);
  std::span<float> hidden(const WantedToken& token);

 private:
  struct Places {
    std::size_t best = 0, best_count = 0;
    std::size_t targets = 0, target_best = 0, target_best_each = 0;
    std::size_t logits = 0, hidden = 0;
  };
  /// Best log-probabilities that a row's slot wants: beside what it draws, and beside each prompt token.
  struct NumBest {
    std::int32_t drawn, prompt;
  };
  void begin(const sched::Batch& batch);
  void reserve_row(const sched::Row& row, const NumBest& num_best, Places& totals);
  void point_rows(const sched::Batch& batch);

  std::int64_t vocab_;
  std::int64_t hidden_;
  std::vector<NumBest> num_best_;  // by row
  std::vector<WantedToken> wanted_;
  std::vector<std::int64_t> wanted_tokens_;
  std::vector<RowResult> rows_;
  std::vector<Places> places_;
  std::vector<TokenLogprob> best_;
  std::vector<float> target_logprobs_;
  std::vector<TokenLogprob> target_best_;
  std::vector<float> logits_;
  std::vector<float> hidden_states_;
};

}  // namespace pagoda::runtime
