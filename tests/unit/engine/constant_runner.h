#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/runner.h"

namespace pagoda::engine {

/// A runner that computes nothing and, once warm, allocates nothing: what is left of a step is the engine's own.
class ConstantRunner final : public runtime::Runner {
 public:
  struct Size {
    std::int32_t rows = 256;
    std::int64_t context = 1400;
    std::int32_t step_tokens = 8192;
    std::int32_t steps_in_flight = 2;
  };

  /// `on_step` is called on the engine's thread when a step is submitted.
  ConstantRunner(const Size& size, std::function<void(const sched::Batch&)> on_step) : on_step_(std::move(on_step)) {
    info_.groups.push_back({.name = "full",
                            .block_size = 16,
                            .block_count = size.rows * (size.context / 16 + 2),
                            .bytes_per_block = 1,
                            .num_layers = 1});
    info_.vocab = 1000;
    info_.context = size.context;
    info_.max_slots = size.rows;
    info_.max_step_tokens = size.step_tokens;
    info_.steps_in_flight = size.steps_in_flight;
    results_.resize(static_cast<std::size_t>(size.steps_in_flight));
    for (Results& results : results_) results.rows.reserve(static_cast<std::size_t>(size.rows));
  }

  const runtime::RunnerInfo& info() const override { return info_; }
  Status set_slot(std::int32_t, const runtime::SlotSetup&) override { return Ok{}; }
  void clear_slot(std::int32_t) override {}

  Status submit(const sched::Batch& batch) override {
    on_step_(batch);
    Results& results = results_[static_cast<std::size_t>(batch.step) % results_.size()];
    results.step = batch.step;
    results.rows.assign(batch.rows.size(), {});
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      const sched::Row& row = batch.rows[r];
      results.rows[r].slot = row.slot;
      if (row.wants_id) results.rows[r].id = static_cast<std::int32_t>((batch.step + row.slot) % 997);
    }
    return Ok{};
  }

  Result<runtime::StepResult> fetch() override {
    const Results& results = results_[static_cast<std::size_t>(++fetched_) % results_.size()];
    return runtime::StepResult{.step = results.step, .rows = results.rows};
  }

 private:
  struct Results {
    std::int64_t step = 0;
    std::vector<runtime::RowResult> rows;
  };

  runtime::RunnerInfo info_;
  std::function<void(const sched::Batch&)> on_step_;
  std::vector<Results> results_;
  std::int64_t fetched_ = 0;
};

}  // namespace pagoda::engine
