#include "runtime/host_runner.h"

#include <algorithm>
#include <limits>

#include "model/decoder.h"
#include "runtime/decode_graphs.h"
#include "runtime/report_token.h"
#include "runtime/sampler.h"
#include "runtime/step_inputs.h"
#include "runtime/step_results.h"

namespace pagoda::runtime {
namespace {

/// T is the type of activations and logits.
template <class T>
class HostRunner final : public Runner {
 public:
  HostRunner(model::Plan plan, model::Weights weights, CacheStore cache, RunnerInfo info, model::Decoder decoder,
             ThreadPool& pool, std::vector<std::int32_t> never_drawn)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        cache_(std::move(cache)),
        info_(std::move(info)),
        decoder_(std::move(decoder)),
        stream_(pool),
        inputs_(plan_),
        sampler_(info_.vocab, info_.context, info_.max_slots, std::move(never_drawn)),
        results_(info_.vocab, plan_.spec.hidden),
        last_ids_(static_cast<std::size_t>(info_.max_slots), 0),
        graphs_(decoder_, inputs_, plan_.options.max_rows, stream_) {
    for (int worker = 0; worker < pool.num_threads(); ++worker) scratch_.emplace_back(info_.vocab, plan_.caps.isa);
  }

  const RunnerInfo& info() const override { return info_; }

  Status set_slot(std::int32_t slot, const SlotSetup& setup) override { return sampler_.set_slot(slot, setup); }
  void clear_slot(std::int32_t slot) override { sampler_.clear_slot(slot); }

  Status submit(const sched::Batch& batch) override {
    PAGODA_CHECK(batch_ == nullptr, "one step at a time");
    results_.begin(batch, sampler_);  // all that may be short of memory, before the step counts as started
    inputs_.write(batch, results_.wanted_tokens(), last_ids_);
    batch_ = &batch;
    step_ = batch.step;
    const bool decodes = batch.tokens.size() == batch.rows.size();
    if (!decodes || !graphs_.replay(std::ssize(batch.rows), stream_)) decoder_.forward(inputs_.get(), stream_);
    const auto wanted = std::ssize(results_.wanted());
    for (std::int64_t first = 0; first < wanted; first += decoder_.head_rows()) {
      const std::int64_t count = std::min(decoder_.head_rows(), wanted - first);
      decoder_.head(inputs_.get(), first, count, stream_);
      stream_.launch<Slice>([](const Slice& slice, device::HostRange range) { slice.runner->finish(slice, range); },
                            Slice{.runner = this, .first = first}, count);
    }
    for (const RowResult& row : results_.rows()) {
      if (row.id != sched::kNoToken) last_ids_[static_cast<std::size_t>(row.slot)] = row.id;
    }
    return Ok{};
  }

  Result<StepResult> fetch() override {
    PAGODA_CHECK(batch_ != nullptr, "no step is in flight");
    batch_ = nullptr;
    return StepResult{.step = step_, .rows = results_.rows()};
  }

 private:
  /// Wanted tokens [first, first + units), whose logits stand in the decoder's buffer.
  struct Slice {
    HostRunner* runner;
    std::int64_t first;
  };

  void finish(const Slice& slice, device::HostRange range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const WantedToken& token = results_.wanted()[static_cast<std::size_t>(slice.first + i)];
      const sched::Row& row = batch_->rows[static_cast<std::size_t>(token.row)];
      const std::span<const T> logits(decoder_.logits().template row<T>(i), static_cast<std::size_t>(info_.vocab));
      RowScratch<T>& scratch = scratch_[static_cast<std::size_t>(range.worker)];
      if (token.place >= 0) {
        const std::span<const T> hidden(decoder_.hidden().template row<T>(i),
                                        static_cast<std::size_t>(plan_.spec.hidden));
        report_token(*batch_, token, logits, hidden, results_, scratch.draw);
      }
      if (token.draws) {
        sampler_.sample(row.slot, row.end(), logits, scratch, results_.best(token.row), results_.row(token.row));
      }
    }
  }

  model::Plan plan_;
  model::Weights weights_;
  CacheStore cache_;
  RunnerInfo info_;
  model::Decoder decoder_;
  device::HostStream stream_;
  StepInputs inputs_;
  Sampler sampler_;
  StepResults results_;
  std::vector<std::int32_t> last_ids_;  // by slot
  std::vector<RowScratch<T>> scratch_;  // by worker
  DecodeGraphs graphs_;
  const sched::Batch* batch_ = nullptr;  // in flight
  std::int64_t step_ = 0;
};

RunnerInfo info_of(const model::Plan& plan, std::vector<kv::GroupConfig> groups) {
  return {.groups = std::move(groups),
          .vocab = plan.spec.vocab,
          .context = plan.options.context,
          .max_slots = plan.options.max_rows,
          .max_step_tokens = plan.options.max_step_tokens,
          .steps_in_flight = 1};
}

}  // namespace

Result<std::unique_ptr<Runner>> make_host_runner(model::Plan plan, model::Weights weights, ThreadPool& pool,
                                                 device::Device& device, const CacheSize& size,
                                                 std::vector<std::int32_t> never_drawn) {
  PAGODA_CHECK(plan.options.workers == pool.num_threads(), "a plan for {} workers and a pool of {}",
               plan.options.workers, pool.num_threads());
  std::vector<kv::GroupConfig> groups = PAGODA_TRY(size_cache(plan, size));
  CacheStore cache = PAGODA_TRY(CacheStore::create(plan, groups, device));
  model::Decoder decoder = PAGODA_TRY(model::Decoder::prepare(plan, weights, cache.pages(), device));
  RunnerInfo info = info_of(plan, std::move(groups));
  info.memory = PAGODA_TRY(runner_memory(plan, size));
  const bool reference = plan.activation == tensor::DType::kF64;
  const auto make = [&]<class T>() -> std::unique_ptr<Runner> {
    return std::make_unique<HostRunner<T>>(std::move(plan), std::move(weights), std::move(cache), std::move(info),
                                           std::move(decoder), pool, std::move(never_drawn));
  };
  return reference ? make.template operator()<double>() : make.template operator()<float>();
}

Result<RunnerMemory> runner_memory(const model::Plan& plan, const CacheSize& size) {
  RunnerMemory memory;
  memory.cache_bytes = cache_bytes(PAGODA_TRY(size_cache(plan, size)));
  memory.workspace_bytes = plan.activation_bytes + plan.scratch_bytes;
  return memory;
}

}  // namespace pagoda::runtime
