#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "base/thread_pool.h"
#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

std::string long_text(std::int64_t length) {
  std::string text;
  for (std::int64_t i = 0; i < length; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

TEST(GenerationTest, StreamedTextIsTheWholeText) {
  const Model model = open_tiny();
  const Answer whole = collect(model, ask_text("hello there", 40));
  auto generation = model.generate(ask_text("hello there", 40));
  ASSERT_TRUE(generation.ok());
  std::string text;
  std::vector<std::int32_t> ids;
  std::optional<Event> last;
  while (auto event = generation->wait()) {
    EXPECT_FALSE(last) << "nothing follows the last event";
    text += event->text;
    ids.insert(ids.end(), event->ids.begin(), event->ids.end());
    if (event->finish != FinishReason::kNone) last = event;
  }
  ASSERT_TRUE(last);
  EXPECT_TRUE(generation->finished());
  EXPECT_EQ(text, whole.choices[0].text);
  EXPECT_EQ(ids, whole.choices[0].ids);
  EXPECT_EQ(last->finish, FinishReason::kLength);
  EXPECT_EQ(last->usage.prompt_tokens, 11);
  EXPECT_EQ(last->usage.completion_tokens, 40);
  EXPECT_EQ(last->timings.decode_tokens, 39);
  EXPECT_GT(last->timings.first_token_ms, 0);
  EXPECT_EQ(blocks_used(model), 0);
}

// What a reader who was away finds comes in parts, so that no part is as large as the answer.
TEST(GenerationTest, ALateReaderGetsParts) {
  TinyChat chat;
  chat.model.context = 700;
  const Model model = open_tiny(chat);
  Request request = ask_text("hello there", 600);
  request.sampling.stop = {"\x01"};  // which never comes
  const Answer whole = collect(model, request);
  ASSERT_EQ(whole.choices[0].ids.size(), 600);
  auto generation = model.generate(request);
  ASSERT_TRUE(generation.ok());
  while (model.stats().finished < 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::string text;
  std::vector<std::size_t> sizes;
  while (auto event = generation->poll()) {
    text += event->text;
    sizes.push_back(event->ids.size());
    EXPECT_EQ(event->finish != FinishReason::kNone, sizes.size() == 3);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{256, 256, 88}));
  EXPECT_EQ(text, whole.choices[0].text);
}

TEST(GenerationTest, TheSameIdsForEveryChunkThreadCountAndHit) {
  const Request request = ask_text(long_text(70), 50);
  const Answer expected = collect(open_tiny(), request);
  for (const std::int64_t chunk : {1, 16, 17, 64, 512}) {
    const Model model = open_tiny({}, {.prefill_chunk = chunk});
    EXPECT_EQ(collect(model, request).choices[0].ids, expected.choices[0].ids) << chunk;
    const Answer again = collect(model, request);
    EXPECT_EQ(again.choices[0].ids, expected.choices[0].ids) << chunk;
    EXPECT_EQ(again.usage.cached_tokens, 64);
  }
}

// A head with more rows than the tokenizer has tokens: those that are left over are never drawn, however hot.
TEST(GenerationTest, IdsWithoutATokenAreNeverDrawn) {
  const auto num_tokens = static_cast<std::int32_t>(tiny_tokens().size());
  TinyChat chat;
  chat.model.vocab = num_tokens + 61;
  chat.model.separate_head = true;
  for (const std::string device : {"cpu", "reference"}) {
    const Model model = open_tiny(chat, {.device = device});
    EXPECT_EQ(model.info().vocabulary, num_tokens + 61);
    std::set<std::int32_t> drawn;
    for (const float temperature : {0.0f, 1.0f, 100.0f}) {
      for (const std::int32_t top_k : {0, 90}) {
        Request request = ask_text("abc", 150);
        request.sampling.temperature = temperature;
        request.sampling.top_k = top_k;
        request.sampling.seed = 7;
        request.sampling.logprobs = 3;
        request.sampling.presence_penalty = 0.5f;
        request.sampling.min_tokens = 9;
        const Answer answer = collect(model, request);
        ASSERT_EQ(answer.choices[0].ids.size(), 150u);
        for (const std::int32_t id : answer.choices[0].ids) EXPECT_LT(id, num_tokens) << device << " " << temperature;
        drawn.insert(answer.choices[0].ids.begin(), answer.choices[0].ids.end());
      }
    }
    EXPECT_GT(drawn.size(), 50u);
    Request biased = ask_text("abc", 5);
    biased.sampling.logit_bias = {{num_tokens, 1.0f}};
    EXPECT_EQ(model.generate(biased).error().param, "logit_bias");
  }
}

// CASES C1: no part of a stop string is ever shown, and what only looked like one comes out whole.
TEST(GenerationTest, C1StopStringsAreHeldBackAndCut) {
  const Model model = open_tiny();
  const std::string whole = collect(model, ask_text("abc", 60)).choices[0].text;
  ASSERT_GT(whole.size(), 40u);
  Request request = ask_text("abc", 60);
  const std::string stop = whole.substr(20, 4);
  request.sampling.stop = {"never here", stop};
  auto generation = model.generate(request);
  ASSERT_TRUE(generation.ok());
  const std::string expected = whole.substr(0, whole.find(stop));
  std::string text;
  FinishReason finish = FinishReason::kNone;
  Usage usage;
  std::size_t ids = 0;
  while (auto event = generation->wait()) {
    text += event->text;
    ids += event->ids.size();
    EXPECT_TRUE(expected.starts_with(text)) << text;
    finish = event->finish;
    usage = event->usage;
  }
  EXPECT_EQ(text, expected);
  EXPECT_EQ(finish, FinishReason::kStop);
  EXPECT_EQ(ids, static_cast<std::size_t>(usage.completion_tokens));
  EXPECT_EQ(collect(model, request).choices[0].text, expected);
  EXPECT_EQ(blocks_used(model), 0);
}

TEST(GenerationTest, AStopIdIsNoText) {
  const Model model = open_tiny();
  const Answer whole = collect(model, ask_text("abc", 30));
  Request request = ask_text("abc", 30);
  request.sampling.stop_ids = {whole.choices[0].ids[12]};
  const Answer cut = collect(model, request);
  const auto& ids = cut.choices[0].ids;
  EXPECT_EQ(cut.choices[0].finish, FinishReason::kStop);
  EXPECT_EQ(ids.back(), whole.choices[0].ids[12]);
  EXPECT_EQ(cut.choices[0].text, *model.detokenize(std::span(ids).first(ids.size() - 1)));
}

TEST(GenerationTest, TheContextsEndIsLength) {
  const Model model = open_tiny({}, {.context = 50});
  Request request = ask_text(long_text(30), 0);
  request.sampling.max_tokens.reset();
  const Answer answer = collect(model, request);
  EXPECT_EQ(answer.choices[0].finish, FinishReason::kLength);
  EXPECT_EQ(answer.usage.completion_tokens, 20);
}

// CASES C3, I5: nothing is cut; both numbers are named; the next request is served.
TEST(GenerationTest, C3APromptOverTheContextIsRefusedWithBothNumbers) {
  const Model model = open_tiny({}, {.context = 50});
  for (const std::int64_t length : {50, 51, 500}) {
    const auto refused = model.generate(ask_text(long_text(length), 5));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kPromptTooLong);
    EXPECT_NE(refused.error().message.find(std::to_string(length)), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find(" 50 "), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(collect(model, ask_text(long_text(49), 5)).usage.completion_tokens, 1);
  EXPECT_EQ(model.stats().running + model.stats().queued, 0);
}

TEST(GenerationTest, ChoicesDifferAndRepeatBySeed) {
  const Model model = open_tiny();
  Request request = ask_text("tell me", 25);
  request.sampling.temperature = 1.5f;
  request.sampling.seed = 42;
  request.n = 4;
  const Answer first = collect(model, request);
  const Answer second = collect(model, request);
  EXPECT_EQ(first.seed, 42u);
  std::set<std::vector<std::int32_t>> different;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(first.choices[i].ids, second.choices[i].ids) << i;
    different.insert(first.choices[i].ids);
  }
  EXPECT_EQ(different.size(), 4u);
  EXPECT_EQ(first.usage.prompt_tokens, 7);
  EXPECT_EQ(first.usage.completion_tokens, 100);
}

// CASES D4 through the facade: each answer equals its solo run whatever runs beside it.
TEST(GenerationTest, D4ParametersStayWithTheirRequest) {
  const Model model = open_tiny();
  Request penalised = ask_text("abcabc", 15);
  penalised.sampling.repetition_penalty = 2.f;
  Request seeded = ask_text("abcabc", 14);
  seeded.sampling.temperature = 1.f;
  seeded.sampling.seed = 99;
  const auto alone_penalised = collect(model, penalised).choices[0].ids;
  const auto alone_seeded = collect(model, seeded).choices[0].ids;
  ASSERT_NE(alone_penalised, collect(model, ask_text("abcabc", 15)).choices[0].ids);
  for (const bool swapped : {false, true}) {
    auto a = model.generate(swapped ? seeded : penalised);
    auto b = model.generate(swapped ? penalised : seeded);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->collect()->choices[0].ids, swapped ? alone_seeded : alone_penalised);
    EXPECT_EQ(b->collect()->choices[0].ids, swapped ? alone_penalised : alone_seeded);
  }
}

TEST(GenerationTest, LogprobsAreOfTheRawDistribution) {
  const Model model = open_tiny();
  Request request = ask_text("what is it", 9);
  request.sampling.temperature = 0.7f;
  request.sampling.top_k = 2;
  request.sampling.seed = 1;
  request.sampling.logprobs = 5;
  request.prompt_logprobs = 3;
  const Answer answer = collect(model, request);
  const Answer::Choice& choice = answer.choices[0];
  ASSERT_EQ(choice.logprobs.size(), 9u);
  ASSERT_EQ(choice.prompt_logprobs.size(), 9u);  // 10 tokens; the first has no past
  std::vector<std::int32_t> ids = *model.tokenize("what is it");
  ids.insert(ids.end(), choice.ids.begin(), choice.ids.end());
  const auto scored = score(model, {.text = TokenIds{ids}});
  ASSERT_TRUE(scored.ok());
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(choice.logprobs[i].token.id, choice.ids[i]);
    EXPECT_NEAR(choice.logprobs[i].token.logprob, scored->logprobs[9 + i], 1e-5);
    EXPECT_EQ(choice.logprobs[i].best.size(), 5u);
    EXPECT_GE(choice.logprobs[i].best[0].logprob, choice.logprobs[i].best[4].logprob);
    EXPECT_NEAR(choice.prompt_logprobs[i].token.logprob, scored->logprobs[i], 1e-5);
    EXPECT_EQ(choice.prompt_logprobs[i].best.size(), 3u);
  }
}

TEST(GenerationTest, EchoPutsThePromptFirst) {
  const Model model = open_tiny();
  Request request = ask_text("over and over", 6);
  const std::string answer = collect(model, request).choices[0].text;
  request.echo = true;
  EXPECT_EQ(collect(model, request).choices[0].text, "over and over" + answer);
}

// CASES A1: what the prompt ends with is never told again.
TEST(GenerationTest, A1TheFirstTextIsGenerated) {
  const Model model = open_tiny();
  Request request = ask_text("", 8);
  std::vector<std::int32_t> prompt = *model.tokenize("hello world");
  request.prompt = TokenIds{prompt};
  const Answer answer = collect(model, request);
  std::string expected;
  for (const std::int32_t id : answer.choices[0].ids) {
    if (id > kTurnEnd) expected += *model.detokenize(std::span(&id, 1));
  }
  EXPECT_EQ(answer.choices[0].text, expected);
}

TEST(GenerationTest, CancelAndADroppedReaderFreeEverything) {
  const Model model = open_tiny();
  Request request = ask_text(long_text(40), 150);
  {
    auto dropped = model.generate(request);
    ASSERT_TRUE(dropped.ok());
    (void)dropped->wait();
  }
  auto cancelled = model.generate(request);
  ASSERT_TRUE(cancelled.ok());
  // A fast engine may have told everything in the first event.
  std::optional<Event> last = cancelled->wait();
  cancelled->cancel();
  while (auto event = cancelled->wait()) last = event;
  ASSERT_TRUE(last);
  if (last->finish == FinishReason::kCancelled) {
    EXPECT_EQ(last->error->code, ErrorCode::kCancelled);
  }
  for (int i = 0; i < 2000 && model.stats().running > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(blocks_used(model), 0);
}

/// Keeps the engine's thread inside a step until it is destroyed.
class HeldEngine {
 public:
  explicit HeldEngine(const Model& model) {
    scoring_ = std::thread([this, model] {
      const auto scored = score(model, {.text = RawText{.text = "held"}, .on_logits = [this](auto, auto) {
                                          held_.store(true);
                                          held_.notify_all();
                                          released_.wait(false);
                                          return true;
                                        }});
      PAGODA_CHECK(scored.ok(), "{}", scored.error().message);
    });
    held_.wait(false);
  }
  ~HeldEngine() {
    released_.store(true);
    released_.notify_all();
    scoring_.join();
  }

 private:
  std::atomic<bool> held_{false}, released_{false};
  std::thread scoring_;
};

// Nothing of the answer exists before the hook is set, so every part of it is announced.
TEST(GenerationTest, TheHookTellsThatThereIsSomething) {
  const Model model = open_tiny();
  std::atomic<int> calls{0};
  auto held = std::make_optional<HeldEngine>(model);
  auto generation = model.generate(ask_text("hook", 20));
  ASSERT_TRUE(generation.ok());
  generation->on_ready([&] {
    calls.fetch_add(1);
    calls.notify_all();
  });
  EXPECT_FALSE(generation->poll());
  held.reset();
  std::size_t ids = 0;
  while (!generation->finished()) {
    const int seen = calls.load();
    while (auto event = generation->poll()) ids += event->ids.size();
    if (!generation->finished()) calls.wait(seen);
  }
  generation->on_ready({});
  EXPECT_EQ(ids, 20u);
  EXPECT_GT(calls.load(), 0);
}

TEST(GenerationTest, ADeadlineEndsIt) {
  const Model model = open_tiny();
  Request request = ask_text(long_text(100), 90);
  request.deadline_ms = 0.001;
  auto generation = model.generate(request);
  ASSERT_TRUE(generation.ok());
  const auto answer = generation->collect();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kDeadlineExceeded);
}

TEST(GenerationTest, EveryParameterOutOfItsRangeIsNamed) {
  const Model model = open_tiny();
  const auto refused = [&](auto change, const std::string& name) {
    Request request = ask_text("abc", 4);
    change(request);
    const auto generation = model.generate(request);
    ASSERT_FALSE(generation.ok()) << name;
    EXPECT_EQ(kind_of(generation.error().code), ErrorKind::kUsage) << name;
    EXPECT_EQ(generation.error().param, name);
  };
  refused([](Request& r) { r.sampling.temperature = -1.f; }, "temperature");
  refused([](Request& r) { r.sampling.temperature = NAN; }, "temperature");
  refused([](Request& r) { r.sampling.top_k = -1; }, "top_k");
  refused([](Request& r) { r.sampling.top_p = 0.f; }, "top_p");
  refused([](Request& r) { r.sampling.top_p = 1.1f; }, "top_p");
  refused([](Request& r) { r.sampling.min_p = -0.1f; }, "min_p");
  refused([](Request& r) { r.sampling.repetition_penalty = 0.f; }, "repetition_penalty");
  refused([](Request& r) { r.sampling.presence_penalty = 3; }, "presence_penalty");
  refused([](Request& r) { r.sampling.frequency_penalty = NAN; }, "frequency_penalty");
  refused([](Request& r) { r.sampling.max_tokens = -1; }, "max_tokens");
  refused([](Request& r) { r.sampling.min_tokens = -1; }, "min_tokens");
  refused([](Request& r) { r.sampling.min_tokens = 5; }, "min_tokens");  // max_tokens is 4
  refused([](Request& r) { r.sampling.logit_bias.assign(1025, {3, 1.f}); }, "logit_bias");
  refused([](Request& r) { r.sampling.logprobs = 21; }, "logprobs");
  refused([](Request& r) { r.sampling.stop = {""}; }, "stop");
  refused([](Request& r) { r.sampling.stop_ids = {67}; }, "stop_ids");
  refused([](Request& r) { r.sampling.logit_bias = {{67, 1.f}}; }, "logit_bias");
  refused([](Request& r) { r.sampling.logit_bias = {{3, 1.f}, {3, 2.f}}; }, "logit_bias");
  refused([](Request& r) { r.n = 0; }, "n");
  refused([](Request& r) { r.prompt_logprobs = 21; }, "prompt_logprobs");
  refused([](Request& r) { r.deadline_ms = 0; }, "deadline_ms");
  EXPECT_EQ(model.stats().accepted, 0);
}

TEST(GenerationTest, TheFilesSamplingIsTheDefaultAndTheRequestWins) {
  const Model model = open_tiny({.sampling_temp = 3});
  Request request = ask_text("abc", 30);
  request.sampling.seed = 1;
  const auto one = collect(model, request).choices[0].ids;
  request.sampling.seed = 2;
  EXPECT_NE(collect(model, request).choices[0].ids, one);  // drawn, at the file's temperature
  request.sampling.temperature = 0.f;
  const auto greedy = collect(model, request).choices[0].ids;
  request.sampling.seed = 3;
  EXPECT_EQ(collect(model, request).choices[0].ids, greedy);
}

// Random requests from several threads, some dropped: the cache is as empty as before.
TEST(GenerationTest, E1ASoakReturnsEveryBlock) {
  const Model model = open_tiny({}, {.kv_tokens = 600, .max_running = 5});
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 40; ++i) {
        Request request = ask_text(long_text(1 + random() % 70), random() % 40);
        request.n = 1 + static_cast<std::int32_t>(random() % 2);
        auto generation = model.generate(request);
        ASSERT_TRUE(generation.ok()) << generation.error().message;
        if (random() % 4 == 0) continue;
        const auto answer = generation->collect();
        ASSERT_TRUE(answer.ok()) << answer.error().message;
        EXPECT_EQ(std::ssize(answer->choices[0].ids), *request.sampling.max_tokens);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 5000 && model.stats().running + model.stats().queued > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Stats stats = model.stats();
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, stats.blocks_total);
}

}  // namespace
}  // namespace pagoda::api
