#include "apps/toml_config.h"

#include <toml++/toml.h>

#include "base/format.h"

namespace pagoda::apps {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw CLI::ConfigError("the configuration file " + sentence, CLI::ExitCodes::ConfigError);
}

std::string text_of(std::string_view key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (const auto number = node.value_exact<double>()) return format("{}", *number);
  if (const auto yes = node.value_exact<bool>()) return *yes ? "true" : "false";
  refuse(format("has neither a text, a number nor true or false at \"{}\"", key));
}

}  // namespace

std::string TomlConfig::to_config(const CLI::App*, bool, bool, std::string) const { return {}; }

std::vector<CLI::ConfigItem> TomlConfig::from_config(std::istream& input) const {
  std::vector<CLI::ConfigItem> found;
  try {
    const toml::table table = toml::parse(input);
    for (const auto& [key, node] : table) {
      CLI::ConfigItem item;
      item.name = key.str();
      if (const toml::array* const list = node.as_array()) {
        for (const toml::node& element : *list) item.inputs.push_back(text_of(key.str(), element));
        if (item.inputs.empty()) continue;
      } else {
        item.inputs.push_back(text_of(key.str(), node));
        given_.emplace_back(item.name, item.inputs.front());
      }
      found.push_back(std::move(item));
    }
  } catch (const toml::parse_error& error) {
    refuse(format("is no TOML: {} (line {})", error.description(), error.source().begin.line));
  }
  return found;
}

void TomlConfig::apply_flags(CLI::App& command) const {
  for (const auto& [name, value] : given_) {
    CLI::Option* const flag = command.get_option_no_throw("--" + name);
    if (flag == nullptr || flag->get_expected_min() > 0 || flag->get_callback_run()) continue;
    if (value != "true" && value != "false") refuse(format("wants true or false at \"{}\"", name));
    if (value == "false") continue;
    flag->clear();
    flag->add_result(value);
    flag->run_callback();
  }
}

}  // namespace pagoda::apps
