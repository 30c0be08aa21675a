// Many requests at once through the engine, without HTTP: what serving can reach at most. Weights are made up.
//
//   engine_load CONFIG.json FORMAT DEVICE REQUESTS PROMPT OUTPUT [CACHE_FOLDER [PREFILL_CHUNK]]
//
// One JSON line: output tokens a second from the first submission to the last id, times to the first id and between ids
// (as a reader would see them), and the rate while all requests were decoding: what batch decoding alone gives.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/model_state.h"

namespace {

using namespace pagoda;
using engine::Clock;
using Times = std::vector<Clock::time_point>;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

double at_share(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

void or_exit(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

template <class T>
T or_exit(Result<T> result) {
  if (!result.ok()) or_exit(Status(result.error()));
  return std::move(result).value();
}

struct Load {
  std::int64_t requests = 256, prompt = 1000, output = 1000;
};

/// Submits all at once and waits for the last; when each id came.
std::vector<Times> run(const Model& model, const Load& load, std::uint32_t seed) {
  engine::Engine& engine = *model.state()->engine;
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> pick(0, engine.vocab() - 1);
  std::vector<Times> times(static_cast<std::size_t>(load.requests));
  std::vector<std::shared_ptr<engine::Job>> jobs;
  for (Times& each : times) {
    each.reserve(static_cast<std::size_t>(load.output) + 1);
    engine::Submission one;
    for (std::int64_t i = 0; i < load.prompt; ++i) one.prompt.push_back(static_cast<std::int32_t>(pick(random)));
    one.max_new_tokens = load.output;
    each.push_back(Clock::now());
    one.on_id = [&each] { each.push_back(Clock::now()); };
    std::vector<engine::Submission> choices;
    choices.push_back(std::move(one));
    jobs.push_back(or_exit(engine.submit(std::move(choices))).front());
  }
  for (const auto& job : jobs) {
    while (!job->ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (job->ending().error) or_exit(Status(*job->ending().error));
  }
  return times;
}

void report(const Model& model, const Load& load, const std::vector<Times>& times) {
  std::vector<double> first, between;
  Clock::time_point begin = Clock::time_point::max(), all_decode = Clock::time_point::min();
  Clock::time_point one_ended = Clock::time_point::max(), end = Clock::time_point::min();
  for (const Times& each : times) {
    first.push_back(ms_between(each[0], each[1]));
    for (std::size_t i = 2; i < each.size(); ++i) between.push_back(ms_between(each[i - 1], each[i]));
    begin = std::min(begin, each.front());
    all_decode = std::max(all_decode, each[1]);
    one_ended = std::min(one_ended, each.back());
    end = std::max(end, each.back());
  }
  std::int64_t together = 0;
  for (const Times& each : times) {
    together +=
        std::ranges::count_if(each, [&](Clock::time_point time) { return time > all_decode && time <= one_ended; });
  }
  const double s = ms_between(begin, end) / 1000;
  const double decode_s = ms_between(all_decode, one_ended) / 1000;
  const Stats stats = model.stats();
  std::printf(
      "{\"op\": \"engine_load\", \"model\": \"%s\", \"format\": \"%s\", \"device\": \"%s\", \"requests\": %lld, "
      "\"prompt\": %lld, \"output\": %lld, \"s\": %.3f, \"output_tok_s\": %.1f, \"first_ms_p50\": %.1f, "
      "\"first_ms_p99\": %.1f, \"between_ms_p50\": %.2f, \"between_ms_p99\": %.2f, \"decode_tok_s\": %.1f, "
      "\"prefill_chunk\": %lld, \"preemptions\": %lld, \"steps\": %lld}\n",
      model.info().name.c_str(), model.info().format.c_str(), model.info().device_name.c_str(),
      static_cast<long long>(load.requests), static_cast<long long>(load.prompt), static_cast<long long>(load.output),
      s, static_cast<double>(load.requests * load.output) / s, at_share(first, .5), at_share(first, .99),
      at_share(between, .5), at_share(between, .99), decode_s > 0 ? static_cast<double>(together) / decode_s : 0,
      static_cast<long long>(model.info().prefill_chunk), static_cast<long long>(stats.preemptions),
      static_cast<long long>(stats.steps));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr,
                 "engine_load CONFIG.json FORMAT DEVICE REQUESTS PROMPT OUTPUT [CACHE_FOLDER [PREFILL_CHUNK]]\n");
    return 2;
  }
  const Load load{.requests = std::atoll(argv[4]), .prompt = std::atoll(argv[5]), .output = std::atoll(argv[6])};
  LibraryOptions options;
  if (argc > 7) options.cache_folder = argv[7];
  options.log = [](LogLevel, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  };
  std::optional<std::int64_t> chunk;
  if (argc > 8) chunk = std::atoll(argv[8]);
  const Library library = or_exit(Library::create(std::move(options)));
  const Model model = or_exit(Model::open(library, argv[1],
                                          {.device = argv[3],
                                           .context = load.prompt + load.output + 16,
                                           .prefill_chunk = chunk,
                                           .max_running = load.requests,
                                           .dummy_weights = argv[2]}));
  for (const std::string& line : ledger(model.stats().memory)) std::fprintf(stderr, "%s\n", line.c_str());
  (void)run(model, {.requests = std::min<std::int64_t>(8, load.requests), .prompt = load.prompt, .output = 8}, 7);
  report(model, load, run(model, load, 1));
}
