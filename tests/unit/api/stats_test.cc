// What a running model tells of itself: every figure that a metrics page needs, and the ledger of its memory.
#include <algorithm>

#include "api/cache_size.h"
#include "api/describe.h"
#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

TEST(StatsTest, HistogramsHoldOneValueForEachThingThatHappened) {
  const Model model = open_tiny({}, {.max_running = 3});
  std::vector<Generation> running;
  for (int i = 0; i < 7; ++i) {
    auto generation = model.generate(ask_text("a question", 9));
    ASSERT_TRUE(generation.ok());
    running.push_back(std::move(*generation));
  }
  for (Generation& generation : running) ASSERT_TRUE(generation.collect().ok());
  const Stats stats = model.stats();
  EXPECT_EQ(stats.accepted, 7);
  EXPECT_EQ(stats.finished, 7);
  EXPECT_EQ(stats.stopped, 0);
  EXPECT_EQ(stats.running + stats.queued, 0);
  EXPECT_EQ(stats.generated_tokens, 63);
  EXPECT_EQ(stats.queue_s.count(), 7);
  EXPECT_EQ(stats.first_token_s.count(), 7);
  EXPECT_EQ(stats.inter_token_s.count(), 56);
  EXPECT_EQ(stats.request_s.count(), 7);
  EXPECT_EQ(stats.step_s.count(), stats.steps);
  EXPECT_EQ(stats.step_rows.count(), stats.steps);
  EXPECT_EQ(stats.step_tokens.count(), stats.steps);
  EXPECT_GE(stats.step_tokens.sum, stats.step_rows.sum);
  // Every token but a choice's last is computed, unless it was cached.
  EXPECT_EQ(stats.step_tokens.sum, static_cast<double>(stats.prompt_tokens - stats.cached_tokens + 63 - 7));
  EXPECT_EQ(stats.step_rows.counts[2] + stats.step_rows.counts[1] + stats.step_rows.counts[0], stats.steps);
  EXPECT_LE(stats.first_token_s.sum, stats.request_s.sum);
  EXPECT_EQ(stats.stalled_ms, 0);
  for (const Histogram* each : {&stats.queue_s, &stats.step_rows}) {
    ASSERT_EQ(each->counts.size(), each->bounds.size() + 1);
    EXPECT_TRUE(std::ranges::is_sorted(each->bounds));
  }
  EXPECT_TRUE(model.health().ok());
}

TEST(StatsTest, RefusalsAreCountedByReason) {
  const Model model = open_tiny({}, {.context = 50, .max_running = 1, .max_queued = 2});
  EXPECT_FALSE(model.generate(ask_text(std::string(50, 'a'), 5)).ok());
  Request wrong = ask_text("abc", 5);
  wrong.sampling.top_p = 2.f;
  EXPECT_FALSE(model.generate(wrong).ok());
  wrong = ask_text("abc", 5);
  wrong.prompt = Chat{.messages_json = "{"};
  EXPECT_FALSE(model.generate(wrong).ok());
  Request many = ask_text("abc", 5);
  many.n = 4;
  EXPECT_FALSE(model.generate(many).ok());
  const Stats stats = model.stats();
  EXPECT_EQ(stats.refusals.prompt_too_long, 1);
  EXPECT_EQ(stats.refusals.invalid, 3);
  EXPECT_EQ(stats.refusals.queue_full, 0);
  EXPECT_EQ(stats.refusals.failed, 0);
  EXPECT_EQ(stats.accepted, 0);
  many.n = 3;
  many.sampling.max_tokens = 40;
  bool refused = false;
  for (int i = 0; i < 1000 && !refused; ++i) {  // the three may end before the fourth asks, or after their successors
    const auto running = model.generate(many);
    refused = !running.ok() || !model.generate(ask_text("abc", 5)).ok();
  }
  EXPECT_EQ(model.stats().refusals.queue_full, 1);
  const Model small = open_tiny({}, {.context = 190, .kv_tokens = 48});
  EXPECT_FALSE(small.generate(ask_text(std::string(60, 'a'), 5)).ok());
  EXPECT_EQ(small.stats().refusals.prompt_too_long, 1);
}

TEST(StatsTest, OverdueAndStoppedAreCountedApart) {
  const Model model = open_tiny();
  Request late = ask_text("abc", 190);
  late.deadline_ms = 0.001;
  auto overdue = model.generate(late);
  ASSERT_TRUE(overdue.ok());
  (void)overdue->collect();
  const std::int32_t id = collect(model, ask_text("abc", 30)).choices[0].ids[5];
  Request stopped = ask_text("abc", 30);
  stopped.sampling.stop_ids = {id};
  (void)collect(model, stopped);
  const Stats stats = model.stats();
  EXPECT_EQ(stats.overdue, 1);
  EXPECT_EQ(stats.cancelled, 1);
  EXPECT_EQ(stats.finished, 2);
  EXPECT_EQ(stats.stopped, 1);
  EXPECT_EQ(stats.request_s.count(), 2);
}

TEST(LedgerTest, ACacheHasAContextForEachOfTheSequencesThatMayRun) {
  const Model model = open_tiny({}, {.context = 100, .max_running = 3});
  EXPECT_EQ(model.info().kv_tokens, 304);  // whole blocks
  const ModelMemory memory = model.stats().memory;
  EXPECT_EQ(memory.cache_reason, "one context for each of 3 sequences");
  EXPECT_EQ(memory.cache_tokens, 304);
  EXPECT_EQ(memory.context, 100);
  EXPECT_EQ(memory.cache_bytes, model.info().kv_bytes);
  EXPECT_GT(memory.weight_bytes, 0);
  EXPECT_GT(memory.workspace_bytes, 0);
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.device_bytes);
  const std::vector<std::string> lines = ledger(memory);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[1].find("304 tokens: 3.0 contexts of 100 (one context for each"), std::string::npos) << lines[1];
  EXPECT_EQ(open_tiny({}, {.context = 100, .kv_tokens = 64}).stats().memory.cache_reason, "as asked");
}

// Of a plan whose sequences could never all be held: half of what is free, and one context in any case.
TEST(LedgerTest, ACacheTakesNoMoreThanHalfOfWhatIsFree) {
  const TemporaryFile file(tiny_chat_bytes());
  const DescribedFile described = describe_file(file.path(), {}).value();
  ModelOptions options{.context = 200, .max_running = 8};
  const model::Plan plan =
      plan_for(described.description, device::cpu_caps(device::detect_isa()).value(), options, 1).value();
  const auto tokens = [&](std::int64_t free_bytes) {
    const runtime::CacheSize size = cache_size(options, plan, free_bytes).value();
    const auto groups = runtime::size_cache(plan, size).value();
    return groups[0].block_count * groups[0].block_size;
  };
  const std::int64_t workspace = plan.activation_bytes + plan.scratch_bytes;
  const std::int64_t block = plan.bytes_per_block(0);
  EXPECT_EQ(tokens(workspace + 2 * 60 * block), 60 * 16);
  EXPECT_EQ(tokens(workspace + 2 * 60 * block - 1), 59 * 16);
  EXPECT_EQ(tokens(std::int64_t{1} << 40), 1600);
  EXPECT_EQ(tokens(0), 208) << "one context";
}

TEST(LedgerTest, AContextIsNoMoreThanTheCacheHolds) {
  EXPECT_EQ(open_tiny().info().context, 200);
  EXPECT_EQ(open_tiny({}, {.context = 150, .kv_tokens = 160}).info().context, 150);
  for (const std::optional<std::int64_t> asked : {std::optional<std::int64_t>(), std::optional<std::int64_t>(150)}) {
    const Model model = open_tiny({}, {.context = asked, .kv_tokens = 48});
    EXPECT_EQ(model.info().context, 48);
    EXPECT_EQ(model.stats().memory.context, 48);
    EXPECT_EQ(collect(model, ask_text(std::string(47, 'a'), 5)).usage.completion_tokens, 1);
    EXPECT_EQ(collect(model, ask_text(std::string(48, 'a'), 0)).usage.completion_tokens, 0);
    const auto full = model.generate(ask_text(std::string(48, 'a'), 1));
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.error().code, ErrorCode::kPromptTooLong);
    EXPECT_NE(full.error().message.find("48 tokens, and the context of 48"), std::string::npos) << full.error().message;
  }
}

TEST(LedgerTest, AContextThatWasAskedForAndIsNotServedIsTold) {
  std::vector<std::string> told;
  const auto library = Library::create({.threads = 1, .log = [&told](LogLevel level, std::string_view message) {
                                          if (level == LogLevel::kWarning) told.emplace_back(message);
                                        }});
  ASSERT_TRUE(library.ok());
  const TemporaryFile file(tiny_chat_bytes());
  for (const std::int64_t asked : {48, 150}) {
    ASSERT_TRUE(Model::open(*library, file.path(), {.device = "cpu", .context = asked, .kv_tokens = 48}).ok());
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("48 tokens"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("not 150"), std::string::npos) << told[0];
}

}  // namespace
}  // namespace pagoda::api
