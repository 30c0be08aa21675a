// A runner on a GPU of paper: what is captured, what a step brings over, what is taken and given back. Kernels do not
// run here; what they compute is tested elsewhere.
#include "runtime/cuda_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "fixtures/paper_runner.h"
#include "fixtures/runner_driver.h"
#include "kernels/attention/cuda_decode.h"
#include "kernels/attention/cuda_prefill.h"
#include "kernels/embed/cuda_embed.h"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"
#include "kernels/sample/cuda_sample.h"
#include "runtime/cuda_graphs.h"

namespace pagoda::runtime {
namespace {

using fixtures::Feed;
using fixtures::PaperDriver;
using fixtures::PaperGraph;
using fixtures::PaperLaunch;
using fixtures::PaperRunner;
using fixtures::RunnerDriver;
using kernels::CudaEmbedParams;
using kernels::CudaSampleParams;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> kernels_of(const PaperGraph& graph) {
  std::vector<std::string> names;
  for (const PaperLaunch& node : graph.nodes) names.push_back(node.kernel);
  return names;
}

/// The graphs of a model of so many layers, by rows.
std::map<std::int64_t, PaperGraph> graphs_of(std::int64_t layers) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.layers = layers;
  PaperRunner runner(config);
  EXPECT_TRUE(runner.make().ok());
  const std::vector<std::int64_t> buckets = CudaGraphs::buckets(24);
  const std::vector<PaperGraph> graphs = runner.paper().graphs();
  EXPECT_EQ(graphs.size(), buckets.size());
  std::map<std::int64_t, PaperGraph> by_rows;
  for (std::size_t i = 0; i < graphs.size(); ++i) by_rows[buckets[i]] = graphs[i];
  return by_rows;
}

TEST(CudaRunner, BucketsAreAllSmallNumbersAndThenSteps) {
  EXPECT_THAT(CudaGraphs::buckets(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(CudaGraphs::buckets(24), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24));
  EXPECT_EQ(CudaGraphs::buckets(300).back(), 256);
  for (const std::int64_t most : {1, 17, 65, 100, 256}) {
    const std::vector<std::int64_t> buckets = CudaGraphs::buckets(most);
    EXPECT_EQ(buckets.back(), most);
    EXPECT_TRUE(std::ranges::is_sorted(buckets));
    EXPECT_EQ(std::set(buckets.begin(), buckets.end()).size(), buckets.size());
  }
}

// Each layer is the same few kernels, with a sum of slices here and there; around them are ids, schedule and head.
TEST(CudaRunner, EachBucketsNodes) {
  const auto two = graphs_of(2);
  const auto five = graphs_of(5);
  for (const std::int64_t rows : {1, 2, 3, 16, 24}) {
    const std::vector<std::string> few = kernels_of(two.at(rows));
    const std::vector<std::string> many = kernels_of(five.at(rows));
    const std::size_t layer = (many.size() - few.size()) / 3;
    EXPECT_EQ(few.size() + 3 * layer, many.size()) << rows;
    EXPECT_GE(layer, 6u) << rows;
    EXPECT_LE(layer, rows <= 2 ? 6u : 10u) << rows;
    EXPECT_LE(few.size() - 2 * layer, 5u) << rows << ": " << testing::PrintToString(few);
    EXPECT_EQ(few[0], "embed");
    EXPECT_EQ(few[1], "decode_schedule");
    EXPECT_EQ(std::ranges::count(few, "decode"), 2) << rows;
    EXPECT_EQ(std::ranges::count(few, "prefill_sm90"), 0) << rows;
    EXPECT_EQ(std::vector(few.begin() + 2, few.begin() + 2 + static_cast<std::ptrdiff_t>(layer)),
              std::vector(many.end() - static_cast<std::ptrdiff_t>(many.size() - 2 - 2 * layer),
                          many.end() - static_cast<std::ptrdiff_t>(many.size() - 2 - 3 * layer)));
  }
}

// CASES F2: what a graph holds outlives it.
TEST(CudaRunner, CapturedAddressesLast) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  std::int64_t addresses = 0;
  for (const PaperGraph& graph : runner.paper().graphs()) {
    for (const PaperLaunch& node : graph.nodes) {
      const auto held = runner.paper().addresses(node);
      addresses += std::ssize(held);
      EXPECT_FALSE(held.empty()) << node.kernel;
      for (const void* address : held) EXPECT_TRUE(runner.paper().lasting(address)) << node.kernel;
    }
  }
  EXPECT_GT(addresses, 1000);
  EXPECT_EQ(runner.paper().calls("cuMemAllocFromPoolAsync"), 0);
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

// CASES F3: before anything is captured there is all but the cache, of which there are the first blocks; the rest comes
// of what is left when all is captured.
TEST(CudaRunner, TheCacheTakesWhatIsLeftAfterCapture) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  constexpr std::int64_t kTokenBytes = 2 * 2 * 32 * 2;
  fixtures::TinyConfig config = fixtures::paper_config();
  config.context = 20000;
  PaperRunner runner(config, PaperRunner::small_options(), kMemoryReserve + 90 * kMiB);
  runner.paper().fail_call("cuStreamBeginCapture", 1, 719);
  EXPECT_FALSE(runner.make({}, {}).ok());
  const std::int64_t before = runner.device().allocated_bytes();
  runner.close();

  const Status made = runner.make({}, {});
  ASSERT_TRUE(made.ok()) << made.error().message;
  const RunnerInfo& info = runner->info();
  const std::int64_t tokens = info.groups[0].block_count * info.groups[0].block_size;
  EXPECT_GT(tokens, 20000);
  EXPECT_LT(tokens, 24 * 20000) << "not all that 24 rows could hold";
  EXPECT_GE(info.memory.cache_bytes, tokens * kTokenBytes);
  EXPECT_EQ(info.memory.free_bytes, runner.device().context()->free_bytes());
  EXPECT_NEAR(static_cast<double>(info.memory.free_bytes), static_cast<double>(kMemoryReserve), 0.3 * kMiB);
  EXPECT_GT(info.memory.workspace_bytes, 0);
  const std::int64_t first_blocks = info.groups[0].blocks_for(90) * info.groups[0].bytes_per_block;
  EXPECT_NEAR(static_cast<double>(runner.device().allocated_bytes() - before),
              static_cast<double>(tokens * kTokenBytes - first_blocks), 0.3 * kMiB);
  EXPECT_GE(runner.paper().calls("cuMemMap"), 4) << "twice a layer";

  // The addresses of captured steps are those of the grown cache, whose last blocks serve.
  for (const PaperGraph& graph : runner.paper().graphs()) {
    for (const PaperLaunch& node : graph.nodes) {
      for (const void* address : runner.paper().addresses(node)) EXPECT_TRUE(runner.paper().lasting(address));
      if (node.kernel != "decode") continue;
      const auto params = node.as<kernels::DecodeParams>();
      const auto* pages = static_cast<const std::byte*>(params.pages);
      EXPECT_TRUE(runner.paper().lasting(pages, static_cast<std::size_t>(params.block_stride * tokens / 16)));
    }
  }
  RunnerDriver driver(*runner);
  std::iota(driver.free_pages()[0].rbegin(), driver.free_pages()[0].rend(),
            static_cast<std::int32_t>(info.groups[0].block_count) - 4096);
  driver.start(0, fixtures::some_ids(30, 67));
  driver.step({{.slot = 0, .count = 30, .wants_id = true}});
  driver.step({{.slot = 0, .wants_id = true}});
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

TEST(CudaRunner, ACacheNeedsRoomForOneContext) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.context = 400'000;
  PaperRunner runner(config, PaperRunner::small_options(), kMemoryReserve + (std::int64_t{90} << 20));
  const Status refused = runner.make({}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeviceMemory);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("one context of 400000 tokens takes 102400000 bytes"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("--ctx"));
  runner.close();
  EXPECT_THAT(runner.paper().leaks(), IsEmpty());
}

// All that a step can need is loaded before it is captured: each bucket and a whole chunk have run.
TEST(CudaRunner, EverythingRunsOnceBeforeTheFirstCapture) {
  PaperRunner runner;
  runner.paper().fail_call("cuStreamBeginCapture", 1, 719);
  EXPECT_FALSE(runner.make().ok());
  std::set<std::string> eager, captured;
  for (const PaperLaunch& launch : runner.paper().launches()) {
    EXPECT_EQ(launch.graph, -1);
    eager.insert(launch.kernel + " " + testing::PrintToString(launch.unit.defines));
  }
  EXPECT_THAT(eager, testing::Contains(testing::StartsWith("prefill")));
  EXPECT_THAT(eager, testing::Contains(testing::StartsWith("sample_weigh")));
  runner.close();
  ASSERT_TRUE(runner.make().ok());
  for (const PaperGraph& graph : runner.paper().graphs()) {
    for (const PaperLaunch& node : graph.nodes) {
      captured.insert(node.kernel + " " + testing::PrintToString(node.unit.defines));
    }
  }
  EXPECT_TRUE(std::ranges::includes(eager, captured));
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

void start_all(RunnerDriver& driver, std::int32_t slots, std::int64_t tokens = 30) {
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    driver.start(slot, fixtures::some_ids(tokens + slot, 67, 3u + static_cast<unsigned>(slot)));
  }
}

std::vector<Feed> decodes(std::int32_t slots) {
  std::vector<Feed> feeds;
  for (std::int32_t slot = 0; slot < slots; ++slot) feeds.push_back({.slot = slot, .wants_id = true});
  return feeds;
}

TEST(CudaRunner, ADecodeStepIsAReplayAndASample) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  RunnerDriver driver(*runner);
  start_all(driver, 5);
  for (std::int32_t slot = 0; slot < 5; ++slot) {
    driver.step({{.slot = slot, .count = static_cast<std::int32_t>(30 + slot), .wants_id = true}});
  }
  for (const std::int32_t rows : {1, 2, 5}) {
    runner.paper().run();
    runner.paper().forget();
    driver.step(decodes(rows));
    std::vector<std::string> own;
    std::set<std::int64_t> graphs;
    for (const PaperLaunch& launch : runner.paper().launches()) {
      if (launch.graph >= 0) graphs.insert(launch.graph);
      if (launch.graph < 0 && launch.kernel != "block_tables") own.push_back(launch.kernel);
    }
    EXPECT_THAT(graphs, ElementsAre(rows - 1));
    EXPECT_THAT(own, ElementsAre("sample_extremes")) << "greedy rows need no more";
    const auto copies = runner.paper().copies();
    ASSERT_EQ(copies.size(), 3u) << "inputs, rows of the sampler, ids";
    EXPECT_LE(copies[0].bytes, 4096u);
    EXPECT_EQ(copies[1].bytes, rows * sizeof(kernels::CudaSampleRow));
    EXPECT_EQ(copies[2].bytes, rows * sizeof(kernels::CudaSampleResult));
  }
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

// The bucket is wider than the batch: rows of no slot draw nothing.
TEST(CudaRunner, PaddedRowsDrawNothing) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  RunnerDriver driver(*runner);
  start_all(driver, 18, 4);
  for (std::int32_t slot = 0; slot < 18; ++slot) driver.step({{.slot = slot, .count = 4 + slot, .wants_id = true}});
  std::vector<std::int32_t> slots;
  runner.paper().on_launch = [&](const PaperLaunch& launch) {
    if (launch.kernel != "sample_extremes") return;
    const auto params = launch.as<CudaSampleParams>();
    for (std::uint32_t row = 0; row < launch.grid.y; ++row) slots.push_back(params.rows[row].slot);
  };
  driver.step(decodes(18));
  ASSERT_EQ(slots.size(), 24u);
  for (std::int32_t row = 0; row < 24; ++row) EXPECT_EQ(slots[static_cast<std::size_t>(row)], row < 18 ? row : -1);
}

// Steps of more rows than the buffers of one hold at once are not captured.
TEST(CudaRunner, NoBucketIsLargerThanItsBuffers) {
  for (const auto& [head_rows, step_tokens] : {std::pair(5, 90), std::pair(24, 7)}) {
    model::PlanOptions options = PaperRunner::small_options();
    options.head_rows = head_rows;
    options.max_step_tokens = step_tokens;
    PaperRunner runner(fixtures::paper_config(), options);
    ASSERT_TRUE(runner.make().ok());
    EXPECT_EQ(std::ssize(runner.paper().graphs()), std::min(head_rows, step_tokens));
    RunnerDriver driver(*runner);
    for (std::int32_t slot = 0; slot < 7; ++slot) {
      driver.start(slot, fixtures::some_ids(4, 67));
      driver.step({{.slot = slot, .count = 4, .wants_id = true}});
    }
    EXPECT_EQ(driver.step(decodes(7)).size(), 7u);
    EXPECT_THAT(runner.paper().faults(), IsEmpty());
  }
}

TEST(CudaRunner, DeterministicStepsAreNotCaptured) {
  model::PlanOptions options = PaperRunner::small_options();
  options.deterministic = true;
  PaperRunner runner(fixtures::paper_config(), options);
  ASSERT_TRUE(runner.make().ok());
  EXPECT_EQ(runner.paper().graphs().size(), 0u);
  RunnerDriver driver(*runner);
  start_all(driver, 2);
  driver.step({{.slot = 0, .count = 30, .wants_id = true}, {.slot = 1, .count = 17}});
  driver.step({{.slot = 0, .wants_id = true}, {.slot = 1, .count = 14, .wants_id = true}});
  driver.step(decodes(2));
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

// Two steps are in flight before the first one runs: each is computed from its own ids.
TEST(CudaRunner, StepsInFlightDoNotTouchEachOther) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  RunnerDriver driver(*runner);
  start_all(driver, 2);
  std::vector<std::vector<std::int32_t>> ids;
  const std::int32_t* last_ids = nullptr;
  runner.paper().on_launch = [&](const PaperLaunch& launch) {
    if (launch.kernel == "sample_extremes") {
      EXPECT_EQ(launch.as<CudaSampleParams>().last_ids, last_ids);
    }
    if (launch.kernel != "embed") return;
    const auto params = launch.as<CudaEmbedParams>();
    ids.emplace_back(params.ids, params.ids + 2);
    last_ids = params.last_ids;
  };
  const std::vector<Feed> both = decodes(2);
  driver.step({{.slot = 0, .count = 30, .wants_id = true}, {.slot = 1, .count = 31, .wants_id = true}});
  ids.clear();
  driver.submit(both);
  const std::size_t before = ids.size();
  const std::size_t copied = runner.paper().copies().size();
  driver.submit({{.slot = 0, .wants_id = true, .first_id_on_device = true},
                 {.slot = 1, .wants_id = true, .first_id_on_device = true}});
  EXPECT_EQ(ids.size(), before) << "the second does not wait for the first";
  EXPECT_EQ(runner.paper().copies().size(), copied) << "nor for its buffer";
  EXPECT_EQ(runner->fetch().value().rows.size(), 2u);
  EXPECT_EQ(runner->fetch().value().rows.size(), 2u);
  runner.paper().run();
  EXPECT_THAT(ids, ElementsAre(ElementsAre(driver.ids(0)[30], driver.ids(1)[31]), ElementsAre(-1, -2)));
  EXPECT_NE(last_ids, nullptr);
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

TEST(CudaRunner, NothingIsTakenOnceItIsReady) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  const std::int64_t ready = runner.paper().allocations();
  const std::int64_t bytes = runner.device().allocated_bytes();
  RunnerDriver driver(*runner);
  driver.recycle();
  std::mt19937 rng(5);
  for (std::int32_t step = 0, next = 0; step < 200; ++step) {
    const auto slot = static_cast<std::int32_t>(rng() % 6);
    if (step % 9 == 0 || driver.left(slot) == 0 || driver.ids(slot).size() > 100) {
      driver.give_back(next % 6);
      driver.start(next % 6, fixtures::some_ids(20 + step % 50, 67, static_cast<unsigned>(step)),
                   fixtures::sampling([&](SamplingParams& p) {
                     p.temperature = step % 2 == 0 ? 0.0f : 0.8f;
                     p.logprobs = step % 3 == 0 ? 4 : 0;
                     p.repetition_penalty = step % 5 == 0 ? 1.2f : 1.0f;
                   }));
      ++next;
    }
    std::vector<Feed> feeds;
    std::int64_t room = 90;
    for (std::int32_t s = 0; s < std::min(next, 6); ++s) {
      const std::int64_t count = std::min<std::int64_t>({driver.left(s), room, 17});
      if (count == 0) continue;
      room -= count;
      feeds.push_back({.slot = s, .count = static_cast<std::int32_t>(count), .wants_id = count == driver.left(s)});
    }
    if (!feeds.empty()) driver.step(feeds);
  }
  EXPECT_EQ(runner.paper().allocations(), ready);
  EXPECT_EQ(runner.device().allocated_bytes(), bytes);
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
}

// CASES G8: each layer's own scales reach what writes its pages and what reads them, in captured and in other steps.
TEST(CudaRunner, ScalesOfTheCacheReachWriterAndReader) {
  const auto key_scale = [](std::size_t layer) { return layer == 0 ? 4.0f : 0.375f; };
  const auto value_scale = [](std::size_t layer) { return layer == 0 ? 0.5f : 3.0f; };
  model::PlanOptions options = PaperRunner::small_options();
  options.kv_dtype = model::KvDType::kFp8E4m3;
  PaperRunner runner(fixtures::paper_config(), options);
  const Status made = runner.make([&](model::Plan& plan) {
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      for (kernels::KvLayout* layout : {&plan.layers[i].attention_in.problem.layout,
                                        &plan.layers[i].attention.problem.layout, &plan.kv_layouts[i]}) {
        EXPECT_EQ(layout->key_scale, 1.0f) << "without a scale of the model's";
        layout->key_scale = key_scale(i);
        layout->value_scale = value_scale(i);
      }
    }
  });
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto base = static_cast<float>(1 / std::sqrt(32.0));
  const auto check = [&](const std::vector<PaperLaunch>& launches, std::string_view reader) {
    std::size_t written = 0, read = 0;
    for (const PaperLaunch& launch : launches) {
      if (launch.kernel == "qkv_store") {
        const auto params = launch.as<kernels::CudaQkvStoreParams>();
        EXPECT_EQ(params.key_scale, key_scale(written));
        EXPECT_EQ(params.value_scale, value_scale(written++));
      } else if (launch.kernel == reader) {
        const auto [scale, values] = [&] {
          if (reader == "decode") {
            const auto params = launch.as<kernels::DecodeParams>();
            return std::pair(params.scale, params.value_scale);
          }
          const auto params = launch.as<kernels::PrefillParams>();
          return std::pair(params.scale, params.value_scale);
        }();
        EXPECT_EQ(scale, base * key_scale(read));
        EXPECT_EQ(values, value_scale(read++));
      }
    }
    EXPECT_EQ(written, 2u);
    EXPECT_EQ(read, 2u);
  };
  for (const PaperGraph& graph : runner.paper().graphs()) check(graph.nodes, "decode");
  RunnerDriver driver(*runner);
  start_all(driver, 1);
  runner.paper().forget();
  driver.step({{.slot = 0, .count = 30, .wants_id = true}});
  check(runner.paper().launches(), "prefill");
}

/// Entries that only give back what was taken; their failure loses it.
bool gives_back(const std::string& entry) {
  for (const char* end : {"Release", "Free", "FreeHost", "Unmap", "Destroy", "Unload"}) {
    if (entry.ends_with(end)) return true;
  }
  return false;
}

TEST(CudaRunner, AFailedCallIsAnErrorAndLosesNothing) {
  std::map<std::string, std::int64_t> calls;
  model::PlanOptions options = PaperRunner::small_options();
  options.max_rows = options.head_rows = 2;
  {
    PaperRunner runner(fixtures::paper_config(), options);
    ASSERT_TRUE(runner.make().ok());
    for (const std::string& entry : runner.paper().called()) calls[entry] = runner.paper().calls(entry);
    runner.close();
    EXPECT_THAT(runner.paper().leaks(), IsEmpty());
    EXPECT_THAT(runner.paper().faults(), IsEmpty());
  }
  PaperRunner runner(fixtures::paper_config(), options);
  std::int64_t tried = 0;
  for (const auto& [entry, count] : calls) {
    if (gives_back(entry) || entry.starts_with("cuGetError") || entry == "cuMemGetInfo") continue;
    std::set<std::int64_t> tries = {1, 2, (count + 1) / 2, count};
    for (std::int64_t n = 3; entry == "cuStreamSynchronize" && n < count; ++n) tries.insert(n);
    for (const std::int64_t n : tries) {
      if (n > count) continue;
      // 2 is want of memory, which is refused in other words than a lost device, 719.
      for (const device::cuda::Result32 result : {2, 719}) {
        if (result == 2 && !entry.starts_with("cuMem") && n > 1) continue;
        SCOPED_TRACE(pagoda::format("call {} of {} to {} fails with {}", n, count, entry, result));
        runner.paper().fail_call(entry, n, result);
        const Status made = runner.make();
        // A second parameter of a kernel is asked for to hear that there is none.
        EXPECT_TRUE(!made.ok() || !runner.paper().failed() || entry == "cuFuncGetParamInfo");
        runner.close();
        EXPECT_THAT(runner.paper().leaks(), IsEmpty());
        EXPECT_THAT(runner.paper().faults(), IsEmpty());
        ++tried;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(tried, 80);
}

TEST(CudaRunner, ALostDeviceSaysSoAgainAndAgain) {
  for (const char* entry : {"cuGraphLaunch", "cuLaunchKernelEx", "cuMemcpyHtoDAsync", "cuEventSynchronize"}) {
    SCOPED_TRACE(entry);
    PaperRunner runner;
    ASSERT_TRUE(runner.make().ok());
    RunnerDriver driver(*runner);
    start_all(driver, 2);
    driver.step({{.slot = 0, .count = 30, .wants_id = true}, {.slot = 1, .count = 31, .wants_id = true}});
    driver.submit(decodes(2));
    runner.paper().fail_call(entry, 1, 719, true);
    Status submitted = driver.try_submit({{.slot = 0, .wants_id = true, .first_id_on_device = true}});
    for (int again = 0; again < 3; ++again) {
      const auto fetched = runner->fetch();
      ASSERT_FALSE(fetched.ok());
      EXPECT_EQ(fetched.error().code, ErrorCode::kDeviceLost);
      submitted = driver.try_submit(decodes(2));
      ASSERT_FALSE(submitted.ok());
      EXPECT_EQ(submitted.error().message, fetched.error().message);
      const SamplingParams defaults;
      EXPECT_EQ(runner->set_slot(1, {.sampling = &defaults, .tokens = {}, .end_ids = {}}).error().code,
                ErrorCode::kDeviceLost);
    }
    runner.close();
    EXPECT_THAT(runner.paper().leaks(), IsEmpty());
  }
}

}  // namespace
}  // namespace pagoda::runtime
