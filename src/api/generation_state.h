#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "api/model_state.h"
#include "engine/hook.h"
#include "engine/job.h"
#include "pagoda/generation.h"
#include "text/reasoning_splitter.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

namespace pagoda {

/// The reader's side of a request: turns each choice's ids into text, and cuts it at stop strings.
struct Generation::State {
  /// Where the reader stands in one choice.
  struct Choice {
    Choice(std::shared_ptr<engine::Job> from, const text::Tokenizer& tokenizer,
           std::shared_ptr<const text::StopStrings> stop_strings, std::string prompt_text,
           text::ReasoningSplitter reasoning);

    std::shared_ptr<engine::Job> job;
    text::StreamDecoder decoder;
    text::ReasoningSplitter splitter;
    text::StopMatcher stops;   // of what the splitter gives out: marks are no text, and neither match nor show
    bool reasons = false;      // what the matcher was given last
    std::deque<Event> events;  // made and not read yet
    std::string echo;          // goes before the first text
    std::int64_t taken = 0;
    std::int64_t prompt_taken = 0;
    bool ended = false;  // its last event was made

    bool done() const { return ended && events.empty(); }
  };

  State(std::shared_ptr<Model::State> of, std::vector<std::shared_ptr<engine::Job>> jobs, const std::string& echo,
        const text::ReasoningSplitter& reasoning, std::uint64_t seed_in_use);
  ~State();

  std::optional<Event> poll();
  bool finished() const;
  void cancel();

  std::shared_ptr<Model::State> model;
  std::vector<Choice> choices;
  std::uint64_t seed = 0;

  std::atomic<std::int32_t> changes{0};  // counts up whenever a job has something new

  engine::Hook hook;

  // For Session: the text that was read so far, and whether the last event was.
  std::string text_read;

 private:
  std::optional<Event> poll(std::size_t index);
  using Pieces = std::vector<text::ReasoningSplitter::Piece>;
  void make_events(std::size_t index);
  void take_ids(Choice& choice, std::int64_t count, Event& event, Pieces& shown);
  void take_prompt(Choice& choice, Event& event);
  void end(Choice& choice, Event& event, Pieces& shown);
  static void cut(Choice& choice, const Pieces& text, Pieces& shown);

  std::size_t turn_ = 0;  // the choice to look at first
};

}  // namespace pagoda
