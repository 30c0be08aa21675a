#include "server/json/json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace pagoda::server {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::size_t plain = 0;  // where the run of bytes that need no escape begins
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out += kHex[byte >> 4];
        out += kHex[byte & 15];
    }
  }
  out.append(text, plain);
}

void write(const Json& json, std::string& out) {
  using Kind = Json::Kind;
  const char* separator = "";
  switch (json.kind) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kFalse:
      out += "false";
      return;
    case Kind::kTrue:
      out += "true";
      return;
    case Kind::kNumber:
      out += json.text;
      return;
    case Kind::kString:
      out += quoted(json.text);
      return;
    case Kind::kArray:
      out += '[';
      for (const Json& item : json.items) {
        out += std::exchange(separator, ",");
        write(item, out);
      }
      out += ']';
      return;
    case Kind::kObject:
      out += '{';
      for (const auto& [key, value] : json.members) {
        out += std::exchange(separator, ",");
        out += quoted(key);
        out += ':';
        write(value, out);
      }
      out += '}';
      return;
  }
}

template <class T>
void append_number(std::string& out, T number) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end);
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::optional<double> Json::number() const {
  if (kind != Kind::kNumber) return std::nullopt;
  // The digits were checked when they were read. Too small for a double is zero; too large is nothing.
  const double value = std::strtod(text.c_str(), nullptr);
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::optional<std::int64_t> Json::integer() const {
  if (kind != Kind::kNumber) return std::nullopt;
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size()) return whole;
  if (text.find_first_of(".eE") == std::string::npos) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53: up to here a double tells whole numbers apart
  const auto value = number();
  if (!value || std::abs(*value) > kExact || *value != std::trunc(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::string_view kind_name(const Json& json) {
  constexpr std::string_view kNames[] = {"null",     "a boolean", "a boolean", "a number",
                                         "a string", "a list",    "an object"};
  return kNames[static_cast<std::size_t>(json.kind)];
}

std::string to_text(const Json& json) {
  std::string out;
  write(json, out);
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  out += '"';
  return out;
}

void JsonWriter::separate() {
  if (comma_) text_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text_ += '"';
  append_escaped(text_, name);
  text_ += "\":";
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  separate();
  append_number(text_, std::isfinite(number) ? number : -9999.0);
  return *this;
}

JsonWriter& JsonWriter::value(float number) {
  separate();
  append_number(text_, std::isfinite(number) ? number : -9999.f);
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  append_escaped(text_, text);
  text_ += '"';
  return *this;
}

}  // namespace pagoda::server
