#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/terminal.h"
#include "base/utf8.h"
#include "pagoda/session.h"
#include "server/client/chat_client.h"

namespace pagoda::apps {
namespace {

constexpr const char* kHelp =
    "/help     this list\n"
    "/history  what was said so far\n"
    "/clear    forget it\n"
    "/quit     leave (also Ctrl-D)\n"
    "Ctrl-C    stop the answer; once more: leave\n";

/// Who is talked to, and what was said so far.
class Conversation {
 public:
  virtual ~Conversation() = default;
  virtual std::string name() const = 0;
  /// Streams one answer. After an error the conversation can go on, unless it is of the device.
  virtual Status answer(std::string text) = 0;
  virtual void print_history() = 0;
  virtual void clear() = 0;
};

void print_turn(const std::string& role, const std::string& content) {
  std::printf("%s: %s\n", role.c_str(), content.c_str());
}

void print_length_limit() { std::fprintf(stderr, "pagoda: the answer ended at its length limit\n"); }

/// With a model of this process.
class LocalConversation final : public Conversation {
 public:
  LocalConversation(Model model, const Arguments& arguments)
      : model_(model), session_(std::move(model), arguments.system), sampling_(arguments.sampling) {}

  std::string name() const override { return model_.info().name; }

  Status answer(std::string text) override {
    Generation generation = PAGODA_TRY(session_.send(std::move(text), sampling_));
    const Interrupt interrupt([&generation] { generation.cancel(); });
    AnswerPrinter printer;
    while (std::optional<Event> event = generation.wait()) {
      printer.show(event->channel, event->text);
      if (event->finish == FinishReason::kNone) continue;
      printer.end();
      if (event->finish == FinishReason::kError && event->error) return *event->error;
      if (isatty(STDERR_FILENO) != 0) {
        std::fprintf(stderr, "%s\n", figures_line(model_.info(), event->usage, event->timings).c_str());
      }
      if (event->finish == FinishReason::kLength) print_length_limit();
    }
    return Ok{};
  }

  void print_history() override {
    for (const Message& message : session_.history()) print_turn(message.role, message.content);
  }

  void clear() override { session_.clear(); }

 private:
  Model model_;
  Session session_;
  SamplingParams sampling_;
};

/// With a running server, which keeps nothing: the history is sent each time.
class RemoteConversation final : public Conversation {
 public:
  RemoteConversation(server::ChatClient client, const Arguments& arguments)
      : client_(std::move(client)), system_(arguments.system), sampling_(arguments.sampling) {
    clear();
  }

  std::string name() const override { return client_.model(); }

  Status answer(std::string text) override {
    PAGODA_TRY(check_utf8(text, "the message"));
    turns_.push_back({.role = "user", .content = std::move(text)});
    const Interrupt interrupt([this] { client_.cancel(); });
    AnswerPrinter printer;
    Result<server::ChatAnswer> answer = client_.ask(
        turns_, sampling_, [&printer](Channel channel, std::string_view part) { printer.show(channel, part); });
    printer.end();
    if (!answer.ok()) {
      turns_.pop_back();
      return answer.error();
    }
    if (isatty(STDERR_FILENO) != 0) {
      std::fprintf(stderr, "first token %.2f s, prompt %lld tokens (%lld cached), answer %lld tokens in %.2f s\n",
                   answer->first_token_ms / 1000, static_cast<long long>(answer->usage.prompt_tokens),
                   static_cast<long long>(answer->usage.cached_tokens),
                   static_cast<long long>(answer->usage.completion_tokens), answer->total_ms / 1000);
    }
    if (answer->finish_reason == "length") print_length_limit();
    turns_.push_back({.role = "assistant", .content = std::move(answer->content)});
    return Ok{};
  }

  void print_history() override {
    for (const server::ChatTurn& turn : turns_) print_turn(turn.role, turn.content);
  }

  void clear() override {
    turns_.clear();
    if (!system_.empty()) turns_.push_back({.role = "system", .content = system_});
  }

 private:
  server::ChatClient client_;
  std::string system_;
  SamplingParams sampling_;
  std::vector<server::ChatTurn> turns_;
};

/// False when the conversation is over.
bool obey(const std::string& line, Conversation& conversation) {
  if (line == "/quit" || line == "/exit") return false;
  if (line == "/clear") {
    conversation.clear();
  } else if (line == "/history") {
    conversation.print_history();
  } else {
    if (line != "/help") std::printf("no such command: %s\n", line.c_str());
    std::fputs(kHelp, stdout);
  }
  return true;
}

Result<std::unique_ptr<Conversation>> begin(const Arguments& arguments) {
  if (!arguments.server_url.empty()) {
    const char* const key = std::getenv("PAGODA_API_KEY");
    std::string given = arguments.server.api_keys.empty() ? (key != nullptr ? key : "") : arguments.server.api_keys[0];
    auto client = PAGODA_TRY(server::ChatClient::connect(arguments.server_url, std::move(given)));
    return std::unique_ptr<Conversation>(std::make_unique<RemoteConversation>(std::move(client), arguments));
  }
  Arguments alone = arguments;
  alone.options.max_running = 1;
  Model model = PAGODA_TRY(open_model(alone, true));
  if (!model.info().has_chat_template) {
    return fail(ErrorCode::kTemplateMissing, "{} has no chat template", arguments.model);
  }
  return std::unique_ptr<Conversation>(std::make_unique<LocalConversation>(std::move(model), arguments));
}

}  // namespace

Status chat(const Arguments& arguments) {
  const std::unique_ptr<Conversation> conversation = PAGODA_TRY(begin(arguments));
  const bool interactive = isatty(STDIN_FILENO) != 0;
  if (interactive) std::printf("%s. /help lists the commands.\n", conversation->name().c_str());
  std::string line;
  for (;;) {
    if (interactive) std::fputs("> ", stdout);
    std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    if (line.ends_with('\r')) line.pop_back();  // a file of Windows
    if (line.empty()) continue;
    if (line.front() == '/') {
      if (!obey(line, *conversation)) break;
      continue;
    }
    const Status said = conversation->answer(line);
    if (said.ok()) continue;
    if (kind_of(said.error().code) == ErrorKind::kDevice) return said;
    print_error(said.error().message);
  }
  return Ok{};
}

}  // namespace pagoda::apps
