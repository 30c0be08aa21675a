// The fields of one object of a tokenizer.json, each read once; what nothing reads is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_tree.h"

namespace pagoda::text {

/// Bytes from a file as they may stand in a message: in quotes, at most 48 of them, everything but printable ASCII as
/// an escape.
std::string shown(std::string_view bytes);

class Fields {
 public:
  /// `where` names the object in messages. Errors: kTokenizerInvalid if it is no object, kJsonKeyDuplicate for two
  /// fields of one name.
  static Result<Fields> of(JsonValue value, std::string where);

  const std::string& where() const { return where_; }

  /// The field, which counts as read; null is absent.
  std::optional<JsonValue> find(std::string_view name);
  Result<JsonValue> get(std::string_view name);
  Result<JsonValue> get(std::string_view name, JsonValue::Kind kind);
  Result<std::string_view> string(std::string_view name);
  Result<std::string> string_or(std::string_view name, std::string_view fallback);
  Result<bool> boolean_or(std::string_view name, bool fallback);
  Result<std::int64_t> integer(std::string_view name);
  /// A string of one character.
  Result<std::string> character(std::string_view name);

  /// Errors, kTokenizerUnsupported: a field that nothing has read.
  Status finish() const;

  /// "tokenizer.json: decoder: the field "x" is a list; a string is expected".
  Error wrong_kind(std::string_view name, JsonValue value, std::string_view expected) const;

 private:
  struct Field {
    JsonValue value;
    bool read = false;
  };
  std::string where_;
  std::vector<Field> fields_;
};

/// Reads an element: its fields, and its "type" as the first of them.
Result<std::string_view> type_of(Fields& fields);

/// "the element "X" is not supported".
Error unknown_element(const Fields& fields, std::string_view type);

}  // namespace pagoda::text
