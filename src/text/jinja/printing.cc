#include "text/jinja/printing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::size_t kLongestInMessage = 200;

/// The escape of a character in repr, empty if it stands for itself.
std::string repr_escape(char32_t c, char quote) {
  if (c == static_cast<unsigned char>(quote)) return {'\\', quote};
  if (c == '\\') return "\\\\";
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (is_printable(c)) return "";
  const auto code = static_cast<std::uint32_t>(c);
  if (code <= 0xFF) return pagoda::format("\\x{:02x}", code);
  return code <= 0xFFFF ? pagoda::format("\\u{:04x}", code) : pagoda::format("\\U{:08x}", code);
}

struct Printer {
  Machine& machine;
  TextBuilder& out;

  void items(const std::vector<Value>& values) {
    bool first = true;
    for (const Value& value : values) {
      if (!first) out.untrusted(", ");
      first = false;
      print_repr(machine, out, value);
    }
  }

  void dict(const Dict& value) {
    out.untrusted("{");
    bool first = true;
    for (const auto& [key, element] : value.items) {
      if (!first) out.untrusted(", ");
      first = false;
      print_repr(machine, out, key);
      out.untrusted(": ");
      print_repr(machine, out, element);
    }
    out.untrusted("}");
  }

  void view(const View& value) {
    out.untrusted(value.part == View::Part::kKeys     ? "dict_keys(["
                  : value.part == View::Part::kValues ? "dict_values(["
                                                      : "dict_items([");
    bool first = true;
    for (const auto& [key, element] : value.dict->items) {
      if (!first) out.untrusted(", ");
      first = false;
      if (value.part == View::Part::kItems) out.untrusted("(");
      if (value.part != View::Part::kValues) print_repr(machine, out, key);
      if (value.part == View::Part::kItems) out.untrusted(", ");
      if (value.part != View::Part::kKeys) print_repr(machine, out, element);
      if (value.part == View::Part::kItems) out.untrusted(")");
    }
    out.untrusted("])");
  }
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, ".");
    return sign + digits + pagoda::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= count)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  digits.insert(static_cast<std::size_t>(exponent + 1), ".");
  return sign + digits;
}

std::string string_repr(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t begin = pos;
    const char32_t c = next_char(text, pos);
    const std::string escape = repr_escape(c, quote);
    escape.empty() ? out.append(text.substr(begin, pos - begin)) : out.append(escape);
  }
  return out += quote;
}

std::string repr_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return string_repr(std::string_view(value.bytes())
                             .substr(0, byte_of_char(value.text(), std::min(value.text().chars, kLongestInMessage))));
    case Kind::kInt:
      return pagoda::format("{}", value.as_int());
    case Kind::kFloat:
      return float_repr(value.as_real());
    case Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Kind::kNone:
      return "None";
    case Kind::kUndefined:
      return "Undefined";
    default:
      return pagoda::format("<{}>", type_name(value));
  }
}

void print_repr(Machine& machine, TextBuilder& out, const Value& value) {
  machine.step();
  Printer printer{machine, out};
  switch (value.kind()) {
    case Kind::kString:
      if (value.text().markup) out.untrusted("Markup(");
      out.untrusted(string_repr(value.bytes()));
      if (value.text().markup) out.untrusted(")");
      return;
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = value.as<Sequence>().items;
      out.untrusted(value.is(Kind::kList) ? "[" : "(");
      printer.items(items);
      out.untrusted(value.is(Kind::kList) ? "]" : items.size() == 1 ? ",)" : ")");
      return;
    }
    case Kind::kDict:
      return printer.dict(value.as<Dict>());
    case Kind::kView:
      return printer.view(value.as<View>());
    case Kind::kRange: {
      const auto& range = value.as<Range>();
      out.untrusted(range.step == 1 ? pagoda::format("range({}, {})", range.start, range.stop)
                                    : pagoda::format("range({}, {}, {})", range.start, range.stop, range.step));
      return;
    }
    case Kind::kNamespace: {
      const Machine::Deeper deeper(machine);
      out.untrusted("<Namespace ");
      printer.dict(value.as<Namespace>().dict);
      out.untrusted(">");
      return;
    }
    case Kind::kMacro:
    case Kind::kLoop:
      out.untrusted(describe_runtime_object(machine, value));
      return;
    case Kind::kIterator:
    case Kind::kFunction:
    case Kind::kCycler:
    case Kind::kJoiner:
      out.untrusted(pagoda::format("<{} object>", type_name(value)));
      return;
    default:
      out.untrusted(repr_of(value));
  }
}

void print_str(Machine& machine, TextBuilder& out, const Value& value) {
  machine.step();
  if (value.is(Kind::kString)) return out.copy(value.text());
  if (!value.is(Kind::kUndefined)) print_repr(machine, out, value);
}

Value to_text(Machine& machine, const Value& value) {
  if (value.is(Kind::kString)) return value;
  TextBuilder builder(machine);
  print_str(machine, builder, value);
  return builder.build();
}

}  // namespace pagoda::text::jinja
