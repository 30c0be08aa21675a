// A family's view of a configuration: keys of one namespace, read with their range, and at the end none left unread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/raw_config.h"

namespace pagoda::model {

/// `key` is without the namespace: "attention.head_count" of a file of architecture x is "x.attention.head_count". An
/// empty namespace is the whole configuration, as of a config.json.
/// Errors are those of RawConfig: kConfigMissing, kConfigType, kConfigRange.
class ConfigReader {
 public:
  /// `ignored`: full names of keys that are to be taken as not there; without a namespace a name stands for the whole
  /// object of that name too.
  ConfigReader(const io::RawConfig& config, std::string_view name_space, std::span<const std::string> ignored = {})
      : config_(config),
        prefix_(name_space.empty() ? std::string() : std::string(name_space) + "."),
        ignored_(ignored) {}

  const std::string& source() const { return config_.source(); }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool contains(std::string_view key) const { return !is_ignored(key) && config_.contains(full(key)); }
  /// Whether the file has it with JSON's null.
  bool is_null(std::string_view key) const { return config_.is_null(full(key)); }
  /// Whether an object of that name is there and has something in it.
  bool contains_object(std::string_view key) const {
    return !is_ignored(key) && config_.contains_prefix(full(key) + ".");
  }
  /// Null if it is not there. Counts as reading it.
  const io::Value* find(std::string_view key) const { return is_ignored(key) ? nullptr : config_.find(full(key)); }

  Result<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const {
    return config_.integer(full(key), least, most);
  }
  Result<std::int64_t> integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                                  std::int64_t most) const {
    if (is_ignored(key)) return fallback;
    return config_.integer_or(full(key), fallback, least, most);
  }
  Result<double> number(std::string_view key, double least, double most) const {
    return config_.number(full(key), least, most);
  }
  Result<double> number_or(std::string_view key, double fallback, double least, double most) const {
    if (is_ignored(key)) return fallback;
    return config_.number_or(full(key), fallback, least, most);
  }
  Result<bool> boolean_or(std::string_view key, bool fallback) const {
    if (is_ignored(key)) return fallback;
    return config_.boolean_or(full(key), fallback);
  }
  Result<std::string_view> text_or(std::string_view key, std::string_view fallback) const {
    if (is_ignored(key)) return fallback;
    return config_.text_or(full(key), fallback);
  }
  /// One number for each layer, from a list of as many or from one number for all.
  Result<std::vector<std::int64_t>> each_layer(std::string_view key, std::int64_t layers, std::int64_t least,
                                               std::int64_t most) const {
    return config_.integers_each(full(key), static_cast<std::size_t>(layers), least, most);
  }

  Result<const io::StringList*> texts(std::string_view key) const { return config_.texts(full(key)); }
  Result<std::vector<double>> numbers(std::string_view key, double least, double most) const {
    return config_.numbers(full(key), least, most);
  }

  /// Keys that have no influence on the result, and all below them.
  void irrelevant(std::initializer_list<std::string_view> keys) const;

  /// Keys of what Pagoda does not compute: they may be there with the value that means off (0, false, an empty text).
  /// Error: kConfigUnknown with the key and its value.
  Status off(std::initializer_list<std::string_view> keys) const;

  /// Refuses every key of the namespace that nothing has read and nobody ignores. Error: kConfigUnknown with the names.
  Status finish() const;

 private:
  bool is_ignored(std::string_view key) const;
  bool ignores(std::string_view full_name) const;

  const io::RawConfig& config_;
  std::string prefix_;
  std::span<const std::string> ignored_;
};

}  // namespace pagoda::model
