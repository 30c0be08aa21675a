#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/terminal.h"
#include "base/result.h"
#include "pagoda/session.h"

namespace pagoda::apps {
namespace {

constexpr const char* kHelp =
    "/help     this list\n"
    "/history  what was said so far\n"
    "/clear    forget it\n"
    "/quit     leave (also Ctrl-D)\n"
    "Ctrl-C    stop the answer; once more: leave\n";

/// Streams one answer. An error that ended it is handed up; the conversation can go on.
Status answer(const Model& model, Session& session, std::string text, const SamplingParams& sampling) {
  Generation generation = PAGODA_TRY(session.send(std::move(text), sampling));
  const Interrupt interrupt([&generation] { generation.cancel(); });
  while (std::optional<Event> event = generation.wait()) {
    std::fwrite(event->text.data(), 1, event->text.size(), stdout);
    std::fflush(stdout);
    if (event->finish == FinishReason::kNone) continue;
    std::fputc('\n', stdout);
    std::fflush(stdout);
    if (event->finish == FinishReason::kError && event->error) return *event->error;
    if (isatty(STDERR_FILENO) != 0) {
      std::fprintf(stderr, "%s\n", figures_line(model.info(), event->usage, event->timings).c_str());
    }
    if (event->finish == FinishReason::kLength) std::fprintf(stderr, "pagoda: the answer ended at its length limit\n");
  }
  return Ok{};
}

void print_history(Session& session) {
  for (const Message& message : session.history()) {
    std::printf("%s: %s\n", message.role.c_str(), message.content.c_str());
  }
}

/// False when the conversation is over.
bool obey(const std::string& line, Session& session) {
  if (line == "/quit" || line == "/exit") return false;
  if (line == "/clear") {
    session.clear();
  } else if (line == "/history") {
    print_history(session);
  } else {
    if (line != "/help") std::printf("no such command: %s\n", line.c_str());
    std::fputs(kHelp, stdout);
  }
  return true;
}

}  // namespace

Status chat(const Arguments& arguments) {
  Arguments alone = arguments;
  alone.options.max_running = 1;
  const Model model = PAGODA_TRY(open_model(alone, true));
  if (!model.info().has_chat_template) {
    return fail(ErrorCode::kTemplateMissing, "{} has no chat template", arguments.model);
  }
  Session session(model, arguments.system);
  const bool interactive = isatty(STDIN_FILENO) != 0;
  if (interactive) std::printf("%s. /help lists the commands.\n", model.info().name.c_str());
  std::string line;
  for (;;) {
    if (interactive) std::fputs("> ", stdout);
    std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    if (line.ends_with('\r')) line.pop_back();  // a file of Windows
    if (line.empty()) continue;
    if (line.front() == '/') {
      if (!obey(line, session)) break;
      continue;
    }
    const Status said = answer(model, session, line, arguments.sampling);
    if (said.ok()) continue;
    if (kind_of(said.error().code) == ErrorKind::kDevice) return said;
    print_error(said.error().message);
  }
  return Ok{};
}

}  // namespace pagoda::apps
