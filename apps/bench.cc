#include "pagoda/bench.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/commands.h"
#include "apps/json.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

void print_header(const ModelInfo& info) {
  std::printf("%s, %s, KV %s, precision %s, %d threads, %s\n", info.name.c_str(), info.format.c_str(),
              info.kv_dtype.c_str(), std::string(to_string(info.precision)).c_str(), info.threads,
              info.device_name.c_str());
  std::printf("%8s %8s %8s %6s %14s %12s %12s\n", "test", "prompt", "depth", "batch", "ms per step", "tok/s", "GB/s");
}

void print_row(const BenchRow& row) {
  std::printf("%8s %8lld %8lld %6lld %14.3f %12.1f", row.test.c_str(), static_cast<long long>(row.prompt),
              static_cast<long long>(row.depth), static_cast<long long>(row.batch), row.ms_per_step, row.tok_s);
  if (row.bytes_per_step > 0) std::printf(" %12.1f", row.bytes_per_step / row.ms_per_step / 1e6);
  std::printf("\n");
}

std::int64_t largest(const std::vector<std::int64_t>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

/// Sizes that the tests need, where the user has given none.
void size_cache(ModelOptions& options, const BenchOptions& bench) {
  const std::int64_t slack = 2 * options.block_size;
  const std::int64_t longest = largest(bench.depths) + std::max(largest(bench.prompts), 2 * bench.generate + 1) + slack;
  const std::int64_t batch = largest(bench.batches);
  if (!options.context) options.context = longest;
  if (!options.kv_tokens && !options.kv_bytes) options.kv_tokens = longest * batch;
  options.max_running = std::max<std::int64_t>(1, batch);
}

/// Tests that are longer than the model's context are refused by their own sizes, not by that of the context that they
/// would need; and those that just fit need no slack.
Result<Model> open_sized(const Library& library, const Arguments& arguments, ModelOptions options) {
  Result<Model> model = Model::open(library, arguments.model, options);
  const bool too_long = !model.ok() && !arguments.options.context && model.error().param == "--ctx";
  if (!too_long) return model;
  options.context.reset();
  return Model::open(library, arguments.model, std::move(options));
}

}  // namespace

Status bench(const Arguments& arguments) {
  if (arguments.model.ends_with(".json") && arguments.options.dummy_weights.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{} is a configuration without weights: --dummy-weights makes them up",
                arguments.model);
  }
  ModelOptions options = PAGODA_TRY(model_options(arguments, true));
  BenchOptions tests = arguments.bench;
  std::erase(tests.prompts, 0);
  if (tests.prompts.empty() && tests.generate == 0) {
    return fail(ErrorCode::kInvalidArgument, "-p 0 and -n 0 leave nothing to measure");
  }
  size_cache(options, tests);
  const Library library = PAGODA_TRY(Library::create(library_options(arguments)));
  const Model model = PAGODA_TRY(open_sized(library, arguments, std::move(options)));
  bool first = true;
  PAGODA_TRY(pagoda::bench(model, tests, [&](const BenchRow& row) {
    if (std::exchange(first, false) && !arguments.json) print_header(model.info());
    if (arguments.json) {
      std::printf("%s\n", to_json(row).c_str());
    } else {
      print_row(row);
    }
    std::fflush(stdout);
  }));
  return Ok{};
}

}  // namespace pagoda::apps
