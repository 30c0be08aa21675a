#include "runtime/cuda_runner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/numbers.h"
#include "model/decoder.h"
#include "runtime/cuda_graphs.h"
#include "runtime/device_inputs.h"
#include "runtime/device_sampler.h"
#include "runtime/report_token.h"
#include "runtime/step_results.h"
#include "runtime/tuning.h"

namespace pagoda::runtime {
namespace {

using device::cuda::CudaDevice;
using device::cuda::CudaStream;
using device::cuda::DeviceError;
using device::cuda::PinnedBytes;
using kernels::CudaSampleBest;
using kernels::CudaSampleResult;
using kernels::CudaSampleRow;

constexpr std::size_t kInFlight = 2;

/// Pinned memory of `count` elements.
template <class T>
Result<PinnedBytes> pinned(CudaDevice& device, std::int64_t count) {
  return PinnedBytes::create(device.context(), count * static_cast<std::int64_t>(sizeof(T)));
}

class CudaRunner final : public Runner {
 public:
  static Result<std::unique_ptr<Runner>> make(model::Plan plan, model::Weights weights, CudaDevice& device,
                                              const CacheSize& size, std::vector<std::int32_t> never_drawn);

  const RunnerInfo& info() const override { return info_; }

  Status set_slot(std::int32_t slot, const SlotSetup& setup) override {
    return guarded([&]() -> Status { return sampler_->set_slot(slot, setup, stream_); });
  }
  void clear_slot(std::int32_t) override {}  // nothing of a slot is read before it is set again

  Status submit(const sched::Batch& batch) override {
    return guarded([&]() -> Status {
      start(batch);
      ++submitted_;  // a step that could not be started is not fetched
      return Ok{};
    });
  }

  Result<StepResult> fetch() override {
    if (lost_) return *lost_;
    PAGODA_CHECK(fetched_ < submitted_, "no step is in flight");
    Flight& flight = flights_[fetched_++ % kInFlight];
    PAGODA_TRY(guarded([&]() -> Status {
      read(flight);
      return Ok{};
    }));
    return StepResult{.step = flight.step, .rows = flight.results->rows()};
  }

 private:
  /// A step between submit and fetch.
  struct Flight {
    std::int64_t step = 0;
    std::optional<StepResults> results;
    std::vector<CudaSampleRow> rows;   // one a wanted token
    std::optional<PinnedBytes> drawn;  // CudaSampleResult, one a wanted token
    std::optional<PinnedBytes> best;   // CudaSampleBest, kSampleMaxBest a wanted token
    std::optional<PinnedBytes> sample_rows;
    bool wants_best = false;
  };

  CudaRunner(model::Plan plan, model::Weights weights, CudaDevice& device)
      : plan_(std::move(plan)), weights_(std::move(weights)), device_(device), stream_(device.context()) {}

  /// A device that failed is the step's error, and all later ones'.
  template <class Body>
  Status guarded(Body&& body) {
    if (lost_) return *lost_;
    try {
      device_.context()->make_current();
      return body();
    } catch (const DeviceError& error) {
      lost_ = error.error();
      return *lost_;
    }
  }

  void start(const sched::Batch& batch);
  void list_rows(const sched::Batch& batch, Flight& flight) const;
  void sample(Flight& flight, std::int64_t first, std::int64_t count, std::int64_t padded);
  void report_logits(const sched::Batch& batch, Flight& flight, std::int64_t first, std::int64_t count);
  void read(Flight& flight);
  Status allocate(const CacheSize& size, std::vector<std::int32_t> never_drawn);
  Status take_buffers(std::vector<std::int32_t> never_drawn);
  void capture(std::int64_t rows);
  sched::Batch first_batch(std::int64_t rows, std::int64_t count) const;
  void run_everything_once(std::int64_t captured);

  model::Plan plan_;
  model::Weights weights_;
  CudaDevice& device_;
  CudaStream stream_;
  RunnerInfo info_;
  CacheStore cache_;
  std::optional<model::Decoder> decoder_;
  std::optional<DeviceInputs> inputs_;
  device::Memory sample_memory_;
  std::optional<DeviceSampler> sampler_;
  CudaGraphs graphs_;
  std::array<Flight, kInFlight> flights_;
  std::optional<PinnedBytes> logits_;  // of a slice, for who wants them whole
  std::optional<kernels::DrawScratch> scratch_;
  std::size_t submitted_ = 0, fetched_ = 0;
  std::optional<Error> lost_;
};

bool wants_logits(const sched::Row& row) {
  return row.want == sched::Want::kLogits || row.want == sched::Want::kHidden;
}

void CudaRunner::start(const sched::Batch& batch) {
  PAGODA_CHECK(submitted_ - fetched_ < kInFlight, "{} steps are in flight", submitted_ - fetched_);
  Flight& flight = flights_[submitted_ % kInFlight];
  flight.step = batch.step;
  flight.results->begin(batch, *sampler_);
  list_rows(batch, flight);
  const auto rows = std::ssize(batch.rows);
  const std::span<const std::int64_t> wanted = flight.results->wanted_tokens();
  const auto count = std::ssize(wanted);
  // A captured step computes the logits of each row; so it serves where each row wants just those.
  const bool decodes = std::ssize(batch.tokens) == rows && count == rows;
  const std::int64_t bucket = decodes ? graphs_.bucket(rows) : 0;
  inputs_->write(batch, wanted, bucket, stream_);
  if (bucket > 0) {
    graphs_.launch(bucket, stream_);
    sample(flight, 0, count, bucket);
    report_logits(batch, flight, 0, count);
    return;
  }
  decoder_->forward(inputs_->get(), stream_);
  for (std::int64_t first = 0; first < count; first += decoder_->head_rows()) {
    const std::int64_t part = std::min(decoder_->head_rows(), count - first);
    decoder_->head(inputs_->get(), first, part, stream_);
    sample(flight, first, part, part);
    report_logits(batch, flight, first, part);
  }
}

void CudaRunner::list_rows(const sched::Batch& batch, Flight& flight) const {
  flight.rows.clear();
  flight.wants_best = false;
  for (const WantedToken& token : flight.results->wanted()) {
    const sched::Row& row = batch.rows[static_cast<std::size_t>(token.row)];
    const bool reports = token.place >= 0 && row.want == sched::Want::kPromptLogprobs;
    const std::int64_t at = row.token_offset + row.want_from + token.place;
    const std::int32_t target = reports ? batch.targets[static_cast<std::size_t>(at)] : -1;
    flight.rows.push_back(sampler_->row(row.slot, row.end(), token.draws, reports, target));
    flight.wants_best = flight.wants_best || flight.rows.back().num_best > 0;
  }
}

/// Samples `count` rows of logits, those of wanted tokens from `first` on, and starts the way back of what comes of it.
void CudaRunner::sample(Flight& flight, std::int64_t first, std::int64_t count, std::int64_t padded) {
  auto* const staged = reinterpret_cast<CudaSampleRow*>(flight.sample_rows->host()) + first;
  SampleDepth depth = SampleDepth::kGreedy;
  for (std::int64_t i = 0; i < count; ++i) {
    staged[i] = flight.rows[static_cast<std::size_t>(first + i)];
    const bool plain = staged[i].num_best < 0 && staged[i].target < 0 && sampler_->plain(staged[i].slot);
    if (!plain) depth = SampleDepth::kFull;
  }
  for (std::int64_t i = count; i < padded; ++i) staged[i] = DeviceSampler::kPadding;
  constexpr auto kRow = static_cast<std::int64_t>(sizeof(CudaSampleRow));
  constexpr auto kResult = static_cast<std::int64_t>(sizeof(CudaSampleResult));
  constexpr auto kBest = static_cast<std::int64_t>(sizeof(CudaSampleBest)) * kernels::kSampleMaxBest;
  flight.sample_rows->upload(first * kRow, padded * kRow, sampler_->rows(), stream_);
  const tensor::MatrixView& logits = decoder_->logits();
  sampler_->launch(stream_, static_cast<const float*>(logits.data), logits.stride, padded, depth);
  flight.drawn->download(first * kResult, count * kResult, sampler_->results(), stream_);
  if (flight.wants_best) flight.best->download(first * kBest, count * kBest, sampler_->best(), stream_);
}

/// For rows that want whole logits or hidden states: waits for the device and reads them.
void CudaRunner::report_logits(const sched::Batch& batch, Flight& flight, std::int64_t first, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(info_.vocab);
  const auto hidden = static_cast<std::size_t>(plan_.spec.hidden);
  for (std::int64_t i = 0; i < count; ++i) {
    const WantedToken& token = flight.results->wanted()[static_cast<std::size_t>(first + i)];
    const sched::Row& row = batch.rows[static_cast<std::size_t>(token.row)];
    if (token.place < 0 || !wants_logits(row)) continue;
    const tensor::MatrixView& view = row.want == sched::Want::kLogits ? decoder_->logits() : decoder_->hidden();
    const std::int64_t bytes = view.cols * tensor::size_of(view.dtype);
    logits_->download(
        0, bytes, static_cast<const std::byte*>(view.data) + i * view.stride * tensor::size_of(view.dtype), stream_);
    const std::byte* const values = logits_->host();
    if (row.want == sched::Want::kLogits) {
      report_token(batch, token, std::span(reinterpret_cast<const float*>(values), vocab), std::span<const float>(),
                   *flight.results, *scratch_);
      continue;
    }
    std::vector<float> wide(hidden);
    const bool half = view.dtype == tensor::DType::kF16;
    std::ranges::transform(std::span(reinterpret_cast<const std::uint16_t*>(values), hidden), wide.begin(),
                           [&](std::uint16_t value) { return half ? f16_to_float(value) : bf16_to_float(value); });
    report_token(batch, token, std::span<const float>(), std::span<const float>(wide), *flight.results, *scratch_);
  }
}

/// Waits for the step's results and hands them to its rows.
void CudaRunner::read(Flight& flight) {
  const std::span<const WantedToken> wanted = flight.results->wanted();
  const auto* const drawn = reinterpret_cast<const CudaSampleResult*>(flight.drawn->host());
  const auto* const best = reinterpret_cast<const CudaSampleBest*>(flight.best->host());
  const auto copy_best = [&](std::size_t token, std::span<TokenLogprob> to) {
    const CudaSampleBest* from = best + token * static_cast<std::size_t>(kernels::kSampleMaxBest);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = {.id = from[i].id, .logprob = from[i].logprob};
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const WantedToken& token = wanted[i];
    if (token.draws) {
      RowResult& row = flight.results->row(token.row);
      row.non_finite = drawn[i].non_finite != 0;
      if (!row.non_finite) row.id = drawn[i].id;
      row.logprob = drawn[i].logprob;
      const std::span<TokenLogprob> kept = flight.results->best(token.row);
      copy_best(i, kept);
      row.best = kept;
    }
    if (token.place >= 0 && !flight.results->row(token.row).target_logprobs.empty()) {
      flight.results->target_logprob(token) = flight.rows[i].target >= 0 ? drawn[i].target_logprob : 0;
      copy_best(i, flight.results->target_best(token));
    }
  }
}

/// In the order of the memory: what has a fixed size; addresses for the largest cache, and its first blocks; each
/// captured step and a full chunk once (which loads all code, grows local memory and makes the libraries take theirs);
/// capture; and the rest of the cache of what is then free.
Status CudaRunner::allocate(const CacheSize& size, std::vector<std::int32_t> never_drawn) {
  const bool given = size.tokens > 0 || size.bytes > 0;
  const std::vector<kv::GroupConfig> most = PAGODA_TRY(
      given ? size_cache(plan_, size) : fill_cache(plan_, std::max(device_.caps().gpu.memory_bytes, kMemoryReserve)));
  cache_ = PAGODA_TRY(CacheStore::reserve(plan_, most, device_));
  std::vector<kv::GroupConfig> first = most;
  for (kv::GroupConfig& group : first) {
    group.block_count = std::min(group.block_count, group.blocks_for(plan_.options.max_step_tokens));
  }
  PAGODA_TRY(cache_.grow(first, device_));
  decoder_.emplace(PAGODA_TRY(model::Decoder::prepare(plan_, weights_, cache_.pages(), device_)));
  info_ = {.groups = std::move(first),
           .vocab = plan_.spec.vocab,
           .context = plan_.options.context,
           .max_slots = plan_.options.max_rows,
           .max_step_tokens = plan_.options.max_step_tokens,
           .steps_in_flight = static_cast<std::int32_t>(kInFlight),
           .memory = {}};
  PAGODA_TRY(take_buffers(std::move(never_drawn)));
  // A captured step has its tokens and all their logits at once.
  const std::int64_t rows =
      std::min<std::int64_t>({plan_.options.max_rows, plan_.options.max_step_tokens, decoder_->head_rows()});
  const std::int64_t free_before = device_.context()->free_bytes();
  run_everything_once(rows);
  // Deterministic attention has a list of work for each step, which a captured one does not.
  if (!plan_.options.deterministic) capture(rows);
  stream_.synchronize();
  const std::int64_t free_after = device_.context()->free_bytes();
  info_.memory.graph_bytes = std::max<std::int64_t>(0, free_before - free_after);
  info_.groups =
      given ? most
            : PAGODA_TRY(fill_cache(plan_, std::max<std::int64_t>(0, free_after + cache_.bytes() - kMemoryReserve)));
  for (std::size_t g = 0; g < most.size(); ++g) {
    info_.groups[g].block_count = std::min(info_.groups[g].block_count, most[g].block_count);
  }
  PAGODA_TRY(cache_.grow(info_.groups, device_));
  info_.memory.cache_bytes = cache_.bytes();
  info_.memory.free_bytes = device_.context()->free_bytes();
  return Ok{};
}

void CudaRunner::capture(std::int64_t rows) {
  graphs_ = CudaGraphs(*decoder_, *inputs_, rows, stream_);
  if (!plan_.options.tune || device_.caps().gpu.compute() < 90) return;
  stream_.set_programmatic(false);
  CudaGraphs ordinary(*decoder_, *inputs_, rows, stream_);
  stream_.set_programmatic(true);
  const std::array<const CudaGraphs*, 2> variants = {&graphs_, &ordinary};
  Tuned tuned = tune(plan_, variants, device_, stream_);
  if (tuned.launch == StepLaunch::kOrdinary) graphs_ = std::move(ordinary);
  info_.tuning = std::move(tuned.reason);
}

/// What a step reads and leaves, but the cache.
Status CudaRunner::take_buffers(std::vector<std::int32_t> never_drawn) {
  const std::int64_t before = device_.allocated_bytes();
  const std::int64_t rows =
      std::min<std::int64_t>({plan_.options.max_rows, plan_.options.max_step_tokens, decoder_->head_rows()});
  inputs_.emplace(PAGODA_TRY(DeviceInputs::create(plan_, device_, CudaGraphs::buckets(rows).back())));
  const SampleLayout layout = PAGODA_TRY(SampleLayout::of({.vocab = info_.vocab,
                                                           .slots = info_.max_slots,
                                                           .rows = decoder_->head_rows(),
                                                           .never_drawn = std::move(never_drawn)}));
  sample_memory_ = PAGODA_TRY(device_.allocate(layout.bytes, "the sampler's state"));
  SampleKernels sample_kernels = PAGODA_TRY(SampleKernels::load(device_, device_.caps().gpu));
  sampler_.emplace(
      PAGODA_TRY(DeviceSampler::create(layout, std::move(sample_kernels), sample_memory_.data(), stream_)));
  inputs_->set_last_ids(sampler_->last_ids());
  const std::int64_t wanted = plan_.options.max_step_tokens;
  for (Flight& flight : flights_) {
    flight.results.emplace(info_.vocab, plan_.spec.hidden);
    flight.drawn.emplace(PAGODA_TRY(pinned<CudaSampleResult>(device_, wanted)));
    flight.best.emplace(PAGODA_TRY(pinned<CudaSampleBest>(device_, wanted * kernels::kSampleMaxBest)));
    flight.sample_rows.emplace(PAGODA_TRY(pinned<CudaSampleRow>(device_, wanted)));
  }
  logits_.emplace(PAGODA_TRY(pinned<float>(device_, std::max(info_.vocab, plan_.spec.hidden))));
  scratch_.emplace(info_.vocab);
  info_.memory.workspace_bytes = device_.allocated_bytes() - before + plan_.activation_bytes + plan_.scratch_bytes;
  return Ok{};
}

/// Rows of `count` tokens from position 0 on, all in the first blocks.
sched::Batch CudaRunner::first_batch(std::int64_t rows, std::int64_t count) const {
  sched::Batch batch;
  batch.groups.resize(info_.groups.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    batch.rows.push_back({.slot = static_cast<std::int32_t>(row),
                          .sequence = row,
                          .count = static_cast<std::int32_t>(count),
                          .token_offset = row * count});
  }
  batch.tokens.assign(static_cast<std::size_t>(rows * count), 0);
  for (std::size_t g = 0; g < batch.groups.size(); ++g) {
    const kv::GroupConfig& group = info_.groups[g];
    batch.groups[g].table_begin.push_back(0);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (kv::BlockId block = 0; block < group.blocks_for(count); ++block) {
        batch.groups[g].block_tables.push_back(block);
      }
      batch.groups[g].table_begin.push_back(std::ssize(batch.groups[g].block_tables));
      for (std::int64_t token = 0; token < count; ++token) batch.groups[g].write_slots.push_back(token);
    }
  }
  return batch;
}

void CudaRunner::run_everything_once(std::int64_t captured) {
  std::int64_t count = std::min<std::int64_t>(plan_.options.max_step_tokens, plan_.options.context);
  for (const kv::GroupConfig& group : info_.groups) count = std::min(count, group.block_count * group.block_size);
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(std::max(count, captured)));
  std::iota(wanted.begin(), wanted.end(), 0);
  const auto first = [&](std::int64_t tokens) { return std::span(wanted).first(static_cast<std::size_t>(tokens)); };
  inputs_->write(first_batch(1, count), first(count), 0, stream_);
  decoder_->forward(inputs_->get(), stream_);
  const std::int64_t head_rows = std::min(decoder_->head_rows(), count);
  decoder_->head(inputs_->get(), 0, head_rows, stream_);
  if (count > 1) {  // a step whose last layer leaves tokens behind
    inputs_->write(first_batch(1, 2), first(1), 0, stream_);
    decoder_->forward(inputs_->get(), stream_);
  }
  // Deterministic steps run the same code whatever their rows.
  const std::int64_t most = plan_.options.deterministic ? 0 : captured;
  for (const std::int64_t rows : CudaGraphs::buckets(most)) {
    inputs_->write(first_batch(rows, 1), first(rows), rows, stream_);
    decoder_->forward(inputs_->get(), stream_);
    decoder_->head(inputs_->get(), 0, rows, stream_);
  }
  Flight& flight = flights_.front();
  flight.rows.assign(1, DeviceSampler::kPadding);
  *reinterpret_cast<CudaSampleRow*>(flight.sample_rows->host()) = DeviceSampler::kPadding;
  flight.sample_rows->upload(0, sizeof(CudaSampleRow), sampler_->rows(), stream_);
  const tensor::MatrixView& logits = decoder_->logits();
  sampler_->launch(stream_, static_cast<const float*>(logits.data), logits.stride, 1, SampleDepth::kFull);
  stream_.synchronize();
}

Result<std::unique_ptr<Runner>> CudaRunner::make(model::Plan plan, model::Weights weights, CudaDevice& device,
                                                 const CacheSize& size, std::vector<std::int32_t> never_drawn) {
  std::unique_ptr<CudaRunner> runner(new CudaRunner(std::move(plan), std::move(weights), device));
  PAGODA_TRY(runner->guarded([&] { return runner->allocate(size, std::move(never_drawn)); }));
  return std::unique_ptr<Runner>(std::move(runner));
}

}  // namespace

Result<std::unique_ptr<Runner>> make_cuda_runner(model::Plan plan, model::Weights weights, CudaDevice& device,
                                                 const CacheSize& cache, std::vector<std::int32_t> never_drawn) {
  return CudaRunner::make(std::move(plan), std::move(weights), device, cache, std::move(never_drawn));
}

std::vector<device::CompileUnit> cuda_runner_units(const model::Plan& plan) {
  std::vector<device::CompileUnit> units = model::units(plan);
  units.push_back(DeviceInputs::unit(plan.caps));
  units.push_back(SampleKernels::unit(plan.caps.gpu));
  return units;
}

}  // namespace pagoda::runtime
