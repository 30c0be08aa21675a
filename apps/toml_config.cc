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

/// The arguments of one key: none for false, the flag alone for true.
Status add(std::string_view file, const std::string& flag, const toml::node& node, std::vector<std::string>& out) {
  if (const toml::array* const list = node.as_array()) {
    for (const toml::node& element : *list) {
      if (element.is_array() || element.is_boolean()) {
        return fail(ErrorCode::kInvalidArgument, "{}: a list of texts or numbers is wanted for {}", file, flag);
      }
      PAGODA_TRY(add(file, flag, element, out));
    }
  } else if (const auto text = node.value_exact<std::string>()) {
    if (text->empty()) return fail(ErrorCode::kInvalidArgument, "{}: {} must not be empty", file, flag);
    out.push_back(flag + "=" + *text);
  } else if (const auto whole = node.value_exact<std::int64_t>()) {
    out.push_back(pagoda::format("{}={}", flag, *whole));
  } else if (const auto number = node.value_exact<double>()) {
    out.push_back(pagoda::format("{}={}", flag, *number));
  } else if (const auto yes = node.value_exact<bool>()) {
    if (*yes) out.push_back(flag);
  } else {
    return fail(ErrorCode::kInvalidArgument, "{}: a text, a number, true or false is wanted for {}", file, flag);
  }
  return Ok{};
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

Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments) {
  const std::optional<std::string> file = value_of(arguments, kFlag);
  if (!file) return arguments;
  const toml::table table = PAGODA_TRY(read(*file));
  std::vector<std::string> more;
  for (const auto& [key, node] : table) {
    const std::string flag = "--" + std::string(key.str());
    if (flag == kFlag || flag.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
      return fail(ErrorCode::kInvalidArgument, "{}: the key {} is no flag's name", *file, flag.substr(2));
    }
    if (!says(arguments, flag)) PAGODA_TRY(add(*file, flag, node, more));
  }
  arguments.insert(arguments.begin() + 1, more.begin(), more.end());
  return arguments;
}

}  // namespace pagoda::apps
