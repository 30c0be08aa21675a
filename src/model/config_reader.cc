#include "model/config_reader.h"

#include <algorithm>

namespace pagoda::model {
namespace {

bool means_off(const io::Value& value) {
  if (const auto* flag = value.get_if<bool>()) return !*flag;
  if (const auto* integer = value.get_if<std::int64_t>()) return *integer == 0;
  if (const auto* real = value.get_if<double>()) return *real == 0;
  if (const auto* text = value.get_if<std::string>()) return text->empty() || *text == "none";
  if (const auto* list = value.get_if<io::Value::List>()) return list->empty();
  return false;
}

}  // namespace

void ConfigReader::irrelevant(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) config_.mark_tree_read(full(key));
}

Status ConfigReader::off(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const io::Value* value = find(key);
    if (value != nullptr && !means_off(*value)) {
      return fail(ErrorCode::kConfigUnknown,
                  "{}: key {} is {} that asks for what Pagoda does not compute; only a value that means off is allowed "
                  "(--ignore-key {} overrides)",
                  source(), full(key), value->kind(), full(key));
    }
  }
  return Ok{};
}

bool ConfigReader::is_ignored(std::string_view key) const { return !ignored_.empty() && ignores(full(key)); }

bool ConfigReader::ignores(std::string_view name) const {
  return std::ranges::any_of(ignored_, [&](const std::string& ignored) {
    if (!name.starts_with(ignored)) return false;
    return name.size() == ignored.size() || (prefix_.empty() && name[ignored.size()] == '.');
  });
}

Status ConfigReader::finish() const {
  std::string names;
  for (const std::string& key : config_.unread_keys()) {
    if (!key.starts_with(prefix_) || ignores(key)) continue;
    names += pagoda::format("{}{}", names.empty() ? "" : ", ", key);
  }
  if (names.empty()) return Ok{};
  return fail(ErrorCode::kConfigUnknown,
              "{}: Pagoda does not know the configuration key {}, which may change the result (--ignore-key KEY runs "
              "the model without it)",
              source(), names);
}

}  // namespace pagoda::model
