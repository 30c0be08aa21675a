#include "apps/arguments.h"

#include <algorithm>
#include <sstream>

#include "apps/flags.h"
#include "apps/help.h"
#include "apps/toml_config.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

/// What CLI11's validators cannot see: relations between arguments.
Status check_together(const Arguments& arguments) {
  const auto usage = [](std::string sentence) { return fail(ErrorCode::kInvalidArgument, "{}", sentence); };
  const std::string& device = arguments.options.device;
  if (arguments.options.deterministic && (device == "cpu" || device == "reference")) {
    return usage("--deterministic is for GPUs: --device " + device + " always is");
  }
  if (arguments.options.tune && (device == "cpu" || device == "reference")) {
    return usage("--tune is for GPUs, not for --device " + device);
  }
  if (arguments.options.tune && arguments.options.deterministic) {
    return usage("--tune has nothing to choose with --deterministic: its steps are not captured");
  }
  if (arguments.command == Command::kWarm && arguments.model.empty() &&
      (!arguments.options.dummy_weights.empty() || !arguments.options.dummy_head.empty() ||
       !arguments.options.ignore_keys.empty())) {
    return usage("--format, --head-format and --ignore-key are of one model: name it");
  }
  if (arguments.command == Command::kInspect && arguments.model.empty()) {
    if (!arguments.support) return usage("inspect needs a MODEL, or --support");
    if (arguments.tensors || arguments.plan || !arguments.caps.empty() || !arguments.options.dummy_weights.empty() ||
        !arguments.options.dummy_head.empty() || !arguments.options.ignore_keys.empty()) {
      return usage("--tensors, --plan, --caps, --format, --head-format and --ignore-key are of one model: name it");
    }
  }
  if (arguments.command == Command::kScore && arguments.text_file.empty() && arguments.tokens.empty()) {
    return usage("score needs --text FILE or --tokens 1,2,3");
  }
  if (arguments.command == Command::kChat && arguments.model.empty() == arguments.server_url.empty()) {
    return usage("chat needs a MODEL or --server URL, one of them");
  }
  if (arguments.command == Command::kRun && arguments.prompt.empty() && arguments.prompt_file.empty()) {
    return usage("run needs a prompt: an argument, --prompt-file FILE, or - for standard input");
  }
  return Ok{};
}

/// What is wrong with these arguments of a command by themselves: not what they lack, and not what they exclude.
std::string refusal_alone(const CommandEntry& entry, std::vector<std::string> words) {
  Arguments unused;
  CLI::App app;
  app.require_subcommand(1);
  entry.add(*app.add_subcommand(entry.name), unused);
  words.insert(words.begin(), entry.name);
  words.emplace_back("MODEL");
  std::ranges::reverse(words);  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::RequiresError&) {
  } catch (const CLI::ExcludesError&) {
  } catch (const CLI::ParseError& error) {
    return refusal(app, error);
  }
  return {};
}

/// Where a flag comes from that a refusal names and that the line does not have.
std::string origin_of(const std::string& refusal, const std::vector<std::string>& line,
                      const std::vector<std::string>& all) {
  for (const std::string& word : all) {
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || std::ranges::find(line, word) != line.end()) continue;
    if (refusal.find(flag + " ") != std::string::npos || refusal.find(flag + ";") != std::string::npos) {
      return "; " + flag + " stands in the --config file";
    }
  }
  return {};
}

/// `pagoda help COMMAND` is `pagoda COMMAND --help`.
std::vector<std::string> help_words(const std::vector<std::string>& words) {
  return words.size() == 1 ? std::vector<std::string>{"--help"} : std::vector<std::string>{words[1], "--help"};
}

}  // namespace

Result<ParsedLine> parse_command_line(int argc, char** argv) {
  Arguments arguments;
  const std::string version = "pagoda " + std::string(Library::version());
  CLI::App app("runs large language models", "pagoda");
  app.formatter(help_formatter());
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  const auto add_help = [&version](CLI::App& to) {
    to.set_help_flag("-h,--help", "print this")->group("Help");
    to.set_version_flag("--version", version, "print the version")->group("Help");
  };
  add_help(app);
  for (const CommandEntry& entry : commands()) {
    CLI::App* command = app.add_subcommand(entry.name, entry.help);
    command->callback([&arguments, &entry] { arguments.command = entry.command; });
    command->set_help_flag();  // last in its list
    entry.add(*command, arguments);
    add_help(*command);
  }
  app.footer(
      "pagoda COMMAND --help lists a command's flags. Exit codes: 0 done, 1 failed at\n"
      "run time, 2 wrong usage, 3 model or file rejected or not found, 4 device missing\n"
      "or unfit.");
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") words = help_words(words);
  if (std::string sentence = unknown_command(app, words); !sentence.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}", sentence);
  }
  const std::vector<std::string> line = words;
  const auto entry = std::ranges::find(commands(), words.front(), &CommandEntry::name);
  if (entry != commands().end() && entry->command == Command::kServe) {
    const auto check = [&entry](std::vector<std::string> alone) { return refusal_alone(*entry, std::move(alone)); };
    words = PAGODA_TRY(with_config_file(std::move(words), *app.get_subcommand(entry->name), check));
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help, version
      std::ostringstream text;
      app.exit(error, text, text);
      return ParsedLine{.arguments = {}, .text = text.str()};
    }
    const std::string sentence = refusal(app, error);
    return fail(ErrorCode::kInvalidArgument, "{}{}", sentence, origin_of(sentence, line, words));
  }
  PAGODA_TRY(check_together(arguments));
  return ParsedLine{.arguments = std::move(arguments), .text = {}};
}

}  // namespace pagoda::apps
