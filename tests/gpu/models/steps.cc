// What is promised of single steps on a GPU: the same bits for the same shape of step, whatever lies beside,
// and the same ids up to near ties for any other.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "fixtures/exactness.h"
#include "gpu/models/models.h"
#include "runtime/sampler.h"

namespace pagoda::models {
namespace {

using fixtures::Feed;
using fixtures::RunnerDriver;
using fixtures::some_ids;
using sched::Want;

constexpr runtime::CacheSize kCache{.tokens = 4000, .bytes = 0};

class StepsOnGpu : public testing::TestWithParam<int> {
 protected:
  StepsOnGpu() : model_(small_configs()[static_cast<std::size_t>(GetParam())]) {}

  std::vector<std::int32_t> ids(std::int64_t count, unsigned seed) const { return some_ids(count, model_.vocab, seed); }

  SmallModel model_;
};

/// Brings sequences to their last known token but one, in one step, wanting nothing.
void prefill_all_but_one(RunnerDriver& driver, const std::vector<std::int32_t>& slots) {
  std::vector<Feed> feeds;
  for (const std::int32_t slot : slots) {
    feeds.push_back({.slot = slot, .count = static_cast<std::int32_t>(driver.left(slot) - 1)});
  }
  driver.step(feeds);
}

/// One decode of every slot; those of `wanted` want their logits, which are returned in that order.
std::vector<float> decode(RunnerDriver& driver, const std::vector<std::int32_t>& slots,
                          const std::vector<std::int32_t>& wanted) {
  std::vector<Feed> feeds;
  for (const std::int32_t slot : slots) {
    const bool wants = std::find(wanted.begin(), wanted.end(), slot) != wanted.end();
    feeds.push_back({.slot = slot, .count = 1, .want = wants ? Want::kLogits : Want::kNothing});
  }
  std::vector<float> logits;
  for (const runtime::RowResult& row : driver.step(feeds)) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
  }
  return logits;
}

TEST_P(StepsOnGpu, CapturedAndEagerDecodesAreTheSameBits) {
  const std::vector<std::int32_t> slots{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nine{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto run = [&](const std::vector<std::int32_t>& wanted) {
    GpuRunner runner(model_.file, small_options(), kCache);
    RunnerDriver driver(*runner);
    for (const std::int32_t slot : slots) driver.start(slot, ids(9 + 3 * slot, static_cast<unsigned>(slot + 1)));
    prefill_all_but_one(driver, slots);
    return decode(driver, slots, wanted);
  };
  // A step in which one row wants nothing is not a captured one.
  std::vector<float> captured = run(slots);
  const std::vector<float> again = run(slots), eager = run(nine);
  EXPECT_TRUE(same_bits(captured, again)) << "the same step twice";
  ASSERT_EQ(captured.size(), static_cast<std::size_t>(10 * model_.vocab));
  captured.resize(static_cast<std::size_t>(9 * model_.vocab));
  EXPECT_TRUE(same_bits(captured, eager));
  captured[3] = std::nextafter(captured[3], 1e9f);
  EXPECT_FALSE(same_bits(captured, eager)) << "the comparison is blind";
}

TEST_P(StepsOnGpu, PagesSlotsAndNeighboursDoNotMatter) {
  const std::vector<std::int32_t> own = ids(83, 1);
  const auto run = [&](std::int32_t slot, std::int32_t other, unsigned pages, unsigned neighbour, bool used_before) {
    GpuRunner runner(model_.file, small_options(), kCache);
    RunnerDriver driver(*runner, pages);
    if (used_before) {
      driver.start(other, ids(90, 77));
      driver.run_through(other, 50);
    }
    driver.start(slot, own);
    driver.start(other, ids(61, neighbour));
    // A chunk of each, then a decode of both.
    driver.step({{.slot = slot, .count = 50, .want = Want::kLogits}, {.slot = other, .count = 40}});
    driver.step({{.slot = slot, .count = 32, .want = Want::kLogits}, {.slot = other, .count = 20}});
    driver.step(
        {{.slot = slot, .count = 1, .want = Want::kLogits}, {.slot = other, .count = 1, .want = Want::kLogits}});
    return driver.logits(slot);
  };
  const std::vector<float> expected = run(0, 1, 1, 5, false);
  ASSERT_EQ(expected.size(), own.size() * static_cast<std::size_t>(model_.vocab));
  EXPECT_LE(logit_error(expected, reference_logits(model_, own)), kBound);
  EXPECT_TRUE(same_bits(run(0, 1, 9, 5, false), expected)) << "other pages";
  EXPECT_TRUE(same_bits(run(0, 1, 4, 5, true), expected)) << "pages that others used before";
  EXPECT_TRUE(same_bits(run(7, 2, 1, 5, false), expected)) << "other slots";
  EXPECT_TRUE(same_bits(run(0, 1, 1, 6, false), expected)) << "another neighbour";
}

TEST_P(StepsOnGpu, ChunksBatchesAndPrefixesStayWithinTheBound) {
  const std::vector<std::int32_t> own = ids(150, 2);
  const std::vector<float> exact = reference_logits(model_, own);
  GpuRunner runner(model_.file, small_options(), kCache);
  for (const std::int32_t chunk : {1, 7, 16, 17, 64, 150}) {
    RunnerDriver driver(*runner, static_cast<unsigned>(chunk));
    driver.start(3, own);
    driver.run_through(3, chunk);
    EXPECT_LE(logit_error(driver.logits(3), exact), kBound) << "chunks of " << chunk;
  }
  // On another's pages, from the middle on.
  RunnerDriver driver(*runner);
  driver.start(0, own);
  driver.run_through(0, 64);
  driver.start_on(1, own, 0, 64);
  driver.run_through(1, 50);
  const std::vector<float> tail(exact.begin() + 64 * model_.vocab, exact.end());
  EXPECT_LE(logit_error(driver.logits(1), tail), kBound) << "a prefix of 64 tokens";
}

TEST_P(StepsOnGpu, GreedyIdsAreTheReferencesUpToNearTies) {
  constexpr std::int64_t kDrawn = 40;
  GpuRunner runner(model_.file, small_options(), kCache);
  for (const std::int32_t batch : {1, 2, 5, 12}) {
    RunnerDriver driver(*runner, static_cast<unsigned>(batch));
    std::vector<Feed> feeds;
    for (std::int32_t slot = 0; slot < batch; ++slot) {
      driver.start(slot, ids(11 + slot, static_cast<unsigned>(slot)));
      feeds.push_back({.slot = slot, .count = 11 + slot, .wants_id = true});
    }
    driver.step(feeds);
    for (Feed& feed : feeds) feed.count = 1;
    for (std::int64_t i = 1; i < kDrawn; ++i) driver.step(feeds);
    for (const std::int32_t slot : {0, batch - 1}) {
      const std::vector<std::int32_t>& all = driver.ids(slot);
      const auto cut = all.begin() + 11 + slot;
      ASSERT_EQ(all.end() - cut, kDrawn);
      expect_greedy(model_, {all.begin(), cut}, {cut, all.end()}, pagoda::format("batch {}, slot {}", batch, slot));
    }
  }
}

// Past the last layer's attention a step has only the tokens that are wanted, if they are few.
TEST_P(StepsOnGpu, LogitsOfSomeTokensAreThoseOfAll) {
  constexpr std::int32_t kFirst = 60, kAll = 150;
  const std::vector<std::int32_t> own = ids(kAll, 2);
  const std::vector<float> exact = reference_logits(model_, own);
  const auto tail = [&](const std::vector<float>& logits, std::int64_t tokens) {
    return std::vector<float>(logits.end() - tokens * model_.vocab, logits.end());
  };
  for (const bool deterministic : {false, true}) {
    model::PlanOptions options = small_options();
    options.deterministic = deterministic;
    GpuRunner runner(model_.file, options, kCache);
    RunnerDriver all(*runner);
    all.start(3, own);
    all.run_through(3, kAll);
    for (const std::int32_t wanted : {1, 2, 5, 11, 40}) {
      RunnerDriver driver(*runner, static_cast<unsigned>(wanted));
      driver.start(3, own);
      driver.start(5, ids(31, 4));
      driver.step({{.slot = 3, .count = kFirst}, {.slot = 5, .count = 30}});
      driver.step({{.slot = 5, .count = 1, .wants_id = true},
                   {.slot = 3,
                    .count = kAll - kFirst,
                    .wants_id = true,
                    .want = Want::kLogits,
                    .want_from = kAll - kFirst - wanted}});
      const std::vector<float>& logits = driver.logits(3);
      ASSERT_EQ(std::ssize(logits), wanted * model_.vocab);
      EXPECT_LE(logit_error(logits, tail(exact, wanted)), kBound) << wanted << " tokens";
      std::vector<float> before = tail(exact, wanted + 1);
      before.resize(logits.size());
      EXPECT_GT(logit_error(logits, before), kBound) << "the comparison is blind";
      if (deterministic) {
        EXPECT_TRUE(same_bits(logits, tail(all.logits(3), wanted))) << wanted << " tokens";
      }
      expect_greedy(model_, own, {driver.ids(3).back()}, pagoda::format("{} tokens wanted", wanted));
      expect_greedy(model_, ids(31, 4), {driver.ids(5).back()}, "the decode beside it");
    }
  }
}

// With `deterministic` the bits of a row follow from its own sequence alone.
TEST_P(StepsOnGpu, DeterministicRowsAreTheSameBitsInAnyStep) {
  const std::vector<std::int32_t> own = ids(150, 2);
  model::PlanOptions options = small_options();
  options.deterministic = true;
  GpuRunner runner(model_.file, options, kCache);
  const auto alone = [&](std::int32_t chunk) {
    RunnerDriver driver(*runner, static_cast<unsigned>(chunk));
    driver.start(3, own);
    driver.run_through(3, chunk);
    return driver.logits(3);
  };
  const std::vector<float> whole = alone(150);
  EXPECT_LE(logit_error(whole, reference_logits(model_, own)), kBound);
  for (const std::int32_t chunk : {1, 7, 16, 17, 64}) EXPECT_TRUE(same_bits(alone(chunk), whole)) << chunk;
  RunnerDriver driver(*runner, 5);
  driver.start(3, own);
  for (const std::int32_t slot : {0, 1, 2}) driver.start(slot, ids(90 + slot, static_cast<unsigned>(slot)));
  while (driver.left(3) > 0) {
    std::vector<Feed> feeds;
    for (const std::int32_t slot : {0, 3, 1, 2}) {
      const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(driver.left(slot), 1 + (slot * 13 + 5) % 19));
      if (count > 0) {
        feeds.push_back({.slot = slot, .count = count, .want = slot == 3 ? Want::kLogits : Want::kNothing});
      }
    }
    driver.step(feeds);
  }
  EXPECT_TRUE(same_bits(driver.logits(3), whole)) << "with companions";
}

/// How a sequence's tokens are computed: alone or with others, its prompt in what chunks, on whose pages.
struct Way {
  std::int32_t chunk;
  bool companions;
  bool prefix;  // of 16 tokens, computed by another before
};

/// Ids drawn after a prompt, and the logits of each, if they are wanted.
std::vector<std::int32_t> draw_ids(runtime::Runner& runner, const std::vector<std::int32_t>& prompt, const Way& way,
                                   const SamplingParams& params, std::uint64_t seed, std::int64_t count) {
  RunnerDriver driver(runner, static_cast<unsigned>(way.chunk));
  std::vector<std::int32_t> others;
  if (way.companions) others = {0, 1, 2, 5, 6, 7, 8};
  for (const std::int32_t slot : others) {
    std::vector<std::int32_t> ids(prompt.rbegin(), prompt.rend());
    ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(5 + slot, std::ssize(ids))));
    driver.start(slot, ids);
  }
  if (way.prefix) {
    driver.start(4, {prompt.begin(), prompt.begin() + 16});
    driver.step({{.slot = 4, .count = 16}});
    driver.start_on(3, prompt, 4, 16, params, seed);
  } else {
    driver.start(3, prompt, params, seed);
  }
  while (std::ssize(driver.ids(3)) < std::ssize(prompt) + count) {
    std::vector<Feed> feeds;
    for (const std::int32_t slot : others) {
      const std::int64_t left = driver.left(slot);
      feeds.push_back({.slot = slot, .count = static_cast<std::int32_t>(left), .wants_id = true});
    }
    const auto part = static_cast<std::int32_t>(std::min<std::int64_t>(way.chunk, driver.left(3)));
    feeds.push_back({.slot = 3, .count = part, .wants_id = part == driver.left(3)});
    driver.step(feeds);
  }
  return {driver.ids(3).begin() + std::ssize(prompt), driver.ids(3).end()};
}

constexpr Way kWays[] = {{7, false, false}, {150, true, false}, {9, true, false}, {150, false, true}, {5, true, true}};

TEST_P(StepsOnGpu, DeterministicDrawsAreTheSameIdsInAnyStep) {
  model::PlanOptions options = small_options();
  options.deterministic = true;
  GpuRunner runner(model_.file, options, kCache);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::vector<std::int32_t> prompt =
        ids(23 + 11 * static_cast<std::int64_t>(seed), static_cast<unsigned>(seed));
    const SamplingParams params =
        fixtures::sampling([&](SamplingParams& p) { p.temperature = seed % 3 == 0 ? 0.0f : 1.0f; });
    const auto alone = draw_ids(*runner, prompt, {150, false, false}, params, seed, 25);
    for (const Way& way : kWays) {
      EXPECT_EQ(draw_ids(*runner, prompt, way, params, seed, 25), alone)
          << "seed " << seed << ", chunks of " << way.chunk << (way.companions ? ", companions" : "")
          << (way.prefix ? ", a prefix" : "");
    }
    if (seed % 3 != 0) {
      EXPECT_NE(draw_ids(*runner, prompt, kWays[0], params, seed + 100, 25), alone);
    }
  }
}

// Ids that stay on the device feed the next step: two steps are under way.
TEST_P(StepsOnGpu, IdsOnTheDeviceAreTheSameIds) {
  const auto generate = [&](bool on_device) {
    GpuRunner runner(model_.file, small_options(), kCache);
    RunnerDriver driver(*runner);
    driver.start(4, ids(30, 8));
    driver.step({{.slot = 4, .count = 30, .wants_id = true}});
    for (int i = 0; i < 20; ++i) {
      driver.step({{.slot = 4, .count = 1, .wants_id = true, .first_id_on_device = on_device}});
    }
    return driver.ids(4);
  };
  EXPECT_EQ(generate(true), generate(false));
}

TEST_P(StepsOnGpu, NothingIsAllocatedOnceReady) {
  GpuRunner runner(model_.file, small_options(), kCache);
  const std::int64_t before = GpuRunner::device().allocated_bytes();
  for (unsigned round = 0; round < 4; ++round) {
    RunnerDriver driver(*runner, round);
    for (std::int32_t slot = 0; slot < 12; ++slot) driver.start(slot, ids(20 + slot, round + 1));
    for (std::int32_t slot = 0; slot < 12; ++slot) driver.generate(slot, 16, 20);
  }
  EXPECT_EQ(GpuRunner::device().allocated_bytes(), before);
}

INSTANTIATE_TEST_SUITE_P(Models, StepsOnGpu, testing::Values(0, 1, 2));

// CASES E10: pages whose elements have no number of 32 bits, in memory that came after capture.
TEST(WideCacheOnGpu, TheHighestBlocksGiveTheBitsOfTheLowest) {
  const SmallModel model(small_configs()[0]);  // 256 elements a token and layer
  constexpr std::int64_t kTokens = (std::int64_t{1} << 31) / 256 + 1'000'000;
  GpuRunner runner(model.file, small_options(), {.tokens = kTokens, .bytes = 0});
  const std::int64_t blocks = runner->info().groups[0].block_count;
  ASSERT_GT(blocks * 16 * 256, std::int64_t{1} << 31);
  const auto run = [&](bool highest) {
    RunnerDriver driver(*runner, 0);
    if (highest) {
      auto& pages = driver.free_pages()[0];
      for (std::size_t i = 0; i < pages.size(); ++i)
        pages[i] = static_cast<std::int32_t>(blocks - 1) - static_cast<std::int32_t>(i);
    }
    driver.start(0, some_ids(140, model.vocab, 4));
    driver.step({{.slot = 0, .count = 77, .want = Want::kLogits}});
    driver.step({{.slot = 0, .count = 63, .wants_id = true, .want = Want::kLogits}});
    for (int i = 0; i < 5; ++i) driver.step({{.slot = 0, .wants_id = true, .want = Want::kLogits}});
    return driver.logits(0);
  };
  const std::vector<float> lowest = run(false);
  EXPECT_TRUE(same_bits(run(true), lowest));
  EXPECT_LE(logit_error({lowest.begin(), lowest.begin() + 140 * model.vocab},
                        reference_logits(model, some_ids(140, model.vocab, 4))),
            kBound);
}

/// The two best logits of the last of some tokens, one less the other.
double gap_after(runtime::Runner& runner, const std::vector<std::int32_t>& ids, std::int64_t vocab) {
  RunnerDriver driver(runner);
  driver.start(9, ids);
  driver.step({{.slot = 9, .count = static_cast<std::int32_t>(ids.size()), .want = Want::kLogits}});
  std::vector<float> row(driver.logits(9).end() - vocab, driver.logits(9).end());
  std::ranges::nth_element(row, row.begin() + 1, std::greater());
  return static_cast<double>(row[0] - row[1]);
}

// Another chunk, bucket or hit gives the same ids up to the first near tie.
TEST(PromptsOnGpu, IdsAreEqualUpToNearTies) {
  const char* const folder = std::getenv("PAGODA_MODELS");
  const std::string path = std::string(folder != nullptr ? folder : "models") + "/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const io::ModelFile file = io::open_model(path).value();
  const std::vector<std::int32_t> text =
      fixtures::read_golden("tests/golden/logprobs/smollm2-135m.ten_scripts.txt").tokens;
  constexpr std::int64_t kPrompts = 200, kDrawn = 16;
  model::PlanOptions options = small_options();
  options.context = 512;
  GpuRunner runner(file, options, kCache);
  std::int64_t equal = 0;
  double widest = 0;
  for (std::int64_t i = 0; i < kPrompts; ++i) {
    const auto from = static_cast<std::size_t>(i * 37) % (text.size() - 60);
    std::vector<std::int32_t> ids(text.begin() + static_cast<std::ptrdiff_t>(from),
                                  text.begin() + static_cast<std::ptrdiff_t>(from) + 19 + i % 31);
    const auto alone = draw_ids(*runner, ids, {150, false, false}, {}, 0, kDrawn);
    const auto other = draw_ids(*runner, ids, kWays[static_cast<std::size_t>(i) % std::size(kWays)], {}, 0, kDrawn);
    const auto [a, b] = std::ranges::mismatch(alone, other);
    equal += a == alone.end() ? 1 : 0;
    if (a == alone.end()) continue;
    ids.insert(ids.end(), alone.begin(), a);
    const double gap = gap_after(*runner, ids, runner->info().vocab);
    widest = std::max(widest, gap);
    EXPECT_LE(gap, 0.1) << "prompt " << i << ", id " << a - alone.begin();
  }
  std::printf("%lld of %lld prompts have equal ids; the widest gap of a near tie is %.3f\n",
              static_cast<long long>(equal), static_cast<long long>(kPrompts), widest);
  EXPECT_GE(equal, kPrompts * 99 / 100);
}

std::vector<SamplingParams> samplings() {
  const auto make = [](auto&& change) { return fixtures::sampling(change); };
  return {make([](SamplingParams&) {}), make([](SamplingParams& p) { p.temperature = 1.0f; }),
          make([](SamplingParams& p) {
            p.temperature = 1.3f;
            p.top_k = 5;
          }),
          make([](SamplingParams& p) {
            p.temperature = 0.8f;
            p.top_p = 0.7f;
            p.logprobs = 4;
          }),
          make([](SamplingParams& p) {
            p.temperature = 2.0f;
            p.min_p = 0.1f;
            p.repetition_penalty = 1.3f;
            p.presence_penalty = 0.5f;
            p.logit_bias = {{3, 2.0f}, {5, -100.0f}};
          })};
}

/// The device's draws, and the host's for the same logits.
struct Draws {
  std::vector<std::int32_t> device, host;
};

Draws draw(const SmallModel& model, const SamplingParams& params, std::uint64_t seed, bool host_too) {
  GpuRunner runner(model.file, small_options(), kCache);
  RunnerDriver driver(*runner);
  const std::vector<std::int32_t> prompt = some_ids(13, model.vocab, 3);
  runtime::Sampler sampler(model.vocab, 400, 12);
  runtime::RowScratch<float> scratch(model.vocab, device::detect_isa());
  const runtime::SlotSetup setup{.sampling = &params,
                                 .seed = seed,
                                 .choice = 0,
                                 .tokens = prompt,
                                 .prompt_tokens = std::ssize(prompt),
                                 .end_ids = {}};
  EXPECT_TRUE(sampler.set_slot(6, setup).ok());
  driver.start(6, prompt, params, seed);
  Draws draws;
  for (int i = 0; i < 30; ++i) {
    const auto count = static_cast<std::int32_t>(driver.left(6));
    const std::int64_t position = std::ssize(driver.ids(6));
    const auto rows =
        driver.step({{.slot = 6, .count = count, .wants_id = true, .want = host_too ? Want::kLogits : Want::kNothing}});
    draws.device.push_back(rows[0].id);
    if (!host_too) continue;
    const auto vocab = static_cast<std::size_t>(model.vocab);
    std::vector<TokenLogprob> best(static_cast<std::size_t>(std::max(0, sampler.num_best(6))));
    runtime::RowResult result;
    sampler.sample<float>(6, position, rows[0].logits.last(vocab), scratch, best, result);
    draws.host.push_back(result.id);
    if (params.logprobs) {
      EXPECT_NEAR(rows[0].logprob, result.logprob, 1e-4);
      EXPECT_EQ(rows[0].best.size(), best.size());
      for (std::size_t b = 0; b < best.size(); ++b) {
        EXPECT_NEAR(rows[0].best[b].logprob, best[b].logprob, 1e-4);
      }
    }
  }
  return draws;
}

TEST(SamplingOnGpu, DrawsAreTheHostsForTheSameLogits) {
  const SmallModel model(small_configs()[2]);
  for (const SamplingParams& params : samplings()) {
    const Draws draws = draw(model, params, 1234, true);
    EXPECT_EQ(draws.device, draws.host);
  }
}

TEST(SamplingOnGpu, ASeedIsReproducible) {
  const SmallModel model(small_configs()[0]);
  const SamplingParams params = samplings()[1];
  const auto first = draw(model, params, 7, false).device;
  EXPECT_EQ(draw(model, params, 7, false).device, first);
  EXPECT_NE(draw(model, params, 8, false).device, first) << "the seed must matter";
}

// CASES D2: a row without a number for a logit ends alone.
TEST(NanOnGpu, ARowOfNaNEndsAloneAndNeighboursKeepTheirBits) {
  fixtures::TinyConfig config = small_configs()[0];
  config.format = "f32";
  config.separate_head = true;
  config.nan_id = 5;
  const SmallModel model(config);
  const auto run = [&](std::int32_t id) {
    GpuRunner runner(model.file, small_options(), kCache);
    RunnerDriver driver(*runner);
    std::vector<std::int32_t> bad = {7, 9, id, 11};
    driver.start(0, {1, 2, 3, 4, 6, 8});
    driver.start(1, bad);
    driver.start(2, {10, 12, 14});
    const auto rows = driver.step({{.slot = 0, .count = 6, .wants_id = true, .want = Want::kLogits},
                                   {.slot = 1, .count = 4, .wants_id = true},
                                   {.slot = 2, .count = 3, .wants_id = true, .want = Want::kLogits}});
    EXPECT_FALSE(rows[0].non_finite);
    EXPECT_EQ(rows[1].non_finite, id == 5);
    EXPECT_FALSE(rows[2].non_finite);
    EXPECT_EQ(rows[1].id == sched::kNoToken, id == 5);
    // The slot's pages hold NaN now; who decodes beside it does not see it.
    driver.step({{.slot = 0, .count = 1, .wants_id = true, .want = Want::kLogits},
                 {.slot = 2, .count = 1, .wants_id = true, .want = Want::kLogits}});
    std::vector<float> logits = driver.logits(0);
    logits.insert(logits.end(), driver.logits(2).begin(), driver.logits(2).end());
    return logits;
  };
  EXPECT_TRUE(same_bits(run(5), run(15)));
}

}  // namespace
}  // namespace pagoda::models
