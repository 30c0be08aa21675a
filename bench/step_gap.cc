// How long the GPU idles between consecutive decode steps of one sequence, in the engine as it is.
//
//   step_gap CONFIG.json [FORMAT] [CACHE_FOLDER] [tune]
//
// The driver's table is wrapped: an event is recorded before each replayed step, after it, and before the copy of its
// ids to the host. A step's graph is then replayed alone, many times in a row, to see what of its time is not idle.
// Prints one JSON object; microseconds, medians:
//   step     from one step's beginning to the next one's
//   replay   of the graph alone, back to back
//   launch   from the event before the graph to its end, less `replay`: until its first kernel runs
//   tail     from the graph's end to the copy of ids: the copy of the sampler's rows, and the sampler
//   between  from there to the event before the next graph: two copies, and what the GPU waits for the host
//   gap      launch + between: all that is neither the model nor the sampler
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/library_state.h"
#include "device/cuda/driver.h"
#include "pagoda/pagoda.h"

namespace {

using namespace pagoda;  // NOLINT: a bench's own file
using device::cuda::DriverApi;
using device::cuda::EventHandle;
using device::cuda::GraphExecHandle;
using device::cuda::Result32;
using device::cuda::StreamHandle;

constexpr std::int64_t kDepth = 2048, kSteps = 200;

enum Mark { kStart, kGraphEnd, kEnd };

struct Recorder {
  DriverApi real{};
  std::vector<std::array<EventHandle, 3>> steps;
  std::size_t next = 0;  // 0 while nothing is recorded
  bool in_step = false;
  GraphExecHandle graph = nullptr;
  StreamHandle stream = nullptr;

  void mark(Mark which, StreamHandle on) {
    if (next > 0 && next <= steps.size()) real.event_record(steps[next - 1][which], on);
  }
} recorder;

Result32 graph_launch(GraphExecHandle graph, StreamHandle stream) {
  recorder.graph = graph;
  recorder.stream = stream;
  if (recorder.next > 0) ++recorder.next;
  recorder.in_step = true;
  recorder.mark(kStart, stream);
  const Result32 result = recorder.real.graph_launch(graph, stream);
  recorder.mark(kGraphEnd, stream);
  return result;
}

Result32 copy_to_host(void* to, device::cuda::DeviceAddress from, std::size_t bytes, StreamHandle stream) {
  if (std::exchange(recorder.in_step, false)) recorder.mark(kEnd, stream);
  return recorder.real.copy_to_host_async(to, from, bytes, stream);
}

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

double microseconds(EventHandle begin, EventHandle end) {
  float ms = 0;
  const Result32 result = recorder.real.event_elapsed_ms(&ms, begin, end);
  if (result != device::cuda::kSuccess) {
    std::fprintf(stderr, "an event was not recorded (%d)\n", static_cast<int>(result));
    std::exit(1);
  }
  return static_cast<double>(ms) * 1000;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Twice so many decode steps of one sequence.
void decode(const Model& model, std::int64_t steps) {
  must(bench(model, {.prompts = {}, .generate = steps, .depths = {kDepth}, .batches = {1}, .samples = 1}));
}

double replay_alone(std::int64_t times) {
  const DriverApi& api = recorder.real;
  const auto begin = recorder.steps[0][kStart], end = recorder.steps[0][kEnd];
  for (int i = 0; i < 3; ++i) api.graph_launch(recorder.graph, recorder.stream);
  api.event_record(begin, recorder.stream);
  for (std::int64_t i = 0; i < times; ++i) api.graph_launch(recorder.graph, recorder.stream);
  api.event_record(end, recorder.stream);
  api.event_synchronize(end);
  return microseconds(begin, end) / static_cast<double>(times);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "step_gap CONFIG.json [FORMAT] [CACHE_FOLDER] [tune]\n");
    return 2;
  }
  LibraryOptions library_options;
  library_options.cache_folder = argc > 3 ? argv[3] : "/tmp/pagoda_bench_cubins";
  library_options.log = [](LogLevel, std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  const Library library = must(Library::create(library_options));
  const auto real = must(device::cuda::Driver::load());
  recorder.real = real->api();
  DriverApi wrapped = real->api();
  wrapped.graph_launch = graph_launch;
  wrapped.copy_to_host_async = copy_to_host;
  library.state()->driver = std::make_shared<const device::cuda::Driver>(wrapped);
  ModelOptions options{
      .device = "cuda", .context = kDepth + kSteps + 64, .kv_tokens = 2 * (kDepth + kSteps), .max_running = 1};
  options.tune = argc > 4 && std::string_view(argv[4]) == "tune";
  options.dummy_weights = argc > 2 ? argv[2] : "bf16";
  const Model model = must(Model::open(library, argv[1], options));
  decode(model, 16);
  // Model::open left the context current on threads of its own.
  const auto context = must(device::cuda::Context::create(real, 0));
  context->make_current();
  recorder.steps.resize(2 * kSteps + 8);
  for (auto& step : recorder.steps) {
    for (EventHandle& event : step) real->check(recorder.real.event_create(&event, 0), "making an event");
  }
  recorder.next = 1;
  decode(model, kSteps);
  const auto used = std::min(recorder.next, recorder.steps.size()) - 1;
  recorder.next = 0;
  std::vector<double> step, graph, tail, between;
  for (std::size_t i = kSteps + 9; i + 2 < used; ++i) {
    const auto &now = recorder.steps[i], &next = recorder.steps[i + 1];
    step.push_back(microseconds(now[kStart], next[kStart]));
    graph.push_back(microseconds(now[kStart], now[kGraphEnd]));
    tail.push_back(microseconds(now[kGraphEnd], now[kEnd]));
    between.push_back(microseconds(now[kEnd], next[kStart]));
  }
  if (std::ssize(step) < kSteps / 2) {
    std::fprintf(stderr, "only %zu steps were replayed\n", step.size());
    return 1;
  }
  const double replay = replay_alone(200);
  const double launch = median(graph) - replay;
  std::printf(
      "{\"op\": \"step_gap\", \"model\": \"%s\", \"device\": \"%s\", \"depth\": %lld, \"batch\": 1, \"step_us\": %.1f, "
      "\"replay_us\": %.1f, \"launch_us\": %.1f, \"tail_us\": %.1f, \"between_us\": %.1f, \"gap_us\": %.1f, "
      "\"samples\": %zu}\n",
      model.info().name.c_str(), model.info().device_name.c_str(), static_cast<long long>(kDepth), median(step), replay,
      launch, median(tail), median(between), launch + median(between), step.size());
  return 0;
}
