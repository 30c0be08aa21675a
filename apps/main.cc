// The program `pagoda`.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "apps/commands.h"
#include "apps/terminal.h"

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
  std::fflush(stdout);
  print_error(error.message + advice);
  return exit_code(error);
}

/// A standard descriptor that the caller has closed would go to the first file we open, and what is meant for people
/// would be written into it. Here it leads to where nothing can be written.
void occupy_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) close(descriptor);
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
    case Command::kWarm:
      return warm(arguments);
    case Command::kServe:
      return serve(arguments);
    case Command::kQuantize:
      return quantize(arguments);
  }
  return Ok{};
}

int start(int argc, char** argv) {
  const Result<ParsedLine> line = parse_command_line(argc, argv);
  if (!line.ok()) return report(line.error());
  std::fputs(line->text.c_str(), stdout);
  const Status status = line->arguments ? dispatch(*line->arguments) : Status(Ok{});
  if (!status.ok()) return report(status.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return report({ErrorCode::kIoFailed, "standard output cannot be written", {}});
  return 0;
}

}  // namespace

void end_at_once(const Error& error) { std::_Exit(report(error)); }

}  // namespace pagoda::apps

int main(int argc, char** argv) {
  try {
    pagoda::apps::occupy_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on sizes of files is an error of the write
    return pagoda::apps::start(argc, argv);
  } catch (const std::exception& exception) {
    pagoda::apps::print_error(exception.what());
    return 1;
  }
}
