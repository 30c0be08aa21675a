// Sampling on a GPU against the host's Sampler: the same ids, for thousands of rows and settings over several steps;
// then the time of a step. `small`: few rows, for a memory checker. Ends with 1 if a check fails.
#include <atomic>
#include <cstring>
#include <thread>

#include "gpu_bench.h"
#include "runtime/device_sampler.h"

namespace pagoda::bench {
namespace {

using namespace kernels;  // NOLINT: a bench's own file
using runtime::SampleDepth;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Random {
  std::mt19937 engine;
  std::uint32_t below(std::int64_t n) { return static_cast<std::uint32_t>(engine() % static_cast<std::uint64_t>(n)); }
  template <class T, std::size_t N>
  T of(const T (&list)[N]) {
    return list[below(N)];
  }
};

/// Normal numbers, made once; rows are cut from anywhere in it.
const std::vector<float>& normals() {
  static const std::vector<float> values = [] {
    std::mt19937 random(77);
    return random_floats(random, 3'000'017);
  }();
  return values;
}

std::int32_t any_id(Random& random, std::int64_t vocab) { return static_cast<std::int32_t>(random.below(vocab)); }

void fill_row(Random& random, std::span<float> row) {
  const std::vector<float>& pool = normals();
  const auto vocab = static_cast<std::int64_t>(row.size());
  const float spreads[] = {2.5f, 2.5f, 2.5f, 1, 8, 0.1f, 0.01f, 100};
  const float spread = random.of(spreads);
  const float mean = static_cast<float>(random.below(40)) - 20;
  const std::size_t from = random.below(static_cast<std::int64_t>(pool.size()));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = pool[(from + i) % pool.size()] * spread + mean;
  switch (random.below(12)) {
    case 0:  // ties
      for (float& logit : row) logit = std::round(logit * 2) / 2;
      break;
    case 1:
      std::ranges::fill(row, mean);
      break;
    case 2:  // one far above all
      row[static_cast<std::size_t>(any_id(random, vocab))] = 4e4f;
      break;
    case 3:  // masked by the model
      for (std::size_t i = random.below(2); i < row.size(); i += 2 + random.below(2)) row[i] = -kInfinity;
      break;
    case 4: {
      const float bad[] = {std::nanf(""), -std::nanf(""), kInfinity};
      row[static_cast<std::size_t>(any_id(random, vocab))] = random.of(bad);
      break;
    }
    case 5:
      if (random.below(3) == 0) std::ranges::fill(row, -kInfinity);
      for (float& logit : row) logit = -std::fabs(logit) * 0;  // minus zero and zero are equal
      row[static_cast<std::size_t>(any_id(random, vocab))] = 0;
      break;
    default:  // some likely ones
      for (int i = 0; i < 9; ++i) row[static_cast<std::size_t>(any_id(random, vocab))] += 8 + static_cast<float>(i);
  }
}

/// A request that a slot is set up for, and what it points to.
struct Request {
  SamplingParams sampling;
  std::vector<std::int32_t> tokens, end_ids;
  runtime::SlotSetup setup;
  std::int64_t position = 0;

  Request(Random& random, std::int64_t vocab) {
    const float temperatures[] = {0, 1e-31f, 1e-20f, 0.05f, 0.3f, 0.7f, 1, 1, 1, 1.5f, 3, 100};
    const std::int32_t ks[] = {0, 0, 0, 1, 2, 5, 40, 50, 1000, 5000, 1 << 30};
    const float ps[] = {1, 1, 0.95f, 0.9f, 0.5f, 0.1f, 1e-6f, 0.999f, 0.9999999f};
    const float min_ps[] = {0, 0, 0, 0.05f, 1, 1e-4f, 1e-9f};
    sampling.temperature = random.of(temperatures);
    sampling.top_k = random.of(ks);
    sampling.top_p = random.of(ps);
    sampling.min_p = random.of(min_ps);
    if (random.below(3) == 0) {
      const float repetitions[] = {1, 1.1f, 2, 0.7f};
      const float others[] = {0, 0.5f, -2, 2, 1.3f};
      sampling.repetition_penalty = random.of(repetitions);
      sampling.presence_penalty = random.of(others);
      sampling.frequency_penalty = random.of(others);
    }
    if (random.below(4) == 0) {
      const std::int64_t counts[] = {1, 3, 30, 1000};
      std::vector<bool> named(static_cast<std::size_t>(vocab));
      for (std::int64_t i = std::min(random.of(counts), vocab); i > 0; --i) {
        const std::int32_t id = any_id(random, vocab);
        const float biases[] = {-100, 100, 1.5f, -3, 0};
        if (!named[static_cast<std::size_t>(id)]) sampling.logit_bias.emplace_back(id, random.of(biases));
        named[static_cast<std::size_t>(id)] = true;
      }
    }
    if (random.below(4) == 0) sampling.min_tokens = random.below(4);
    const std::int32_t bests[] = {0, 1, 5, 20, 128};
    if (random.below(2) == 0) {
      sampling.logprobs = std::min(random.of(bests), static_cast<std::int32_t>(vocab));
    }
    for (std::int64_t i = 1 + random.below(90); i > 0; --i) tokens.push_back(any_id(random, vocab));
    for (std::int64_t i = random.below(4); i > 0; --i) end_ids.push_back(any_id(random, vocab));
    setup = {.sampling = nullptr,
             .seed = random.engine() * std::uint64_t{0x100000001},
             .choice = static_cast<std::int32_t>(random.below(3)),
             .tokens = {},
             .prompt_tokens = std::max<std::int64_t>(0, std::ssize(tokens) - random.below(3)),
             .end_ids = {},
             .prompt_best = std::min(random.of(bests), static_cast<std::int32_t>(vocab))};
    position = std::ssize(tokens) + (random.below(9) == 0 ? std::int64_t{1} << 33 : 0);
  }

  runtime::SlotSetup pointing() {
    setup.sampling = &sampling;
    setup.tokens = tokens;
    setup.end_ids = end_ids;
    return setup;
  }
};

/// What the host finds for a row.
struct Expected {
  runtime::RowResult result;
  std::vector<TokenLogprob> best, target_best;
  float target_logprob = 0;
};

struct Outputs {
  std::vector<CudaSampleResult> results;
  std::vector<CudaSampleBest> best;
  std::vector<std::int32_t> last_ids;
};

bool close(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(static_cast<double>(got) - static_cast<double>(want)) <=
         1e-6 * std::fabs(static_cast<double>(want)) + 1e-11;
}

/// How many blocks a multiprocessor shall take; 0: as the runtime has it.
struct Variant {
  int min_blocks = 0, blocks_per_sm = 0;
  std::string define() const { return pagoda::format("MIN_BLOCKS={}", min_blocks); }
};

class SampleCheck {
 public:
  SampleCheck(GpuBench& bench, std::int64_t vocab, std::int32_t slots, std::int64_t rows, std::int64_t stride,
              const Variant& variant = {})
      : bench_(bench),
        layout_(must(runtime::SampleLayout::of({.vocab = vocab, .slots = slots, .rows = rows}))),
        stride_(stride),
        memory_(bench.memory(layout_.bytes)),
        logits_device_(bench.memory(rows * stride * 4)),
        logits_staging_(must(PinnedBytes::create(bench.context_ptr(), rows * stride * 4))),
        row_staging_(must(PinnedBytes::create(bench.context_ptr(), rows * 64))),
        output_staging_(must(PinnedBytes::create(bench.context_ptr(), rows * (64 + kSampleMaxBest * 8) + slots * 4))),
        sampler_(must(runtime::DeviceSampler::create(layout_, load(bench, variant), memory_.data(), bench.stream()))),
        host_(vocab, 4096, slots) {}

  struct Loader {
    GpuBench& bench;
    template <class P>
    Result<Kernel<P>> kernel(const device::CompileUnit& unit, const std::string& name) {
      return bench.kernel<P>(unit, name.c_str());
    }
  };
  static runtime::SampleKernels load(GpuBench& bench, const Variant& variant) {
    Loader loader{bench};
    if (variant.min_blocks == 0) return must(runtime::SampleKernels::load(loader, bench.context().caps()));
    const device::CompileUnit unit = bench.unit("kernels/sample/cuda_sample.cu", {variant.define()});
    return {.extremes = bench.kernel<CudaSampleParams>(unit, "sample_extremes"),
            .weigh = bench.kernel<CudaSampleParams>(unit, "sample_weigh"),
            .select = bench.kernel<CudaSampleParams>(unit, "sample_select"),
            .blocks_per_sm = variant.blocks_per_sm};
  }

  void set_slot(std::int32_t slot, Request& request, std::uint64_t device_seed_change = 0) {
    runtime::SlotSetup setup = request.pointing();
    must_do(host_.set_slot(slot, setup));
    setup.seed += device_seed_change;
    must_do(sampler_.set_slot(slot, setup, bench_.stream()));
  }

  void set_logits(const std::vector<float>& logits) {
    std::memcpy(logits_staging_.host(), logits.data(), logits.size() * 4);
    logits_staging_.upload(0, static_cast<std::int64_t>(logits.size()) * 4, logits_device_.data(), bench_.stream());
  }

  void set_rows(const std::vector<CudaSampleRow>& rows) {
    const auto bytes = static_cast<std::int64_t>(rows.size() * sizeof(CudaSampleRow));
    std::memcpy(row_staging_.host(), rows.data(), static_cast<std::size_t>(bytes));
    row_staging_.upload(0, bytes, sampler_.rows(), bench_.stream());
  }

  void launch(std::int64_t rows, SampleDepth depth, std::int64_t first = 0) {
    sampler_.launch(bench_.stream(), logits() + first * stride_, stride_, rows, depth);
  }
  Graph capture(std::int64_t rows, SampleDepth depth, int times = 1) {
    GraphCapture capture(bench_.stream());
    for (int i = 0; i < times; ++i) launch(rows, depth);
    return capture.finish();
  }

  void poison() {
    const auto set = [&](const void* at, std::int64_t bytes) {
      bench_.context().driver().check(
          bench_.context().api().set_bytes_async(reinterpret_cast<DeviceAddress>(at), 0xff,
                                                 static_cast<std::size_t>(bytes), bench_.stream().handle()),
          "poisoning");
    };
    set(sampler_.results(), layout_.size.rows * 16);
    set(sampler_.best(), layout_.size.rows * kSampleMaxBest * 8);
  }

  Outputs outputs(std::int64_t rows, bool best = true) {
    Outputs out{.results = std::vector<CudaSampleResult>(static_cast<std::size_t>(rows)),
                .best = std::vector<CudaSampleBest>(static_cast<std::size_t>(best ? rows * kSampleMaxBest : 0)),
                .last_ids = std::vector<std::int32_t>(static_cast<std::size_t>(layout_.size.slots))};
    fetch(out.results, sampler_.results(), 0);
    const auto second = static_cast<std::int64_t>(out.results.size() * 16);
    fetch(out.best, sampler_.best(), second);
    const auto third = second + static_cast<std::int64_t>(out.best.size() * 8);
    fetch(out.last_ids, sampler_.last_ids(), third);
    const std::byte* host = output_staging_.host();
    std::memcpy(out.results.data(), host, out.results.size() * 16);
    if (best) std::memcpy(out.best.data(), host + second, out.best.size() * 8);
    std::memcpy(out.last_ids.data(), host + third, out.last_ids.size() * 4);
    return out;
  }

  const float* logits() const { return reinterpret_cast<const float*>(logits_device_.data()); }
  runtime::DeviceSampler& device() { return sampler_; }
  runtime::Sampler& host() { return host_; }
  std::int64_t vocab() const { return layout_.size.vocab; }
  CudaStream& stream() { return bench_.stream(); }

 private:
  template <class T>
  void fetch(std::vector<T>& out, const T* from, std::int64_t at) {
    if (!out.empty()) {
      output_staging_.download(at, static_cast<std::int64_t>(out.size() * sizeof(T)), from, bench_.stream());
    }
  }

  GpuBench& bench_;
  runtime::SampleLayout layout_;
  std::int64_t stride_;
  AddressRange memory_, logits_device_;
  PinnedBytes logits_staging_, row_staging_, output_staging_;
  runtime::DeviceSampler sampler_;
  runtime::Sampler host_;
};

Expected expect(SampleCheck& check, const CudaSampleRow& row, bool reports, std::span<const float> logits,
                runtime::RowScratch<float>& scratch) {
  Expected expected;
  if (reports) {
    expected.target_best.resize(static_cast<std::size_t>(check.host().num_prompt_best(row.slot)));
    const RowSummary summary = summarize(logits, scratch.draw.isa);
    if (!summary.finite) {
      expected.target_logprob = std::nanf("");
      std::ranges::fill(expected.target_best, TokenLogprob{.id = -1, .logprob = std::nanf("")});
    } else {
      const double log_sum = log_sum_exp(logits, summary.max, scratch.draw.isa);
      if (row.target >= 0) {
        const double target = static_cast<double>(logits[static_cast<std::size_t>(row.target)]);
        expected.target_logprob = static_cast<float>(target - log_sum);
      }
      best_tokens(logits, log_sum, std::span(expected.target_best), scratch.draw);
    }
  }
  if (row.draws != 0) {
    expected.result.id = -1;
    expected.best.resize(static_cast<std::size_t>(std::max(0, check.host().num_best(row.slot))));
    check.host().sample(row.slot, row.position, logits, scratch, std::span(expected.best), expected.result);
  }
  return expected;
}

/// The first thing that differs; empty if none does.
std::string difference(const CudaSampleRow& row, bool reports, const Expected& want, const CudaSampleResult& got,
                       std::span<const CudaSampleBest> best, std::int32_t last_id, bool wants_logprob) {
  if (row.draws != 0) {
    if (got.id != want.result.id) return pagoda::format("id {} and not {}", got.id, want.result.id);
    if ((got.non_finite != 0) != want.result.non_finite) return pagoda::format("non_finite {}", got.non_finite);
    if (got.id >= 0 && last_id != got.id) return pagoda::format("last id {} after {}", last_id, got.id);
    if (got.id >= 0 && wants_logprob && !close(got.logprob, want.result.logprob)) {
      return pagoda::format("log-probability {} and not {}", got.logprob, want.result.logprob);
    }
  }
  if (reports && (row.target >= 0 || row.num_best >= 0) && !close(got.target_logprob, want.target_logprob)) {
    return pagoda::format("target's log-probability {} and not {}", got.target_logprob, want.target_logprob);
  }
  const auto check_list = [&](std::span<const TokenLogprob> list) -> std::string {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (best[i].id != list[i].id || !close(best[i].logprob, list[i].logprob)) {
        return pagoda::format("best {} is {} {} and not {} {}", i, best[i].id, best[i].logprob, list[i].id,
                              list[i].logprob);
      }
    }
    return {};
  };
  const std::string wrong = check_list(want.target_best);
  return !wrong.empty() || got.id < 0 ? wrong : check_list(want.result.best);
}

/// f(i) for i < count, on all cores.
template <class F>
void in_parallel(std::int64_t count, F f) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> threads;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) f(i);
  };
  for (unsigned t = 0; t < std::min(16u, std::max(1u, std::thread::hardware_concurrency())); ++t) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) thread.join();
}

struct Tally {
  std::int64_t rows = 0, wrong = 0, drawn = 0, not_best = 0, refused = 0;
};

/// One set of requests over some steps.
void check_round(SampleCheck& check, Random& random, std::int64_t rows, std::int64_t stride, int steps, Tally& tally,
                 std::uint64_t seed_change = 0) {
  const std::int64_t vocab = check.vocab();
  std::vector<Request> requests;
  std::vector<std::int32_t> slots(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) slots[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(r);
  std::shuffle(slots.begin(), slots.end(), random.engine);
  for (std::int64_t r = 0; r < rows; ++r) {
    requests.emplace_back(random, vocab);
    check.set_slot(slots[static_cast<std::size_t>(r)], requests.back(), seed_change);
  }
  const Graph graph = check.capture(rows, SampleDepth::kFull);
  std::vector<float> logits(static_cast<std::size_t>(rows * stride), std::nanf(""));  // between rows: never read
  const auto row_logits = [&](std::int64_t r) {
    return std::span(logits).subspan(static_cast<std::size_t>(r * stride), static_cast<std::size_t>(vocab));
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<CudaSampleRow> wants;
    std::vector<std::uint8_t> reports;
    for (std::int64_t r = 0; r < rows; ++r) {
      fill_row(random, row_logits(r));
      const bool draws = random.below(8) != 0;
      reports.push_back(random.below(4) == 0);
      wants.push_back(check.device().row(slots[static_cast<std::size_t>(r)],
                                         requests[static_cast<std::size_t>(r)].position + step, draws,
                                         reports.back() != 0, random.below(4) == 0 ? -1 : any_id(random, vocab)));
      if (random.below(16) == 0) wants.back() = runtime::DeviceSampler::kPadding;
    }
    check.set_logits(logits);
    check.set_rows(wants);
    check.poison();
    graph.launch(check.stream());
    const Outputs got = check.outputs(rows);
    std::atomic<std::int64_t> wrong{0}, drawn{0}, not_best{0}, refused{0};
    in_parallel(rows, [&](std::int64_t r) {
      const CudaSampleRow& row = wants[static_cast<std::size_t>(r)];
      if (row.slot < 0) return;
      runtime::RowScratch<float> scratch(vocab, device::detect_isa());
      const bool reporting = reports[static_cast<std::size_t>(r)] != 0;
      const Expected want = expect(check, row, reporting, row_logits(r), scratch);
      const std::string text =
          difference(row, reporting, want, got.results[static_cast<std::size_t>(r)],
                     std::span(got.best).subspan(static_cast<std::size_t>(r * kSampleMaxBest), kSampleMaxBest),
                     got.last_ids[static_cast<std::size_t>(row.slot)], check.host().num_best(row.slot) >= 0);
      if (want.result.id >= 0) {
        ++drawn;
        if (want.result.id != summarize(std::span<const float>(row_logits(r))).best) ++not_best;
      }
      refused += want.result.non_finite ? 1 : 0;
      if (text.empty()) return;
      const SamplingParams& s = requests[static_cast<std::size_t>(r)].sampling;
      if (wrong++ < 3 && seed_change == 0) {
        std::printf("FAIL vocab %lld row %lld step %d (T %g k %d p %.9g min %g pen %g %g %g bias %zu): %s\n",
                    static_cast<long long>(vocab), static_cast<long long>(r), step, static_cast<double>(*s.temperature),
                    *s.top_k, static_cast<double>(*s.top_p), static_cast<double>(*s.min_p),
                    static_cast<double>(s.repetition_penalty.value_or(1)), static_cast<double>(s.presence_penalty),
                    static_cast<double>(s.frequency_penalty), s.logit_bias.size(), text.c_str());
      }
    });
    tally.rows += rows;
    tally.wrong += wrong;
    tally.drawn += drawn;
    tally.not_best += not_best;
    tally.refused += refused;
  }
}

bool check_vocab(GpuBench& bench, std::int64_t vocab, std::int64_t rows, int rounds, int steps) {
  const std::int64_t stride = vocab + 3;
  SampleCheck check(bench, vocab, static_cast<std::int32_t>(rows), rows, stride);
  Random random{std::mt19937(static_cast<unsigned>(vocab))};
  Tally broken, tally;
  check_round(check, random, rows, stride, 1, broken, 1);  // with another seed the comparison must see it
  for (int round = 0; round < rounds; ++round) check_round(check, random, rows, stride, steps, tally);
  const bool good = tally.wrong == 0 && (vocab < 50 || broken.wrong > 0);
  std::printf(
      "%s vocab %lld: %lld rows, %lld drawn (%lld not the best), %lld without a distribution, %lld wrong; with "
      "another seed %lld of %lld wrong\n",
      good ? "ok  " : "FAIL", static_cast<long long>(vocab), static_cast<long long>(tally.rows),
      static_cast<long long>(tally.drawn), static_cast<long long>(tally.not_best),
      static_cast<long long>(tally.refused), static_cast<long long>(tally.wrong), static_cast<long long>(broken.wrong),
      static_cast<long long>(broken.rows));
  return good;
}

/// A row's results are the same alone as among others, to the bit.
bool check_alone(GpuBench& bench, std::int64_t vocab, std::int64_t rows) {
  SampleCheck check(bench, vocab, static_cast<std::int32_t>(rows), rows, vocab);
  Random random{std::mt19937(5)};
  std::vector<float> logits(static_cast<std::size_t>(rows * vocab));
  std::vector<CudaSampleRow> wants;
  for (std::int64_t r = 0; r < rows; ++r) {
    Request request(random, vocab);
    request.sampling.repetition_penalty = 1;
    request.sampling.presence_penalty = request.sampling.frequency_penalty = 0;
    check.set_slot(static_cast<std::int32_t>(r), request);
    fill_row(random, std::span(logits).subspan(static_cast<std::size_t>(r * vocab), static_cast<std::size_t>(vocab)));
    wants.push_back(check.device().row(static_cast<std::int32_t>(r), request.position, true, true, 0));
  }
  check.set_logits(logits);
  check.set_rows(wants);
  check.poison();
  check.launch(rows, SampleDepth::kFull);
  const Outputs together = check.outputs(rows);
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    check.poison();
    check.set_rows({wants[static_cast<std::size_t>(r)]});
    check.launch(1, SampleDepth::kFull, r);
    const Outputs alone = check.outputs(1);
    const auto best = static_cast<std::size_t>(std::max(0, wants[static_cast<std::size_t>(r)].num_best)) * 8;
    const bool same = std::memcmp(alone.results.data(), together.results.data() + r, 16) == 0 &&
                      std::memcmp(alone.best.data(), together.best.data() + r * kSampleMaxBest, best) == 0;
    wrong += same ? 0 : 1;
  }
  std::printf("%s vocab %lld: of %lld rows %lld differ when alone\n", wrong == 0 ? "ok  " : "FAIL",
              static_cast<long long>(vocab), static_cast<long long>(rows), static_cast<long long>(wrong));
  return wrong == 0;
}

/// Long runs of draws from rows that stay: each the host's id.
bool check_many(GpuBench& bench, std::int64_t vocab, std::int64_t rows, std::int64_t steps) {
  SampleCheck check(bench, vocab, static_cast<std::int32_t>(rows), rows, vocab);
  Random random{std::mt19937(9)};
  std::vector<float> logits(static_cast<std::size_t>(rows * vocab));
  std::vector<CudaSampleRow> wants;
  std::vector<Request> requests;
  for (float& logit : logits) logit = normals()[random.below(std::ssize(normals()))] * 2;
  for (std::int64_t r = 0; r < rows; ++r) {
    requests.emplace_back(random, vocab);
    requests.back().sampling.repetition_penalty = 1;
    requests.back().sampling.presence_penalty = requests.back().sampling.frequency_penalty = 0;
    if (*requests.back().sampling.temperature < 0.5f) requests.back().sampling.temperature = 1.25f;
    requests.back().sampling.logprobs.reset();
    check.set_slot(static_cast<std::int32_t>(r), requests.back());
    wants.push_back(check.device().row(static_cast<std::int32_t>(r), requests.back().position, true));
  }
  check.set_logits(logits);
  const Graph graph = check.capture(rows, SampleDepth::kFull);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    check.set_rows(wants);
    graph.launch(check.stream());
    const Outputs got = check.outputs(rows, false);
    for (std::int64_t r = 0; r < rows; ++r) {
      ids[static_cast<std::size_t>(r * steps + step)] = got.results[static_cast<std::size_t>(r)].id;
      ++wants[static_cast<std::size_t>(r)].position;
    }
  }
  std::atomic<std::int64_t> wrong{0};
  in_parallel(rows, [&](std::int64_t r) {
    runtime::RowScratch<float> scratch(vocab, device::detect_isa());
    const auto row =
        std::span<const float>(logits).subspan(static_cast<std::size_t>(r * vocab), static_cast<std::size_t>(vocab));
    for (std::int64_t step = 0; step < steps; ++step) {
      runtime::RowResult want;
      check.host().sample(static_cast<std::int32_t>(r), requests[static_cast<std::size_t>(r)].position + step, row,
                          scratch, std::span<TokenLogprob>(), want);
      if (want.id != ids[static_cast<std::size_t>(r * steps + step)]) ++wrong;
    }
  });
  std::printf("%s vocab %lld: of %lld draws %lld wrong\n", wrong == 0 ? "ok  " : "FAIL", static_cast<long long>(vocab),
              static_cast<long long>(rows * steps), static_cast<long long>(wrong.load()));
  return wrong == 0;
}

struct Timing {
  const char* name;
  SamplingParams sampling;
  float spread = 2.5f;
  SampleDepth depth = SampleDepth::kFull;
};

void time_steps(GpuBench& bench, std::int64_t vocab, const Variant& variant, bool all) {
  const std::vector<Timing> timings = {
      {"greedy, one kernel", {}, 2.5f, SampleDepth::kGreedy},
      {"greedy", {}},
      {"temperature 1", {.temperature = 1.0f}},
      {"top-k 50", {.temperature = 1.0f, .top_k = 50}},
      {"top-p 0.95", {.temperature = 1.0f, .top_p = 0.95f}},
      {"T 0.7 top-k 50 top-p 0.9", {.temperature = 0.7f, .top_k = 50, .top_p = 0.9f}},
      {"greedy, repetition penalty", {.repetition_penalty = 1.1f}},
      {"greedy, 5 log-probabilities", {.logprobs = 5}},
      {"top-p 0.95, 20 log-probabilities", {.temperature = 1.0f, .top_p = 0.95f, .logprobs = 20}},
      {"flat, top-p 0.95", {.temperature = 2.0f, .top_p = 0.95f}, 1.0f},
      {"top-k 5000, top-p 0.95", {.temperature = 1.0f, .top_k = 5000, .top_p = 0.95f}, 1.0f},
      {"all logits equal, top-p 0.9", {.temperature = 1.0f, .top_p = 0.9f}, 0.0f}};
  constexpr int kTimes = 20;
  for (const std::int64_t rows : {1, 8, 64}) {
    SampleCheck check(bench, vocab, 64, rows, vocab, variant);
    for (const Timing& timing : timings) {
      if (!all && (timing.spread != 2.5f || timing.sampling.logprobs)) continue;
      Random random{std::mt19937(3)};
      Request request(random, vocab);
      request.sampling = timing.sampling;
      std::vector<CudaSampleRow> wants;
      std::vector<float> logits(static_cast<std::size_t>(rows * vocab));
      for (std::int64_t r = 0; r < rows; ++r) {
        request.setup.seed = random.engine();
        check.set_slot(static_cast<std::int32_t>(r), request);
        wants.push_back(check.device().row(static_cast<std::int32_t>(r), request.position, true));
        for (std::int64_t i = 0; i < vocab; ++i) {
          const auto from = static_cast<std::size_t>((i + r * 7919) % std::ssize(normals()));
          logits[static_cast<std::size_t>(r * vocab + i)] = normals()[from] * timing.spread;
        }
        for (int i = 0; i < 9 && timing.spread == 2.5f; ++i) {  // likely ones, as language models have
          logits[static_cast<std::size_t>(r * vocab) + random.below(vocab)] = 14 + static_cast<float>(i);
        }
      }
      check.set_logits(logits);
      check.set_rows(wants);
      const Graph graph = check.capture(rows, timing.depth, kTimes);
      const double us = static_cast<double>(bench.time_ms(graph)) * 1000 / kTimes;
      std::printf(
          "{\"bench\":\"sample\",\"what\":\"%s\",\"vocab\":%lld,\"rows\":%lld,\"min_blocks\":%d,"
          "\"blocks_per_sm\":%d,\"us\":%.2f}\n",
          timing.name, static_cast<long long>(vocab), static_cast<long long>(rows), variant.min_blocks,
          variant.blocks_per_sm, us);
    }
  }
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda::bench;  // NOLINT: the bench's own namespace
  const std::string mode = argc > 1 ? argv[1] : "";
  GpuBench bench;
  bool good = true;
  if (mode == "small") {
    for (const std::int64_t vocab : {1, 50, 2049, 20011}) good &= check_vocab(bench, vocab, 9, 4, 2);
    return good ? 0 : 1;
  }
  if (mode != "time") {
    for (const std::int64_t vocab : {1, 2, 50, 151, 2048, 2049}) good &= check_vocab(bench, vocab, 251, 8, 3);
    good &= check_vocab(bench, 49152, 64, 16, 3);
    good &= check_vocab(bench, 151936, 64, 10, 3);
    good &= check_vocab(bench, 262144, 61, 6, 3);
    good &= check_vocab(bench, 1000003, 5, 3, 2);
    for (const std::int64_t vocab : {50, 49152, 151936}) good &= check_alone(bench, vocab, 64);
    for (const std::int64_t vocab : {50, 257}) good &= check_many(bench, vocab, 256, 2000);
    good &= check_many(bench, 49152, 64, 100);
  }
  time_steps(bench, 151936, {}, true);
  if (mode == "variants") {
    for (const Variant variant : {Variant{3, 6}, Variant{4, 4}, Variant{5, 5}}) {
      time_steps(bench, 151936, variant, false);
    }
  }
  return good ? 0 : 1;
}
