// What a step costs the engine's thread beside the device: scheduling, bookkeeping, handing out ids. The runner
// computes nothing, so that all of the thread's time is the engine's. One JSON line a case; CPU time, not elapsed time.
#include <ctime>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "unit/engine/constant_runner.h"

namespace pagoda::engine {
namespace {

double thread_cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

struct Case {
  std::int32_t rows = 256;
  std::int64_t prompt = 1000;
  std::int64_t tokens = 400;
  std::int32_t steps_in_flight = 2;
};

void run(const Case& wanted) {
  std::vector<double> step_us;
  step_us.reserve(static_cast<std::size_t>(wanted.tokens) + 8);
  Options options;
  options.limits = {.context = wanted.prompt + wanted.tokens,
                    .max_running = wanted.rows,
                    .max_queued = wanted.rows,
                    .token_budget = 8192,
                    .prefill_chunk = 2048,
                    .steps_in_flight = wanted.steps_in_flight};
  options.model_id = "none";
  double last = 0;                     // of a step of one decode each; the time to the next is one step's
  std::atomic<bool> all_there{false};  // before, the first would be far ahead of the last
  const auto on_step = [&](const sched::Batch& batch) {
    all_there.wait(false);
    const double now = thread_cpu_us();
    const bool decodes = batch.tokens.size() == batch.rows.size() && std::ssize(batch.rows) == wanted.rows;
    if (decodes && last > 0) step_us.push_back(now - last);
    last = decodes ? now : 0;
  };
  const ConstantRunner::Size size{.rows = wanted.rows,
                                  .context = wanted.prompt + wanted.tokens,
                                  .step_tokens = 8192,
                                  .steps_in_flight = wanted.steps_in_flight};
  auto engine = Engine::start(options, std::make_unique<ConstantRunner>(size, on_step));
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    std::exit(1);
  }
  std::vector<std::shared_ptr<Job>> jobs;
  std::atomic<std::int64_t> announced{0};
  std::vector<Submission> all;
  for (std::int32_t i = 0; i < wanted.rows; ++i) {
    Submission one;
    for (std::int64_t t = 0; t < wanted.prompt; ++t) one.prompt.push_back(static_cast<std::int32_t>((t * 7 + i) % 991));
    one.max_new_tokens = wanted.tokens;
    one.stop_ids = {998, 999};
    std::vector<Submission> submitted;
    submitted.push_back(std::move(one));
    jobs.push_back((*engine)->submit(std::move(submitted)).value().front());
    jobs.back()->on_ready([&announced] { announced.fetch_add(1, std::memory_order_relaxed); });
  }
  all_there.store(true);
  all_there.notify_all();
  for (const auto& job : jobs) {
    while (!job->ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const auto& job : jobs) job->on_ready({});
  std::ranges::sort(step_us);
  if (step_us.empty()) {
    std::fprintf(stderr, "no step had %d rows of one token\n", wanted.rows);
    std::exit(1);
  }
  std::printf(
      "{\"op\": \"engine_step\", \"rows\": %d, \"prompt\": %lld, \"steps_in_flight\": %d, \"us\": %.1f, "
      "\"p90_us\": %.1f, \"samples\": %zu}\n",
      wanted.rows, static_cast<long long>(wanted.prompt), wanted.steps_in_flight, step_us[step_us.size() / 2],
      step_us[step_us.size() * 9 / 10], step_us.size());
}

}  // namespace
}  // namespace pagoda::engine

int main() {
  using pagoda::engine::Case;
  for (const std::int32_t rows : {1, 16, 64, 256}) pagoda::engine::run({.rows = rows});
  pagoda::engine::run({.prompt = 8000, .tokens = 2000});
  pagoda::engine::run({.steps_in_flight = 1});
}
