// An answer on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pagoda/types.h"

namespace pagoda {

/// What a piece of text is to the reader.
enum class Channel : std::uint8_t {
  kContent,
  kReasoning,  ///< what the model thought before it answered, between marks of its own, which are no part of any text
};

/// The log-probability of a token that was chosen or given, and of the best ones at its place (best first).
struct TokenChoice {
  TokenLogprob token;
  std::vector<TokenLogprob> best;
};

/// Times of one choice in milliseconds, on one clock.
struct Timings {
  double queue_ms = 0;              ///< from submission to the first step that worked on it
  double first_token_ms = 0;        ///< from submission to the first token
  double prefill_ms = 0;            ///< from the first step that worked on it to the first token
  double decode_ms = 0;             ///< from the first token to the last
  std::int64_t prefill_tokens = 0;  ///< prompt tokens computed in prefill_ms: those not cached
  std::int64_t decode_tokens = 0;   ///< tokens after the first
};

/// One thing that happened to one choice. Texts are valid UTF-8, and those of a choice's channel make its whole text
/// together.
struct Event {
  std::int32_t choice = 0;
  Channel channel = Channel::kContent;
  std::string text;
  std::vector<std::int32_t> ids;      ///< tokens taken in since the last event; their text may still be held back
  std::vector<TokenChoice> logprobs;  ///< of `ids`, one each, if they were asked for
  std::vector<TokenChoice> prompt_logprobs;  ///< of prompt tokens from the second on, in order, if asked for

  /// Set in a choice's last event, with `usage` and `timings`.
  FinishReason finish = FinishReason::kNone;
  std::optional<Error> error;  ///< why, if `finish` is kError or kCancelled
  Usage usage;                 ///< of this choice; its prompt counts once a request, in choice 0
  Timings timings;
};

/// A whole answer, for callers that do not stream.
struct Answer {
  struct Choice {
    std::string text;
    std::string reasoning;
    std::vector<std::int32_t> ids;
    std::vector<TokenChoice> logprobs;
    std::vector<TokenChoice> prompt_logprobs;
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;
    Timings timings;
  };
  std::vector<Choice> choices;
  Usage usage;             ///< of all choices
  std::uint64_t seed = 0;  ///< in use, given or drawn
};

/// The reader's end of a running request. Destroying it cancels what still runs. One thread at a time may read;
/// `cancel` may come from any thread. A reader that takes nothing slows only its own request.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  /// The next event, if there is one; never blocks.
  std::optional<Event> poll();

  /// Blocks until there is an event; none when the request has ended and everything was read.
  std::optional<Event> wait();

  /// Reads to the end. A choice that failed carries its error; the result is an error only if every choice failed.
  Result<Answer> collect();

  /// Whether every choice's last event has been read.
  bool finished() const;

  /// Calls `hook` once whenever `poll` may have something new, from the engine's thread: it must not block and not call
  /// this object. Poll once after setting it: what came before is not announced. Replaces the hook before; an empty one
  /// removes it, and when this returns the old one is not running.
  void on_ready(std::function<void()> hook);

  /// Ends all choices within one step. Their last events still come, with kCancelled.
  void cancel();

  /// The seed in use, given or drawn.
  std::uint64_t seed() const;

  struct State;
  /// For the library's own use.
  explicit Generation(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace pagoda
