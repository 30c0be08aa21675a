#include "pagoda/generation.h"

#include <algorithm>

#include "api/generation_state.h"

namespace pagoda {
namespace {

/// What a slow reader has not taken stays in the job's compact form.
constexpr std::int64_t kMostIdsOfEvent = 256;

double ms_between(engine::Clock::time_point begin, engine::Clock::time_point end) {
  const engine::Clock::time_point never{};
  if (begin == never || end == never) return 0;
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

TokenChoice choice_of(std::int32_t id, const engine::Scored& scored) {
  return {.token = {.id = id, .logprob = scored.logprob}, .best = {scored.best.begin(), scored.best.end()}};
}

Timings timings_of(const engine::Ending& ending) {
  return {.queue_ms = ms_between(ending.submitted, ending.started),
          .first_token_ms = ms_between(ending.submitted, ending.first_id),
          .prefill_ms = ms_between(ending.started, ending.first_id),
          .decode_ms = ms_between(ending.first_id, ending.last_id),
          .prefill_tokens = ending.usage.prompt_tokens - ending.usage.cached_tokens,
          .decode_tokens = std::max<std::int64_t>(0, ending.usage.completion_tokens - 1)};
}

/// As a part of its channel's text that goes on, or as a piece of its own.
void append(std::vector<text::ReasoningSplitter::Piece>& pieces, bool reasoning, std::string text) {
  if (text.empty()) return;
  if (!pieces.empty() && pieces.back().reasoning == reasoning) {
    pieces.back().text += text;
  } else {
    pieces.push_back({.reasoning = reasoning, .text = std::move(text)});
  }
}

}  // namespace

Generation::State::Choice::Choice(std::shared_ptr<engine::Job> from, const text::Tokenizer& tokenizer,
                                  std::shared_ptr<const text::StopStrings> stop_strings, std::string prompt_text,
                                  text::ReasoningSplitter reasoning)
    : job(std::move(from)),
      // The decoder never sees the prompt, and the answer goes on where it ended (CASES A1).
      decoder(tokenizer, true, text::TextStart::kContinuation),
      splitter(std::move(reasoning)),
      stops(std::move(stop_strings)),
      echo(std::move(prompt_text)) {}

Generation::State::State(std::shared_ptr<Model::State> of, std::vector<std::shared_ptr<engine::Job>> jobs,
                         const std::string& echo, const text::ReasoningSplitter& reasoning, std::uint64_t seed_in_use)
    : model(std::move(of)), seed(seed_in_use) {
  const auto stops = std::make_shared<const text::StopStrings>(jobs.front()->submission().sampling.stop);
  for (auto& job : jobs) choices.emplace_back(std::move(job), *model->tokenizer, stops, echo, reasoning);
  for (Choice& choice : choices) {
    choice.job->on_ready([this] {
      changes.fetch_add(1, std::memory_order_release);
      changes.notify_one();
      hook.call();
    });
  }
}

Generation::State::~State() {
  cancel();
  for (Choice& choice : choices) choice.job->on_ready({});
}

void Generation::State::cancel() {
  for (Choice& choice : choices) model->engine->end(*choice.job, FinishReason::kCancelled);
}

bool Generation::State::finished() const {
  return std::ranges::all_of(choices, [](const Choice& choice) { return choice.done(); });
}

std::optional<Event> Generation::State::poll() {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::size_t index = (turn_ + i) % choices.size();
    std::optional<Event> event = poll(index);
    if (!event) continue;
    turn_ = (index + 1) % choices.size();
    if (index == 0 && event->channel == Channel::kContent) text_read += event->text;
    return event;
  }
  return std::nullopt;
}

std::optional<Event> Generation::State::poll(std::size_t index) {
  Choice& choice = choices[index];
  if (choice.events.empty() && !choice.ended) make_events(index);
  if (choice.events.empty()) return std::nullopt;
  Event event = std::move(choice.events.front());
  choice.events.pop_front();
  return event;
}

/// One event for all that is new; more if its text is of both channels, of which the last one tells the end.
void Generation::State::make_events(std::size_t index) {
  Choice& choice = choices[index];
  const bool ended = choice.job->ended();  // before the counts: whoever sees the end, sees all ids
  const std::int64_t all = choice.job->num_ids();
  const std::int64_t count = std::min(all, choice.taken + kMostIdsOfEvent);
  Event event;
  event.choice = static_cast<std::int32_t>(index);
  Pieces pieces;
  take_prompt(choice, event);
  take_ids(choice, count, event, pieces);
  if (ended && (count == all || choice.stops.stopped())) end(choice, event, pieces);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    Event part;
    part.choice = event.choice;
    part.channel = pieces[i].reasoning ? Channel::kReasoning : Channel::kContent;
    part.text = std::move(pieces[i].text);
    part.ids.swap(event.ids);  // with the first
    part.logprobs.swap(event.logprobs);
    choice.events.push_back(std::move(part));
  }
  if (!pieces.empty()) {
    event.channel = pieces.back().reasoning ? Channel::kReasoning : Channel::kContent;
    event.text = std::move(pieces.back().text);
  }
  if (!choice.ended && event.ids.empty() && event.prompt_logprobs.empty() && event.text.empty()) return;
  choice.events.push_back(std::move(event));
}

void Generation::State::take_prompt(Choice& choice, Event& event) {
  const std::vector<std::int32_t>& prompt = choice.job->submission().prompt;
  for (; choice.prompt_taken < choice.job->num_prompt_scores(); ++choice.prompt_taken) {
    const std::int32_t id = prompt[static_cast<std::size_t>(choice.prompt_taken + 1)];
    event.prompt_logprobs.push_back(choice_of(id, choice.job->prompt_scored(choice.prompt_taken)));
  }
}

void Generation::State::take_ids(Choice& choice, std::int64_t count, Event& event, Pieces& shown) {
  const engine::Submission& asked = choice.job->submission();
  append(shown, false, std::exchange(choice.echo, {}));
  while (choice.taken < count && !choice.stops.stopped()) {
    const std::int64_t index = choice.taken++;
    const std::int32_t id = choice.job->id(index);
    event.ids.push_back(id);
    if (asked.sampling.logprobs) event.logprobs.push_back(choice_of(id, choice.job->scored(index)));
    if (std::ranges::find(asked.stop_ids, id) != asked.stop_ids.end()) continue;  // it ends the text, and is none of it
    cut(choice, choice.splitter.push(choice.decoder.push(id)), shown);
    if (choice.stops.stopped()) model->engine->end(*choice.job, FinishReason::kStop);
  }
}

/// Adds what may be shown of an answer's next text, up to a stop string. None reaches from one channel into the other.
void Generation::State::cut(Choice& choice, const Pieces& text, Pieces& shown) {
  for (const auto& [reasoning, part] : text) {
    if (reasoning != choice.reasons) append(shown, choice.reasons, choice.stops.finish());
    choice.reasons = reasoning;
    append(shown, reasoning, choice.stops.push(part));
  }
}

/// The job has ended and all its ids were taken. What the engine drew after a stop string is no part of the answer.
void Generation::State::end(Choice& choice, Event& event, Pieces& shown) {
  const engine::Ending& ending = choice.job->ending();
  cut(choice, choice.splitter.push(choice.decoder.finish()), shown);
  cut(choice, choice.splitter.finish(), shown);
  append(shown, choice.reasons, choice.stops.finish());
  choice.ended = true;
  event.finish = choice.stops.stopped() ? FinishReason::kStop : ending.finish;
  if (!choice.stops.stopped()) event.error = ending.error;
  event.timings = timings_of(ending);
  event.usage = ending.usage;
  event.usage.prompt_tokens = std::ssize(choice.job->submission().prompt);
  event.usage.completion_tokens = choice.taken;
  if (event.choice == 0) return;
  event.usage.prompt_tokens = 0;  // the prompt counts once
  event.usage.cached_tokens = 0;
}

Generation::Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;

Generation& Generation::operator=(Generation&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) state_->cancel();
  state_ = std::move(other.state_);
  return *this;
}

Generation::~Generation() {
  if (state_ != nullptr) state_->cancel();
}

std::optional<Event> Generation::poll() { return state_->poll(); }
bool Generation::finished() const { return state_->finished(); }
void Generation::cancel() { state_->cancel(); }
std::uint64_t Generation::seed() const { return state_->seed; }

std::optional<Event> Generation::wait() {
  for (;;) {
    const std::int32_t seen = state_->changes.load(std::memory_order_acquire);
    if (std::optional<Event> event = state_->poll()) return event;
    if (state_->finished()) return std::nullopt;
    state_->changes.wait(seen, std::memory_order_acquire);
  }
}

void Generation::on_ready(std::function<void()> hook) { state_->hook.set(std::move(hook)); }

Result<Answer> Generation::collect() {
  Answer answer;
  answer.seed = seed();
  answer.choices.resize(state_->choices.size());
  while (std::optional<Event> event = wait()) {
    Answer::Choice& choice = answer.choices[static_cast<std::size_t>(event->choice)];
    (event->channel == Channel::kReasoning ? choice.reasoning : choice.text) += event->text;
    choice.ids.insert(choice.ids.end(), event->ids.begin(), event->ids.end());
    std::ranges::move(event->logprobs, std::back_inserter(choice.logprobs));
    std::ranges::move(event->prompt_logprobs, std::back_inserter(choice.prompt_logprobs));
    if (event->finish == FinishReason::kNone) continue;
    choice.finish = event->finish;
    choice.error = std::move(event->error);
    choice.timings = event->timings;
    answer.usage.prompt_tokens += event->usage.prompt_tokens;
    answer.usage.cached_tokens += event->usage.cached_tokens;
    answer.usage.completion_tokens += event->usage.completion_tokens;
  }
  const bool failed = std::ranges::all_of(
      answer.choices, [](const Answer::Choice& choice) { return choice.finish == FinishReason::kError; });
  if (failed && answer.choices.front().error) return *answer.choices.front().error;
  return answer;
}

}  // namespace pagoda
