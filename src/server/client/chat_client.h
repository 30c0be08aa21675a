// Talks to a running server, this one or another that speaks the same protocol.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pagoda/generation.h"
#include "pagoda/types.h"

namespace pagoda::server {

struct ChatTurn {
  std::string role;
  std::string content;
};

struct ChatAnswer {
  std::string content;
  std::string finish_reason;  ///< empty: it was cancelled
  Usage usage;
  double first_token_ms = 0;  ///< from the request to the first text
  double total_ms = 0;
};

/// One thread at a time, but for `cancel`.
class ChatClient {
 public:
  /// `url` as http://127.0.0.1:8080 or https://host, with or without /v1. Asks the server for its model. Errors:
  /// kInvalidArgument for the URL, kIoFailed with what the server says or why it cannot be reached.
  static Result<ChatClient> connect(const std::string& url, std::string api_key);
  ChatClient(ChatClient&&) noexcept;
  ~ChatClient();

  const std::string& model() const;

  /// Streams an answer into `on_text`. An answer that was cancelled is as long as it came.
  Result<ChatAnswer> ask(std::span<const ChatTurn> turns, const SamplingParams& sampling,
                         const std::function<void(Channel, std::string_view)>& on_text);

  /// Ends the answer that runs; from any thread.
  void cancel();

 private:
  struct State;
  explicit ChatClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pagoda::server
