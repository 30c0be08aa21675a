#include "pagoda/session.h"

#include "api/generation_state.h"
#include "api/json.h"
#include "base/utf8.h"

namespace pagoda {

struct Session::State {
  Model model;
  std::string system;
  std::string cache_salt;
  std::vector<Message> messages;
  std::shared_ptr<Generation::State> running;  // its text is not in `messages` yet

  void begin() {
    messages.clear();
    if (!system.empty()) messages.push_back({.role = "system", .content = system});
  }

  /// Takes over what was read of the last answer, if it has ended. False if it still runs.
  bool settle() {
    if (running == nullptr) return true;
    const FinishReason asked = running->choices.front().job->asked();
    if (!running->finished() && asked == FinishReason::kNone) return false;
    messages.push_back({.role = "assistant", .content = std::move(running->text_read)});
    running = nullptr;
    return true;
  }
};

Session::Session(Model model, std::string system, std::string cache_salt)
    : state_(new State{.model = std::move(model),
                       .system = std::move(system),
                       .cache_salt = std::move(cache_salt),
                       .messages = {},
                       .running = {}}) {
  state_->begin();
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Generation> Session::send(std::string text, const SamplingParams& sampling) {
  if (!state_->settle()) {
    return fail(ErrorCode::kInvalidArgument, "the answer before is still running: read it to its end or cancel it");
  }
  PAGODA_TRY(check_utf8(state_->system, "the system message"));
  PAGODA_TRY(check_utf8(text, "the message"));
  std::vector<Message>& messages = state_->messages;
  messages.push_back({.role = "user", .content = std::move(text)});
  Request request;
  request.prompt = Chat{.messages_json = api::messages_to_json(messages)};
  request.sampling = sampling;
  request.cache_salt = state_->cache_salt;
  Result<Generation> generation = state_->model.generate(request);
  if (generation.ok()) {
    state_->running = generation->state();
  } else {
    messages.pop_back();
  }
  return generation;
}

const std::vector<Message>& Session::history() {
  (void)state_->settle();
  return state_->messages;
}

void Session::clear() {
  state_->running = nullptr;
  state_->begin();
}

}  // namespace pagoda
