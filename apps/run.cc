#include <cstdio>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/json.h"
#include "apps/terminal.h"
#include "apps/text_input.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostPromptBytes = 64u << 20;

Result<std::string> read_prompt(const Arguments& arguments) {
  if (!arguments.prompt_file.empty()) return read_utf8(arguments.prompt_file, kMostPromptBytes);
  if (arguments.prompt == "-") return read_utf8("-", kMostPromptBytes);
  return arguments.prompt;
}

Request make_request(const Arguments& arguments, std::string prompt) {
  Request request;
  request.sampling = arguments.sampling;
  if (arguments.raw) {
    request.prompt = RawText{.text = std::move(prompt)};
  } else {
    request.prompt = Chat{.messages_json = messages_json(arguments.system, prompt)};
  }
  return request;
}

/// Reads the answer to its end and shows it as it comes. What nobody can read any more is not computed either.
Answer stream(Generation& generation, bool show) {
  Answer answer;
  answer.seed = generation.seed();
  Answer::Choice& choice = answer.choices.emplace_back();
  AnswerPrinter printer;
  while (std::optional<Event> event = generation.wait()) {
    if (show && !printer.show(event->channel, event->text)) generation.cancel();
    (event->channel == Channel::kReasoning ? choice.reasoning : choice.text) += event->text;
    choice.ids.insert(choice.ids.end(), event->ids.begin(), event->ids.end());
    if (event->finish == FinishReason::kNone) continue;
    choice.finish = event->finish;
    choice.error = std::move(event->error);
    choice.timings = event->timings;
    answer.usage = event->usage;
  }
  if (show) printer.end();
  return answer;
}

}  // namespace

Status run(const Arguments& arguments) {
  std::string prompt = PAGODA_TRY(read_prompt(arguments));
  Arguments alone = arguments;
  alone.options.max_running = 1;
  const Model model = PAGODA_TRY(open_model(alone, true));
  Generation generation = PAGODA_TRY(model.generate(make_request(arguments, std::move(prompt))));
  Answer answer;
  {
    const Interrupt interrupt([&generation] { generation.cancel(); });
    answer = stream(generation, !arguments.json);
  }
  const Answer::Choice& choice = answer.choices.front();
  if (choice.finish == FinishReason::kError && choice.error) return *choice.error;
  if (arguments.json) {
    std::printf("%s\n", run_to_json(model.info(), answer).c_str());
  } else {
    if (std::fflush(stdout) != 0) return Ok{};  // main tells it
    std::fprintf(stderr, "%s, seed %llu\n", figures_line(model.info(), answer.usage, choice.timings).c_str(),
                 static_cast<unsigned long long>(answer.seed));
  }
  return Ok{};
}

}  // namespace pagoda::apps
