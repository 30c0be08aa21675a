// JSON of requests, as plain values, and the writer of answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pagoda::server {

/// One value of a parsed text. Keys keep their order; a number keeps its digits, since a reader alone knows which type
/// it may become.
struct Json {
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Kind kind = Kind::kNull;
  std::string text = {};             ///< of a string, or a number's digits
  std::vector<Json> items = {};      ///< of an array
  std::vector<Member> members = {};  ///< of an object; no key twice

  bool is(Kind other) const { return kind == other; }
  bool is_null() const { return kind == Kind::kNull; }
  bool is_bool() const { return kind == Kind::kTrue || kind == Kind::kFalse; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_object() const { return kind == Kind::kObject; }

  /// The member of that name, if this is an object and has one.
  const Json* find(std::string_view key) const;

  /// The number, if it is finite as a double.
  std::optional<double> number() const;

  /// The number, if it is whole (1, 1.0 and 1e0 are) and fits.
  std::optional<std::int64_t> integer() const;
};

/// "null", "a boolean", "a number", "a string", "a list", "an object".
std::string_view kind_name(const Json& json);

/// A refusal names a member whose name has up to so many bytes: it is not to be as large as the body.
inline constexpr std::size_t kMostNamedBytes = 256;

/// Reads strict JSON (RFC 8259) in valid UTF-8, nested at most `depth` deep, no key twice in an object, of at most two
/// million values. Error:
/// kInvalidArgument; its `param` is the top-level member that the fault lies in, empty if there is none that is named.
/// The sentence never repeats the text.
Result<Json> parse_json(std::string_view text, int depth = 64);

/// The value as JSON text: the same keys in the same order, the same digits.
std::string to_text(const Json& json);

/// Writes one JSON text without white space. Commas are its own business; that calls come in an order that makes valid
/// JSON is the caller's.
class JsonWriter {
 public:
  JsonWriter& open_object() { return open('{'); }
  JsonWriter& close_object() { return close('}'); }
  JsonWriter& open_array() { return open('['); }
  JsonWriter& close_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& null() { return raw("null"); }
  JsonWriter& value(bool yes) { return raw(yes ? "true" : "false"); }
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::int32_t number) { return value(std::int64_t{number}); }
  /// What is not finite has no JSON: it is written as -9999, as other servers do for log-probabilities.
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  /// `text` must be valid UTF-8.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  /// A text that is JSON already.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string text_;
  bool comma_ = false;
};

/// The text between quotes, escaped.
std::string quoted(std::string_view text);

}  // namespace pagoda::server
