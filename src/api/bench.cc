#include "pagoda/bench.h"

#include <algorithm>
#include <random>

#include "api/bandwidth.h"
#include "api/model_state.h"
#include "base/result.h"

namespace pagoda {
namespace {

using engine::Clock;
using Ids = std::vector<std::int32_t>;
using Jobs = std::vector<std::shared_ptr<engine::Job>>;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// When each id of each job came, taken on the engine's thread.
struct Trace {
  std::vector<std::vector<Clock::time_point>> times;
};

/// One test: `batch` sequences of which `depth` tokens lie in the cache.
class Bench {
 public:
  Bench(const Model::State& model, std::int64_t depth, std::int64_t batch)
      : model_(model), depth_(depth), batch_(batch), random_(static_cast<std::uint32_t>(depth * 131 + batch)) {
    for (std::int64_t i = 0; i < batch; ++i) prefixes_.push_back(random_ids(depth));
  }

  /// Milliseconds of one prefill of `prompt` more tokens of every sequence.
  Result<double> prefill(std::int64_t prompt) {
    PAGODA_TRY(warm_prefixes());
    const Jobs jobs = PAGODA_TRY(start(prompt, 1, nullptr));
    Clock::time_point begin = Clock::time_point::max();
    Clock::time_point end = Clock::time_point::min();
    for (const auto& job : jobs) {
      PAGODA_TRY(wait(*job));
      PAGODA_TRY(check_cached(*job));
      begin = std::min(begin, job->ending().started);
      end = std::max(end, job->ending().first_id);
    }
    return ms_between(begin, end);
  }

  /// Milliseconds a step of decoding, over the steps in which every sequence took part. On a busy machine the first may
  /// end before the last begins: then again, with more steps before they count.
  Result<double> decode(std::int64_t steps) {
    const std::int64_t staggered = batch_ / 8 + 2;  // steps until all prompts are through
    constexpr int kAttempts = 12;
    for (std::int64_t attempt = 0, longer = 1; attempt < kAttempts;
         ++attempt, longer = std::min<std::int64_t>(16, longer * 4)) {
      const double ms = PAGODA_TRY(decode(steps, longer * staggered));
      if (ms > 0) return ms;
    }
    return fail(ErrorCode::kInternal, "no step of this test held all {} sequences", batch_);
  }

  /// The same with so many steps before those that count; 0 if no step held all sequences.
  Result<double> decode(std::int64_t steps, std::int64_t staggered) {
    PAGODA_TRY(warm_prefixes());
    Trace trace;
    const Jobs jobs = PAGODA_TRY(start(1, steps + staggered, &trace));
    Clock::time_point begin = Clock::time_point::min();
    for (const auto& job : jobs) PAGODA_TRY(wait(*job));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      PAGODA_TRY(check_cached(*jobs[i]));
      begin = std::max(begin, trace.times[i].front());
    }
    std::vector<Clock::time_point> after;
    for (const Clock::time_point time : trace.times[0]) {
      if (time > begin) after.push_back(time);
    }
    const auto count = std::min<std::size_t>(after.size(), static_cast<std::size_t>(steps));
    if (count == 0) return 0.0;
    return ms_between(begin, after[count - 1]) / static_cast<double>(count);
  }

 private:
  Ids random_ids(std::int64_t count) {
    Ids ids(static_cast<std::size_t>(count));
    std::uniform_int_distribution<std::int64_t> pick(0, model_.engine->vocab() - 1);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(pick(random_));
    return ids;
  }

  /// Runs the prefixes through the model, so that the cache holds them; what it holds already costs next to nothing.
  Status warm_prefixes() {
    if (depth_ == 0) return Ok{};
    for (const Ids& prefix : prefixes_) {
      const Jobs jobs = PAGODA_TRY(submit({prefix}, 0));
      PAGODA_TRY(wait(*jobs.front()));
    }
    return Ok{};
  }

  Result<Jobs> start(std::int64_t more, std::int64_t max_new, Trace* trace) {
    std::vector<Ids> prompts;
    for (const Ids& prefix : prefixes_) {
      prompts.push_back(prefix);
      const Ids fresh = random_ids(more);
      prompts.back().insert(prompts.back().end(), fresh.begin(), fresh.end());
    }
    return submit(std::move(prompts), max_new, trace);
  }

  Result<Jobs> submit(std::vector<Ids> prompts, std::int64_t max_new, Trace* trace = nullptr) {
    if (trace != nullptr) trace->times.assign(prompts.size(), {});
    Jobs jobs;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      engine::Submission submission;
      submission.prompt = std::move(prompts[i]);
      submission.max_new_tokens = max_new;
      if (trace != nullptr) {
        auto& times = trace->times[i];
        times.reserve(static_cast<std::size_t>(max_new));
        submission.on_id = [&times] { times.push_back(Clock::now()); };
      }
      std::vector<engine::Submission> one;
      one.push_back(std::move(submission));
      jobs.push_back(PAGODA_TRY(model_.engine->submit(std::move(one))).front());
    }
    return jobs;
  }

  static Status wait(const engine::Job& job) {
    while (!job.ended()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (job.ending().error) return *job.ending().error;
    return Ok{};
  }

  /// All of the depth but the block that is computed again must come from the cache, or the figure means another thing.
  Status check_cached(const engine::Job& job) const {
    const std::int64_t cached = job.ending().usage.cached_tokens;
    if (cached >= depth_ - model_.info.block_size) return Ok{};
    return fail(ErrorCode::kCacheCapacity,
                "only {} of {} tokens of depth stayed in the KV cache of {} tokens: --kv-tokens gives it more", cached,
                depth_, model_.info.kv_tokens);
  }

  const Model::State& model_;
  std::int64_t depth_;
  std::int64_t batch_;
  std::mt19937 random_;
  std::vector<Ids> prefixes_;
};

/// A batch whose sequences wait for each other, or a test that the context cuts short, would be another one than its
/// row says.
Status check_room(const Model::State& model, std::int64_t tokens, std::int64_t batch) {
  const ModelInfo& info = model.info;
  if (batch > model.options.max_running) {
    return fail_param(ErrorCode::kInvalidArgument, "batches", "a batch of {} is tested, and {} sequences run at once",
                      batch, model.options.max_running);
  }
  if (tokens > info.context) {
    return fail_param(ErrorCode::kInvalidArgument, "depths",
                      "a test of {} tokens, depth and answer included, is beyond the context of {}", tokens,
                      info.context);
  }
  for (const kv::GroupConfig& group : model.kv_groups) {
    const std::int64_t blocks = batch * group.peak_blocks(tokens, 1);
    if (blocks <= group.block_count) continue;
    return fail(ErrorCode::kCacheCapacity,
                "{} sequences of {} tokens at once need {} tokens of the KV cache's group \"{}\", which has {}: "
                "--kv-tokens or --kv-bytes gives it more",
                batch, tokens, blocks * group.block_size, group.name, group.block_count * group.block_size);
  }
  return Ok{};
}

/// All tests before the first of them runs.
Status check_options(const Model::State& model, const BenchOptions& options) {
  if (options.samples < 1) return fail_param(ErrorCode::kInvalidArgument, "samples", "samples must be at least 1");
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t depth : options.depths) {
      for (const std::int64_t prompt : options.prompts) PAGODA_TRY(check_room(model, depth + prompt + 1, batch));
      if (options.generate > 0) PAGODA_TRY(check_room(model, depth + 1 + options.generate, batch));
    }
  }
  return Ok{};
}

BenchRow row_of(const Model::State& model, std::int64_t depth, std::int64_t batch) {
  const ModelInfo& info = model.info;
  BenchRow row;
  row.model = info.name;
  row.format = info.format;
  row.kv_dtype = info.kv_dtype;
  row.precision = info.device == "reference" ? "exact" : to_string(info.precision);
  row.threads = info.threads;
  row.device = info.device_name;
  row.depth = depth;
  row.batch = batch;
  return row;
}

/// The median of `samples` runs after one that is not counted.
template <class Run>
Result<double> sample(std::int64_t samples, Run run) {
  std::vector<double> times;
  for (std::int64_t i = 0; i <= samples; ++i) {
    const double ms = PAGODA_TRY(run());
    if (i > 0) times.push_back(ms);
  }
  return median(std::move(times));
}

Result<BenchRow> prefill_row(const Model::State& model, std::int64_t prompt, std::int64_t depth, std::int64_t batch,
                             std::int64_t samples) {
  BenchRow row = row_of(model, depth, batch);
  row.test = "prefill";
  row.prompt = prompt;
  row.samples = samples;
  Bench bench(model, depth, batch);
  row.ms_per_step = PAGODA_TRY(sample(samples, [&] { return bench.prefill(prompt); }));
  row.tok_s = 1000.0 * static_cast<double>(prompt * batch) / row.ms_per_step;
  return row;
}

Result<BenchRow> decode_row(const Model::State& model, std::int64_t steps, std::int64_t depth, std::int64_t batch,
                            std::int64_t samples, double bandwidth) {
  BenchRow row = row_of(model, depth, batch);
  row.test = "decode";
  row.samples = samples;
  Bench bench(model, depth, batch);
  row.ms_per_step = PAGODA_TRY(sample(samples, [&] { return bench.decode(steps); }));
  row.tok_s = 1000.0 * static_cast<double>(batch) / row.ms_per_step;
  row.bytes_per_step = static_cast<double>(model.step_weight_bytes + batch * model.kv_bytes_at(depth + steps / 2 + 1));
  if (bandwidth > 0) row.bandwidth_share = row.bytes_per_step / (row.ms_per_step / 1000) / bandwidth;
  return row;
}

/// Of the device that the model runs on, in bytes a second; 0 if it has no room to be measured.
double memory_bandwidth(const Model::State& state) {
  if (state.device->caps().kind != device::DeviceKind::kCuda) return api::measure_read_bandwidth(state.info.threads);
  const Result<double> measured = api::measure_copy_bandwidth(device::cuda::cuda(*state.device));
  return measured.ok() ? *measured : 0;
}

}  // namespace

Result<std::vector<BenchRow>> bench(const Model& model, const BenchOptions& options,
                                    const std::function<void(const BenchRow&)>& on_row) {
  const Model::State& state = *model.state();
  if (state.engine == nullptr) {
    return fail(ErrorCode::kUnsupportedArgument, "{} was opened without weights", state.info.path);
  }
  PAGODA_TRY(check_options(state, options));
  const double bandwidth = options.generate > 0 ? memory_bandwidth(state) : 0;
  std::vector<BenchRow> rows;
  const auto add = [&](BenchRow row) {
    if (on_row) on_row(row);
    rows.push_back(std::move(row));
  };
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t depth : options.depths) {
      for (const std::int64_t prompt : options.prompts) {
        add(PAGODA_TRY(prefill_row(state, prompt, depth, batch, options.samples)));
      }
      if (options.generate == 0) continue;
      add(PAGODA_TRY(decode_row(state, options.generate, depth, batch, options.samples, bandwidth)));
    }
  }
  return rows;
}

}  // namespace pagoda
