#include "apps/toml_config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::string_view kFlag = "--config";

/// What the line says after that flag, the last time.
std::optional<std::string> value_of(const std::vector<std::string>& arguments, std::string_view flag) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == flag && i + 1 < arguments.size()) value = arguments[i + 1];
    if (argument.starts_with(flag) && argument.substr(flag.size()).starts_with('=')) {
      value = argument.substr(flag.size() + 1);
    }
  }
  return value;
}

bool says(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::ranges::any_of(
      arguments, [&flag](const std::string& argument) { return argument == flag || argument.starts_with(flag + "="); });
}

bool says_what_excludes(const std::vector<std::string>& arguments, const CLI::Option& option) {
  return std::ranges::any_of(option.get_excludes(),
                             [&arguments](const CLI::Option* other) { return says(arguments, other->get_name()); });
}

/// The text of a single value; what is wrong with it as an error.
Result<std::string> text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    if (text->empty()) return fail(ErrorCode::kInvalidArgument, "must not be empty");
    return *text;
  }
  if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (const auto number = node.value_exact<double>()) return pagoda::format("{}", *number);
  return fail(ErrorCode::kInvalidArgument, "must be a text or a number");
}

/// The arguments of one key.
Result<std::vector<std::string>> words_of(const CLI::Option& option, const toml::node& node) {
  const std::string flag = option.get_name();
  std::vector<std::string> words;
  if (option.get_expected_max() == 0) {  // takes no value
    const auto yes = node.value_exact<bool>();
    if (!yes) return fail(ErrorCode::kInvalidArgument, "must be true or false");
    if (*yes) words.push_back(flag);
  } else if (const toml::array* const list = node.as_array()) {
    if (list->empty()) return fail(ErrorCode::kInvalidArgument, "must not be an empty list");
    for (const toml::node& element : *list) words.push_back(flag + "=" + PAGODA_TRY(text_of(element)));
  } else {
    words.push_back(flag + "=" + PAGODA_TRY(text_of(node)));
  }
  return words;
}

/// Checked for itself: a mistake in the file is told also where the line says otherwise.
Result<std::vector<std::string>> checked_words(const CLI::App& command, const CheckAlone& check, const std::string& key,
                                               const toml::node& node) {
  if (key.empty() || key.starts_with('-')) {
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is no key: a key is a flag's name without its dashes", key);
  }
  const std::string flag = "--" + key;
  const CLI::Option* const option = command.get_option_no_throw(flag);
  const bool of_no_file = flag == kFlag || flag == "--help" || flag == "--version";
  if (option == nullptr || of_no_file) {
    std::string sentence = option == nullptr ? check({flag}) : std::string();
    if (sentence.empty()) sentence = flag + " has no place in a file";
    return fail(ErrorCode::kInvalidArgument, "{}", sentence);
  }
  Result<std::vector<std::string>> words = words_of(*option, node);
  if (!words.ok()) return fail(ErrorCode::kInvalidArgument, "{} {}", key, words.error().message);
  if (const std::string sentence = check(*words); !sentence.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}", sentence);
  }
  return words;
}

Result<toml::table> read(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 1u << 20;
  const Result<std::string> text = read_text(file, kMostBytes);
  if (!text.ok()) return fail(ErrorCode::kInvalidArgument, "{}", text.error().message);
  try {
    return toml::parse(*text, file);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", file, error.source().begin.line, error.description());
  }
}

}  // namespace

Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments, const CLI::App& command,
                                                  const CheckAlone& check) {
  const std::optional<std::string> file = value_of(arguments, kFlag);
  if (!file) return arguments;
  if (file->empty()) return fail(ErrorCode::kInvalidArgument, "{}: must not be empty", kFlag);
  const toml::table table = PAGODA_TRY(read(*file));
  std::vector<std::string> more;
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    const auto words = checked_words(command, check, key, node);
    if (!words.ok()) {
      return fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", *file, name.source().begin.line,
                  words.error().message);
    }
    const CLI::Option& option = *command.get_option("--" + key);
    if (says(arguments, option.get_name()) || says_what_excludes(arguments, option)) continue;
    more.insert(more.end(), words->begin(), words->end());
  }
  arguments.insert(arguments.begin() + 1, more.begin(), more.end());
  return arguments;
}

}  // namespace pagoda::apps
