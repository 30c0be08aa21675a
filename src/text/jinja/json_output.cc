// json.dumps as transformers' `tojson` calls it. All it makes is untrusted, whatever went in.
#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Machine& machine, const JsonStyle& style) : machine_(machine), style_(style), out_(machine) {}

  void write(const Value& value, int level) {
    machine_.step();
    switch (value.kind()) {
      case Kind::kString:
        return string(value.bytes());
      case Kind::kList:
      case Kind::kTuple:
        return array(value.as<Sequence>().items, level);
      case Kind::kDict:
        return object(value.as<Dict>(), level);
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return out_.untrusted(scalar(value));
      default:
        raise("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  Value build() { return out_.build(); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is(Kind::kNone)) return "null";
    if (value.is(Kind::kBool)) return value.as_bool() ? "true" : "false";
    if (value.is(Kind::kInt)) return pagoda::format("{}", value.as_int());
    const double number = value.as_real();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_repr(number);
  }

  void unit(std::uint32_t code) { out_.untrusted(pagoda::format("\\u{:04x}", code)); }

  void string(std::string_view text) {
    out_.untrusted("\"");
    std::size_t done = 0;
    for (std::size_t pos = 0; pos < text.size();) {
      const std::size_t begin = pos;
      const char32_t c = next_char(text, pos);
      if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !style_.ensure_ascii)) continue;
      if (c == 0x7F) continue;
      out_.untrusted(text.substr(done, begin - done));
      done = pos;
      escaped(c);
    }
    out_.untrusted(text.substr(done));
    out_.untrusted("\"");
  }

  void escaped(char32_t c) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    const std::size_t at = c < 0x80 ? kPlain.find(static_cast<char>(c)) : std::string_view::npos;
    if (at != std::string_view::npos) {
      out_.untrusted("\\");
      out_.untrusted(kLetters.substr(at, 1));
    } else if (c <= 0xFFFF) {
      unit(static_cast<std::uint32_t>(c));
    } else {
      unit(0xD800U + ((static_cast<std::uint32_t>(c) - 0x10000U) >> 10U));
      unit(0xDC00U + ((static_cast<std::uint32_t>(c) - 0x10000U) & 0x3FFU));
    }
  }

  void new_line(int level) {
    if (!style_.pretty) return;
    out_.untrusted("\n");
    for (int i = 0; i < level; ++i) out_.untrusted(style_.indent);
  }

  void separate(bool& first, int level) {
    if (!first) out_.untrusted(style_.item_separator);
    first = false;
    new_line(level);
  }

  void array(const std::vector<Value>& items, int level) {
    if (items.empty()) return out_.untrusted("[]");
    out_.untrusted("[");
    bool first = true;
    for (const Value& item : items) {
      separate(first, level + 1);
      write(item, level + 1);
    }
    new_line(level);
    out_.untrusted("]");
  }

  void object(const Dict& dict, int level) {
    if (dict.items.empty()) return out_.untrusted("{}");
    auto items = dict.items;
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto& a, const auto& b) { return ordered(machine_, "<", a.first, b.first); });
    }
    out_.untrusted("{");
    bool first = true;
    for (const auto& [key, value] : items) {
      separate(first, level + 1);
      if (key.is(Kind::kString)) {
        string(key.bytes());
      } else if (key.is(Kind::kNone) || key.is_number()) {
        string(scalar(key));
      } else {
        raise("keys must be str, int, float, bool or None, not {}", type_name(key));
      }
      out_.untrusted(style_.key_separator);
      write(value, level + 1);
    }
    new_line(level);
    out_.untrusted("}");
  }

  Machine& machine_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

Value to_json(Machine& machine, const Value& value, const JsonStyle& style) {
  JsonWriter writer(machine, style);
  writer.write(value, 0);
  return writer.build();
}

}  // namespace pagoda::text::jinja
