#include "server/generate.h"

#include <new>

#include "server/json/json.h"

namespace pagoda::server {
namespace {

constexpr std::size_t kMostPiece = 128 << 10;
/// Log-probabilities that are written out within some milliseconds: more of them would hold up all connections.
constexpr std::int64_t kFewScores = 10'000;

std::int64_t num_scores(const std::vector<TokenChoice>& choices) {
  return choices.empty() ? 0 : std::ssize(choices) * (1 + std::ssize(choices.front().best));
}

http::Response whole(AnswerWriter& writer, const Usage& usage) {
  try {
    http::Response response;
    response.body = writer.finish(usage);
    return response;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

}  // namespace

/// What the worker and the answer both hold: either may be gone first.
struct GenerateAnswer::Shared {
  std::atomic<bool> abandoned{false};
  std::mutex mutex;
  std::function<void()> wake;
  Work work;                       ///< until it begins
  std::optional<Outcome> outcome;  ///< of the work, or, once that has started, a whole answer
};

GenerateAnswer::GenerateAnswer(AnswerContext context, Work work, Workers& workers, Workers::Size size)
    : context_(std::move(context)), workers_(workers), shared_(std::make_shared<Shared>()) {
  shared_->work = std::move(work);
  workers.run(size, [shared = shared_] {
    Work begun;
    {
      const std::scoped_lock lock(shared->mutex);
      begun.swap(shared->work);
    }
    if (shared->abandoned) return;
    Outcome outcome = begun(shared->abandoned);
    const std::scoped_lock lock(shared->mutex);
    if (shared->abandoned) return;  // what was started ends with `outcome`
    shared->outcome = std::move(outcome);
    if (shared->wake) shared->wake();
  });
}

GenerateAnswer::~GenerateAnswer() {
  shared_->abandoned = true;
  const std::scoped_lock lock(shared_->mutex);
  shared_->wake = {};
  shared_->work = {};
  shared_->outcome.reset();
  if (started_ && num_done_ < choices_.size() && !failure_) context_.metrics->aborted();
}

void GenerateAnswer::start(std::function<void()> wake) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->wake = std::move(wake);
  if (shared_->outcome) shared_->wake();
}

/// Whether the worker is done and generations run.
bool GenerateAnswer::begin() {
  if (started_) return true;
  std::optional<Outcome> outcome;
  {
    const std::scoped_lock lock(shared_->mutex);
    outcome.swap(shared_->outcome);
  }
  if (!outcome) return false;
  if (auto* const response = std::get_if<http::Response>(&*outcome)) {
    response_ = std::move(*response);
    if (response_->status == 503) context_.metrics->refused("overloaded");
    return false;
  }
  started_ = std::move(std::get<Started>(*outcome));
  const ApiRequest& request = started_->request;
  streams_ = request.stream;
  choices_.resize(started_->generations.size() * static_cast<std::size_t>(request.n));
  writer_ = make_writer(context_.head, request, context_.model, std::move(started_->prompts));
  for (Generation& generation : started_->generations) generation.on_ready(shared_->wake);
  return true;
}

http::Piece GenerateAnswer::next() {
  if (!begin()) {
    if (!response_) return {};
    return {.head = std::exchange(response_, {}), .data = {}, .last = true};
  }
  std::string data;
  for (std::size_t i = 0; i < started_->generations.size(); ++i) {
    while (std::optional<Event> event = started_->generations[i].poll()) {
      if (!take(i, *event, data)) return end_with(*failure_);
      // What a slow client has not taken yet stays in the engine's compact form.
      if (data.size() >= kMostPiece) return send(std::move(data));
    }
  }
  if (num_done_ < choices_.size()) return data.empty() ? http::Piece{} : send(std::move(data));
  if (!streams_ && num_scores_ > kFewScores) return finish();
  data += writer_->finish(usage_);
  http::Piece piece = send(std::move(data));
  piece.last = true;
  return piece;
}

/// Has the workers write the whole answer, and sends it when it is there.
http::Piece GenerateAnswer::finish() {
  if (!std::exchange(finishes_, true)) {
    workers_.run(Workers::Size::kLarge,
                 [shared = shared_, writer = std::shared_ptr<AnswerWriter>(std::move(writer_)), usage = usage_] {
                   if (shared->abandoned) return;
                   http::Response response = whole(*writer, usage);
                   const std::scoped_lock lock(shared->mutex);
                   if (shared->abandoned) return;
                   shared->outcome = std::move(response);
                   shared->wake();
                 });
  }
  const std::scoped_lock lock(shared_->mutex);
  if (!shared_->outcome) return {};
  head_sent_ = true;
  return {.head = std::move(std::get<http::Response>(*shared_->outcome)), .data = {}, .last = true};
}

/// False: the request has failed.
bool GenerateAnswer::take(std::size_t prompt, const Event& event, std::string& data) {
  measure(prompt, event);
  if (event.finish == FinishReason::kError || event.finish == FinishReason::kCancelled) {
    const Error error = event.error.value_or(Error{.code = ErrorCode::kCancelled, .message = "the request was ended"});
    failure_ = api_error(error);
    return false;
  }
  data += writer_->take(prompt, event);
  return true;
}

void GenerateAnswer::measure(std::size_t prompt, const Event& event) {
  const auto n = static_cast<std::size_t>(started_->request.n);
  Choice& choice = choices_[prompt * n + static_cast<std::size_t>(event.choice)];
  const auto count = std::ssize(event.ids);
  if (count > 0) {
    if (first_token_ms_ == 0)
      first_token_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - arrival_).count();
    choice.tokens += count;
  }
  num_scores_ += num_scores(event.logprobs) + num_scores(event.prompt_logprobs);
  if (event.finish == FinishReason::kNone) return;
  ++num_done_;
  usage_.prompt_tokens += event.usage.prompt_tokens;
  usage_.cached_tokens += event.usage.cached_tokens;
  usage_.completion_tokens += event.usage.completion_tokens;
  finish_ = to_string(event.finish);
  if (event.choice == 0) context_.metrics->prompt(event.usage.prompt_tokens);
  context_.metrics->choice(finish_, choice.tokens);
}

/// Data of a stream, with the head if it is the first; or the whole body.
http::Piece GenerateAnswer::send(std::string data) {
  http::Piece piece;
  if (!std::exchange(head_sent_, true)) {
    piece.head = http::Response{};
    if (streams_) {
      piece.head->content_type = "text/event-stream; charset=utf-8";
      piece.head->headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
      piece.data = writer_->begin() + data;
    } else {
      piece.head->body = std::move(data);
    }
    return piece;
  }
  piece.data = std::move(data);
  return piece;
}

http::Piece GenerateAnswer::keep_alive() {
  if (!started_ || !streams_) return {};
  return send(head_sent_ ? ": keep-alive\n\n" : "");
}

/// Before the head an error is a response of its own; after it, the stream's last event.
http::Piece GenerateAnswer::end_with(const ApiError& error) {
  failure_ = error;
  finish_ = "error";
  http::Piece piece;
  piece.last = true;
  if (head_sent_) {
    piece.data = sse(to_json(error)) + std::string(kSseDone);
  } else {
    streams_ = false;
    piece.head = to_response(error);
  }
  return piece;
}

http::Piece GenerateAnswer::cut_short() {
  return end_with({.status = 503,
                   .message = "the server is shutting down",
                   .type = "server_error",
                   .code = "shutting_down",
                   .retry_after_s = 1});
}

std::string GenerateAnswer::log_members() const {
  if (!started_) return {};
  JsonWriter out;
  out.open_object().member("stream", started_->request.stream);
  out.member("choices", static_cast<std::int64_t>(choices_.size()));
  out.member("prompt_tokens", usage_.prompt_tokens).member("cached_tokens", usage_.cached_tokens);
  std::int64_t tokens = 0;
  for (const Choice& choice : choices_) tokens += choice.tokens;
  out.member("completion_tokens", tokens).member("first_token_ms", first_token_ms_);
  out.member("finish_reason", finish_.empty() ? std::string("aborted") : finish_);
  out.close_object();
  std::string text = out.take();
  return text.substr(1, text.size() - 2) + ",";
}

}  // namespace pagoda::server
