#include "apps/help.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/format.h"

namespace pagoda::apps {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kNames = 30;  // columns of what is explained

/// Words of `text` in lines that begin at `indent`, the first of them at column `at`.
std::string wrapped(const std::string& text, std::size_t at, std::size_t indent) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (at > indent && at + 1 + word.size() > kColumns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (at > indent) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out + "\n";
}

/// One name and what it means, in two columns; a long name has a line of its own.
std::string row(const std::string& name, const std::string& meaning) {
  std::string out = "  " + name;
  if (out.size() + 1 > kNames) {
    out += "\n";
    out.append(kNames, ' ');
  } else {
    out.resize(kNames, ' ');
  }
  return out + wrapped(meaning, kNames, kNames);
}

std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  if (type == "INT" || type == "UINT") return " N";
  if (type == "FLOAT") return " X";
  return type.empty() ? "" : " " + type;
}

std::string names(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true, false);
  std::string name = option.get_name(false, true);
  if (const std::size_t comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
  return name + value_name(option);
}

/// Of a list, as CLI11 keeps it, the elements.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return text;
}

std::string meaning(const CLI::Option& option) {
  std::string text = option.get_description();
  std::set<std::string> others;
  for (const CLI::Option* const other : option.get_excludes()) others.insert(other->get_name());
  for (const std::string& other : others) text += (other == *others.begin() ? "; not with " : ", ") + other;
  const std::string value = default_of(option);
  return value.empty() ? text : text + " [" + value + "]";
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string text = "Usage: " + name + " [OPTIONS]";
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string positional = option->get_name(true, false);
    text += option->get_required() ? " " + positional : " [" + positional + "]";
  }
  return text;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    const std::vector<const CLI::App*> commands = app->get_subcommands({});
    std::string out = wrapped(name + ": " + app->get_description(), 0, 0) + "\n";
    out += commands.empty() ? usage(*app, name) + "\n\n" : "Usage: " + name + " COMMAND ...\n\nCommands:\n";
    for (const CLI::App* const command : commands) out += row(command->get_name(), command->get_description());
    for (const CLI::Option* const option : app->get_options()) {
      if (option->get_positional()) out += row(names(*option), meaning(*option));
    }
    for (const std::string& group : app->get_groups()) {
      std::string rows;
      for (const CLI::Option* const option : app->get_options()) {
        if (option->get_group() == group && !option->get_positional()) rows += row(names(*option), meaning(*option));
      }
      if (!rows.empty()) out += "\n" + group + ":\n" + rows;
    }
    if (!app->get_footer().empty()) out += "\n" + app->get_footer() + "\n";
    return out;
  }
};

/// Letters that are missing, added, changed, or swapped with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      const std::size_t changed = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({changed, table[i - 1][j] + 1, table[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
  std::string meant;
  for (const std::string& other : likely(word, words)) meant += (meant.empty() ? "" : " or ") + other;
  return meant.empty() ? "" : " (did you mean " + meant + "?)";
}

std::vector<std::string> flags(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

/// What is wrong with a word that the command has no place for.
std::string leftover(const CLI::App& command, const std::vector<std::string>& words) {
  const auto flag = std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (flag == words.end()) {
    const bool prompt = command.get_name() == "run" || command.get_name() == "tokenize";
    return pagoda::format("{} has no place for \"{}\"{}", command.get_name(), words.front(),
                          prompt ? ": a text of several words wants quotes" : "");
  }
  const std::string name = flag->substr(0, flag->find('='));
  return pagoda::format("{} has no flag {}{}", command.get_name(), name, did_you_mean(name, flags(command)));
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::vector<std::string> likely(std::string_view word, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  std::ranges::copy_if(words, std::back_inserter(out), [&](const auto& other) { return other.starts_with(word); });
  if (!out.empty() && out.size() <= 3) return out;
  out.clear();
  std::size_t least = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string& other : words) {
    const std::size_t now = distance(word, other);
    if (now >= least) continue;
    least = now;
    out = {other};
  }
  return out;
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> commands;
  for (const CLI::App* const command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (words.empty()) return "a command is wanted; see pagoda --help";
  const std::string& word = words.front();
  if (std::ranges::find(commands, word) != commands.end()) return {};
  if (!word.starts_with('-')) {
    return pagoda::format("there is no command \"{}\"{}; see pagoda --help", word, did_you_mean(word, commands));
  }
  const std::vector<std::string> known = flags(app);
  if (word == "-h" || std::ranges::find(known, word) != known.end()) return {};
  return pagoda::format("before a command there is no flag {}{}; see pagoda --help", word, did_you_mean(word, known));
}

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  if (parsed.empty()) return one_line(error.what()) + "; see pagoda --help";
  const CLI::App& command = *parsed.front();
  const std::vector<std::string> words = app.remaining(true);
  const bool flag = std::ranges::any_of(words, [](const std::string& word) { return word.starts_with('-'); });
  // A misspelled flag comes first: what else is missing may only be its consequence.
  const bool left = flag || (!words.empty() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError));
  std::string sentence = left ? leftover(command, words) : one_line(error.what());
  constexpr std::string_view kMissing = " missing";
  if (!left && error.get_name() == "ArgumentMismatch" && sentence.ends_with(kMissing)) {
    sentence = sentence.substr(0, sentence.find(':')) + " wants a value";
  }
  if (!left && sentence.find(": At Most 1 required") != std::string::npos) {
    sentence = sentence.substr(0, sentence.find(':')) + " has one value, and several are given";
  }
  return pagoda::format("{}; see pagoda {} --help", sentence, command.get_name());
}

}  // namespace pagoda::apps
