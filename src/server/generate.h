// An answer of the model, streamed or whole.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "server/http/message.h"
#include "server/metrics.h"
#include "server/protocol/error.h"
#include "server/protocol/request.h"
#include "server/protocol/writer.h"
#include "server/workers.h"

namespace pagoda::server {

/// What a worker made of a request: a response that is ready, or generations that run.
struct Started {
  ApiRequest request;
  std::vector<Generation> generations;  ///< one a prompt
  std::vector<ListedPrompt> prompts;
};
using Outcome = std::variant<http::Response, Started>;

/// What an answer tells the server while it runs.
struct AnswerContext {
  const Model model;
  AnswerHead head;
  Metrics* metrics = nullptr;
};

class GenerateAnswer final : public http::Answer {
 public:
  /// Hands `work` to the workers, which outlive this; `work` learns from its argument that nobody waits any more, and
  /// is dropped with all that it holds if it has not begun then.
  using Work = std::function<Outcome(const std::atomic<bool>& abandoned)>;
  GenerateAnswer(AnswerContext context, Work work, Workers& workers, Workers::Size size);
  ~GenerateAnswer() override;

  void start(std::function<void()> wake) override;
  http::Piece next() override;
  http::Piece keep_alive() override;
  http::Piece cut_short() override;
  bool streams() const override { return streams_; }
  bool holds_body() const override { return !started_ && !response_; }
  std::string log_members() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Shared;
  struct Choice {
    std::int64_t tokens = 0;
  };

  bool begin();
  http::Piece finish();
  bool take(std::size_t prompt, const Event& event, std::string& data);
  void measure(std::size_t prompt, const Event& event);
  http::Piece send(std::string data);
  http::Piece end_with(const ApiError& error);

  AnswerContext context_;
  Workers& workers_;
  std::shared_ptr<Shared> shared_;
  const Clock::time_point arrival_ = Clock::now();

  std::optional<http::Response> response_;
  std::optional<Started> started_;
  std::unique_ptr<AnswerWriter> writer_;
  std::vector<Choice> choices_;
  std::size_t num_done_ = 0;
  std::int64_t num_scores_ = 0;  ///< log-probabilities, told and to be told
  bool finishes_ = false;        ///< the workers have the rest
  Usage usage_;
  std::optional<ApiError> failure_;
  bool streams_ = false;
  bool head_sent_ = false;
  double first_token_ms_ = 0;
  std::string finish_;
};

}  // namespace pagoda::server
