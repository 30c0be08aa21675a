#include "io/json_config.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "io/byte_source.h"
#include "io/json_reader.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxKeys = 1u << 17;
constexpr std::uint64_t kMaxElements = 1u << 20;                  // of all lists
constexpr std::uint64_t kMaxNameBytes = std::uint64_t{32} << 20;  // of all keys with their paths
constexpr int kMaxDepth = 32;

template <class T>
NumberList number_list(NumberList::Type type, const Value::List& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  for (std::size_t i = 0; i < list.size(); ++i) {
    T value{};
    if (const auto* flag = list[i].get_if<bool>()) value = static_cast<T>(*flag);
    if (const auto* integer = list[i].get_if<std::int64_t>()) value = static_cast<T>(*integer);
    if (const auto* real = list[i].get_if<double>()) value = static_cast<T>(*real);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return {type, std::move(bytes)};
}

template <class... T>
bool all_are(const Value::List& list) {
  return std::ranges::all_of(list, [](const Value& value) { return (std::holds_alternative<T>(value.data) || ...); });
}

/// A list as the narrowest kind of list that can hold it.
Value list_value(Value::List list) {
  if (list.empty()) return {std::move(list)};
  if (all_are<bool>(list)) return {number_list<std::uint8_t>(NumberList::Type::kBool, list)};
  if (all_are<std::int64_t>(list)) return {number_list<std::int64_t>(NumberList::Type::kI64, list)};
  if (all_are<std::int64_t, double>(list)) return {number_list<double>(NumberList::Type::kF64, list)};
  if (!all_are<std::string>(list)) return {std::move(list)};
  StringList texts;
  for (const Value& text : list) texts.push_back(*text.get_if<std::string>());
  return {std::move(texts)};
}

/// An object or a list that is open.
struct Open {
  bool object = false;
  std::string key;         // the path of what stands next in it
  std::size_t prefix = 0;  // bytes of `key` that name the container itself
  std::uint64_t index = 0;
  Value::List list;  // of a list: what it holds, objects aside
  bool holds_objects = false;
};

class ConfigBuilder final : public JsonEvents {
 public:
  explicit ConfigBuilder(RawConfig& config) : config_(config) {}

  void begin_object() override {
    if (!open_.empty() && !open_.back().object) open_.back().holds_objects = true;
    open(true);
  }
  void key(std::string_view name) override {
    Open& top = open_.back();
    top.key.resize(top.prefix);
    top.key += name;
  }
  void end_object() override {
    const bool empty = open_.back().key.size() == open_.back().prefix;
    open_.pop_back();
    if (empty && !open_.empty() && open_.back().object) put_empty_object();
  }
  void begin_array() override { open(false); }
  void end_array() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (open_.empty()) return no_object();
    if (done.holds_objects && done.list.empty()) return;
    put(list_value(std::move(done.list)));
  }
  void null() override {
    if (open_.empty()) return no_object();
    if (open_.back().object) return put_null();
    put({std::string("null")});
  }
  void scalar(Value value) override {
    if (open_.empty()) return no_object();
    put(std::move(value));
  }

  Status finish() {
    if (error_.has_value()) return *std::move(error_);
    return Ok{};
  }

 private:
  void no_object() { refuse(ErrorCode::kConfigType, "is no JSON object"); }
  void refuse(ErrorCode code, std::string_view sentence) {
    if (!error_.has_value()) error_ = fail(code, "{}: {}", config_.source(), sentence);
  }

  void open(bool object) {
    Open added{.object = object, .key = {}, .prefix = 0, .index = 0, .list = {}, .holds_objects = false};
    if (!open_.empty()) added.key = path() + ".";
    added.prefix = added.key.size();
    open_.push_back(std::move(added));
  }

  /// The name of what is being read.
  std::string path() {
    Open& top = open_.back();
    if (top.object) return top.key;
    return top.key.substr(0, top.prefix) + std::to_string(top.index++);
  }

  /// Whether there is room for one more key.
  bool count_key(const std::string& key) {
    name_bytes_ += key.size();
    if (++num_keys_ <= kMaxKeys && name_bytes_ <= kMaxNameBytes) return true;
    refuse(ErrorCode::kJsonLimit, "it has more than 131072 keys, or their names are too long");
    return false;
  }

  void put_null() {
    if (!error_.has_value() && count_key(open_.back().key)) config_.insert_null(open_.back().key);
  }

  void put_empty_object() {
    if (!error_.has_value() && count_key(open_.back().key)) config_.insert_empty_object(open_.back().key);
  }

  void put(Value value) {
    if (error_.has_value()) return;
    Open& top = open_.back();
    if (!top.object) {
      if (++elements_ > kMaxElements) return refuse(ErrorCode::kJsonLimit, "its lists hold more than 1048576 values");
      ++top.index;
      top.list.push_back(std::move(value));
      return;
    }
    if (!count_key(top.key)) return;
    if (!config_.insert(top.key, std::move(value))) {
      refuse(ErrorCode::kJsonKeyDuplicate, "two of its values are named " + quoted(top.key));
    }
  }

  RawConfig& config_;
  std::vector<Open> open_;
  std::uint64_t elements_ = 0;
  std::uint64_t num_keys_ = 0;
  std::uint64_t name_bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<RawConfig> parse_json_config(std::string source, std::string_view text) {
  RawConfig config(std::move(source));
  ConfigBuilder builder(config);
  const JsonLimits limits{.depth = kMaxDepth, .keys_of_an_object = kMaxKeys};
  PAGODA_TRY(read_json(text, config.source(), "the text", limits, builder));
  PAGODA_TRY(builder.finish());
  return config;
}

Result<RawConfig> read_json_config(const std::string& path) {
  const FileSource file(PAGODA_TRY(File::open(path)));
  if (file.size() == 0) return fail(ErrorCode::kFileEmpty, "{}: the file is empty", path);
  if (file.size() > kMaxBytes) {
    return fail(ErrorCode::kJsonLimit, "{}: has {} bytes; at most {} are read of such a file", path, file.size(),
                kMaxBytes);
  }
  std::string text(file.size(), '\0');
  PAGODA_TRY(file.read(0, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return parse_json_config(path, text);
}

}  // namespace pagoda::io
