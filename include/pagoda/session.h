// A conversation that remembers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pagoda/model.h"

namespace pagoda {

struct Message {
  std::string role;
  std::string content;
};

/// The history of a conversation with a model. Each answer goes on where the one before ended: what the cache still
/// holds of the history is not computed again. One thread at a time.
class Session {
 public:
  /// `system`, if not empty, is the first message. `cache_salt` as in Request.
  explicit Session(Model model, std::string system = {}, std::string cache_salt = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Asks; the answer joins the history as far as it was read when the next call of this object comes. Errors are those
  /// of Model::generate; then the history stays as it was. A context that the history has filled is kPromptTooLong with
  /// both numbers. The answer before must have ended or been cancelled, else kInvalidArgument.
  Result<Generation> send(std::string text, const SamplingParams& sampling = {});

  /// All messages, those of answers that are still running excluded.
  const std::vector<Message>& history();

  /// Forgets all but the system message.
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda
