#include "text/tokenizer_json/fields.h"

#include <utility>

#include "base/result.h"
#include "base/utf8.h"

namespace pagoda::text {
namespace {

constexpr std::uint32_t kMostFields = 256;

}  // namespace

std::string shown(std::string_view bytes) {
  constexpr std::size_t kMost = 48;
  std::string out = "\"";
  for (const char c : bytes.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7E) {
      out += pagoda::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + (bytes.size() > kMost ? "...\"" : "\"");
}

Result<Fields> Fields::of(JsonValue value, std::string where) {
  if (!value.is(JsonValue::Kind::kObject)) {
    return fail(ErrorCode::kTokenizerInvalid, "{} is {}; an object is expected", where, name_of(value.kind()));
  }
  if (value.count() > kMostFields) {
    return fail(ErrorCode::kTokenizerInvalid, "{} has {} fields; at most {} are allowed", where, value.count(),
                kMostFields);
  }
  Fields out;
  out.where_ = std::move(where);
  for (const JsonValue& field : value) {
    for (const Field& earlier : out.fields_) {
      if (earlier.value.key() != field.key()) continue;
      return fail(ErrorCode::kJsonKeyDuplicate, "{} has the field {} twice", out.where_, shown(field.key()));
    }
    out.fields_.push_back({field});
  }
  return out;
}

std::optional<JsonValue> Fields::find(std::string_view name) {
  for (Field& field : fields_) {
    if (field.value.key() != name) continue;
    field.read = true;
    if (field.value.is(JsonValue::Kind::kNull)) return std::nullopt;
    return field.value;
  }
  return std::nullopt;
}

Error Fields::wrong_kind(std::string_view name, JsonValue value, std::string_view expected) const {
  return fail(ErrorCode::kTokenizerInvalid, "{}: the field \"{}\" is {}; {} is expected", where_, name,
              name_of(value.kind()), expected);
}

Result<JsonValue> Fields::get(std::string_view name) {
  const auto value = find(name);
  if (!value) return fail(ErrorCode::kTokenizerInvalid, "{}: the field \"{}\" is missing", where_, name);
  return *value;
}

Result<JsonValue> Fields::get(std::string_view name, JsonValue::Kind kind) {
  const JsonValue value = PAGODA_TRY(get(name));
  if (!value.is(kind)) return wrong_kind(name, value, name_of(kind));
  return value;
}

Result<std::string_view> Fields::string(std::string_view name) {
  return PAGODA_TRY(get(name, JsonValue::Kind::kString)).string();
}

Result<std::string> Fields::string_or(std::string_view name, std::string_view fallback) {
  const auto value = find(name);
  if (!value) return std::string(fallback);
  if (!value->is(JsonValue::Kind::kString)) return wrong_kind(name, *value, "a string");
  return std::string(value->string());
}

Result<bool> Fields::boolean_or(std::string_view name, bool fallback) {
  const auto value = find(name);
  if (!value) return fallback;
  if (value->is(JsonValue::Kind::kTrue)) return true;
  if (value->is(JsonValue::Kind::kFalse)) return false;
  return wrong_kind(name, *value, "a boolean");
}

Result<std::int64_t> Fields::integer(std::string_view name) {
  const JsonValue value = PAGODA_TRY(get(name));
  const auto number = value.integer();
  if (!number) return wrong_kind(name, value, "a whole number");
  return *number;
}

Result<std::string> Fields::character(std::string_view name) {
  const std::string_view text = PAGODA_TRY(string(name));
  if (text.empty() || read_utf8(text).length != text.size()) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the field \"{}\" is {}; one character is expected", where_, name,
                shown(text));
  }
  return std::string(text);
}

Status Fields::finish() const {
  for (const Field& field : fields_) {
    if (field.read) continue;
    return fail(ErrorCode::kTokenizerUnsupported, "{}: the field {} is not known", where_, shown(field.value.key()));
  }
  return Ok{};
}

Result<std::string_view> type_of(Fields& fields) { return fields.string("type"); }

Error unknown_element(const Fields& fields, std::string_view type) {
  return fail(ErrorCode::kTokenizerUnsupported, "{}: the element {} is not supported", fields.where(), shown(type));
}

}  // namespace pagoda::text
