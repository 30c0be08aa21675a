// The program `pagoda`.
#include <cstdio>
#include <exception>

#include "apps/commands.h"

namespace pagoda::apps {
namespace {

int exit_code(const Error& error) {
  switch (kind_of(error.code)) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kRuntime:
      return 1;
    case ErrorKind::kModel:
      return 3;
    case ErrorKind::kDevice:
      return 4;
  }
  return 1;
}

int report(const Error& error) {
  const bool no_template = error.code == ErrorCode::kTemplateMissing;
  const char* advice = no_template ? "; --template FILE brings one, and run --raw feeds the prompt as it is" : "";
  std::string sentence = error.message + advice;
  for (char& c : sentence) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';  // a template's own words may run over lines
  }
  std::fflush(stdout);
  std::fprintf(stderr, "pagoda: error: %s\n", sentence.c_str());
  return exit_code(error);
}

Status dispatch(const Arguments& arguments) {
  switch (arguments.command) {
    case Command::kRun:
      return run(arguments);
    case Command::kChat:
      return chat(arguments);
    case Command::kTokenize:
      return tokenize(arguments);
    case Command::kDetokenize:
      return detokenize(arguments);
    case Command::kRender:
      return render(arguments);
    case Command::kScore:
      return score(arguments);
    case Command::kInspect:
      return inspect(arguments);
    case Command::kBench:
      return bench(arguments);
  }
  return Ok{};
}

int start(int argc, char** argv) {
  const Result<ParsedLine> line = parse_command_line(argc, argv);
  if (!line.ok()) return report(line.error());
  if (!line->arguments) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  const Status status = dispatch(*line->arguments);
  if (!status.ok()) return report(status.error());
  if (std::fflush(stdout) != 0) return report({ErrorCode::kIoFailed, "standard output cannot be written", {}});
  return 0;
}

}  // namespace
}  // namespace pagoda::apps

int main(int argc, char** argv) {
  try {
    return pagoda::apps::start(argc, argv);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "pagoda: error: %s\n", exception.what());
    return 1;
  }
}
