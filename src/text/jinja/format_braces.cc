// str.format: replacement fields with attributes and elements (through the sandbox), conversions, specifications.
#include <algorithm>
#include <cmath>

#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr int kMaxDigits = 1000;

struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  std::int64_t width = 0;
  char grouping = 0;
  std::int64_t precision = -1;
  char type = 0;
};

std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > std::int64_t{1} << 40) raise("Too many decimal digits in format string");
  }
  return value;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(std::string_view text, const Value& value) {
  Spec spec;
  std::size_t at = 0;
  bool filled = false;
  if (!text.empty()) {
    std::size_t second = 0;
    next_char(text, second);
    if (second < text.size() && is_align(text[second])) {
      spec.fill = text.substr(0, second);
      spec.align = text[second];
      at = second + 1;
      filled = true;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto have = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (have("+- ")) spec.sign = text[at++];
  if (have("#")) spec.alternate = text[at++] != 0;
  if (have("0")) {
    ++at;
    if (!filled) spec.fill = "0";
    if (spec.align == 0 && !value.is(Kind::kString)) spec.align = '=';
  }
  spec.width = read_number(text, at);
  if (have(",_")) spec.grouping = text[at++];
  if (have(".")) {
    ++at;
    if (!have("0123456789")) raise("Format specifier missing precision");
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise("Invalid format specifier '{}' for object of type '{}'", text, type_name(value));
  return spec;
}

void group_digits(std::string& digits, char separator, std::size_t every) {
  std::size_t whole = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (whole == std::string::npos) whole = digits.size();
  for (std::size_t i = whole; i > every;) {
    i -= every;
    digits.insert(i, 1, separator);
  }
}

class BraceFormatter {
 public:
  BraceFormatter(Machine& machine, const Arguments& arguments) : machine_(machine), arguments_(arguments) {}

  void run(const Text& text, std::size_t begin, std::size_t end, TextBuilder& out, int depth) {
    if (depth > 2) raise("Max string recursion exceeded");
    const std::string& bytes = text.bytes;
    for (std::size_t at = begin; at < end;) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), end);
      out.copy(text, at, brace);
      if (brace >= end) break;
      if (brace + 1 < end && bytes[brace + 1] == bytes[brace]) {
        out.copy(text, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') raise("Single '}}' encountered in format string");
      std::size_t close = brace + 1;
      for (int open = 1; close < end; ++close) {
        open += bytes[close] == '{' ? 1 : bytes[close] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (brace + 1 >= end) raise("Single '{{' encountered in format string");
      if (close >= end) raise("expected '}}' before end of string");
      field(text, brace + 1, close, out, depth);
      at = close + 1;
    }
  }

 private:
  void field(const Text& text, std::size_t begin, std::size_t end, TextBuilder& out, int depth) {
    const std::string& bytes = text.bytes;
    std::size_t name_end = begin;
    for (int brackets = 0; name_end < end; ++name_end) {
      const char c = bytes[name_end];
      brackets += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (brackets <= 0 && (c == '!' || c == ':')) break;
    }
    Value value = lookup(std::string_view(bytes).substr(begin, name_end - begin));
    std::size_t at = name_end;
    if (at < end && bytes[at] == '!') {
      if (at + 1 >= end) raise("end of string while looking for conversion specifier");
      value = converted(value, bytes[at + 1]);
      at += 2;
      if (at < end && bytes[at] != ':') raise("expected ':' after conversion specifier");
    }
    TextBuilder spec(machine_);
    if (at < end) run(text, at + 1, end, spec, depth + 1);
    print(value, spec.take().bytes, out);
  }

  Value converted(const Value& value, char how) {
    if (how == 's') return to_text(machine_, value);
    if (how != 'r' && how != 'a') raise("Unknown conversion specifier {}", how);
    TextBuilder repr(machine_);
    print_repr(machine_, repr, value);
    return repr.build();
  }

  Value first_part(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
      std::size_t at = 0;
      const bool automatic = name.empty();
      if (automatic ? numbering_ == 2 : numbering_ == 1) {
        raise("cannot switch from manual field specification to automatic field numbering");
      }
      numbering_ = automatic ? 1 : 2;
      const auto index = static_cast<std::size_t>(automatic ? next_++ : read_number(name, at));
      if (index >= arguments_.positional.size()) {
        raise("tuple index out of range");
      }
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    raise("{}", string_repr(name));
  }

  Value lookup(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first_part(name.substr(0, at));
    while (at < name.size()) {
      if (name[at] == '.') {
        const std::size_t stop = std::min(name.find_first_of(".[", at + 1), name.size());
        if (stop == at + 1) raise("Empty attribute in format string");
        value = get_attribute(machine_, value, name.substr(at + 1, stop - at - 1));
        at = stop;
      } else if (name[at] == '[') {
        const std::size_t stop = name.find(']', at + 1);
        if (stop == std::string_view::npos) raise("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, stop - at - 1);
        if (key.empty()) raise("Empty attribute in format string");
        std::size_t digit = 0;
        const bool number = key.find_first_not_of("0123456789") == std::string_view::npos;
        value = get_item(machine_, value, number ? Value::integer(read_number(key, digit)) : machine_.trusted(key));
        at = stop + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  void print(const Value& value, const std::string& spec_text, TextBuilder& out) {
    if (spec_text.empty()) return print_str(machine_, out, value);
    if (value.is_number()) return print_number(value, parse_spec(spec_text, value), out);
    if (!value.is(Kind::kString)) {
      raise("unsupported format string passed to {}.__format__", type_name(value));
    }
    const Spec spec = parse_spec(spec_text, value);
    if (spec.type != 0 && spec.type != 's') {
      raise("Unknown format code '{}' for object of type 'str'", spec.type);
    }
    if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
    const Text& text = value.text();
    const std::size_t shown =
        spec.precision < 0 ? text.chars : std::min(text.chars, static_cast<std::size_t>(spec.precision));
    const std::int64_t missing = spec.width - static_cast<std::int64_t>(shown);
    const std::int64_t before = spec.align == '>' ? missing : spec.align == '^' ? missing / 2 : 0;
    pad(out, spec.fill, before);
    out.copy(text, 0, byte_of_char(text, shown));
    pad(out, spec.fill, missing - std::max<std::int64_t>(before, 0));
  }

  void print_number(const Value& value, Spec spec, TextBuilder& out) {
    if (value.is(Kind::kBool) && spec.type == 0) spec.type = 'd';
    std::string prefix;
    std::string digits = value.is(Kind::kFloat) || std::string_view("eEfFgG%").find(spec.type == 0 ? 'd' : spec.type) !=
                                                       std::string_view::npos
                             ? real_digits(value.as_real(), spec, prefix)
                             : integer_digits(value.as_int(), spec, prefix);
    const bool negative =
        value.is(Kind::kFloat) ? std::signbit(value.as_real()) && !std::isnan(value.as_real()) : value.as_int() < 0;
    prefix = (negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + prefix;
    const auto length = static_cast<std::int64_t>(prefix.size() + digits.size());
    const std::int64_t missing = std::max<std::int64_t>(spec.width - length, 0);
    const char align = spec.align == 0 ? '>' : spec.align;
    if (align == '>') pad(out, spec.fill, missing);
    if (align == '^') pad(out, spec.fill, missing / 2);
    out.untrusted(prefix);
    if (align == '=') pad(out, spec.fill, missing);
    out.untrusted(digits);
    if (align == '<') pad(out, spec.fill, missing);
    if (align == '^') pad(out, spec.fill, missing - missing / 2);
  }

  std::string integer_digits(std::int64_t value, const Spec& spec, std::string& prefix) {
    if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
    const std::uint64_t magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    std::string digits;
    switch (spec.type) {
      case 0:
      case 'd':
      case 'n':
        digits = pagoda::format("{}", magnitude);
        break;
      case 'x':
        digits = pagoda::format("{:x}", magnitude);
        break;
      case 'X':
        digits = pagoda::format("{:X}", magnitude);
        break;
      case 'o':
        digits = pagoda::format("{:o}", magnitude);
        break;
      case 'b':
        digits = pagoda::format("{:b}", magnitude);
        break;
      case 'c':
        if (magnitude > 0x10FFFF || value < 0 || (value >= 0xD800 && value < 0xE000))
          raise("%c arg not in range(0x110000)");
        append_char(digits, static_cast<char32_t>(magnitude));
        return digits;
      default:
        raise("Unknown format code '{}' for object of type 'int'", spec.type);
    }
    if (spec.alternate && spec.type != 0 && spec.type != 'd' && spec.type != 'n') prefix = std::string("0") + spec.type;
    if (spec.grouping != 0) group_digits(digits, spec.grouping, spec.type == 0 || spec.type == 'd' ? 3 : 4);
    return digits;
  }

  std::string real_digits(double value, const Spec& spec, std::string&) {
    if (spec.precision > kMaxDigits) raise_limit("it formats a number with over {} digits", kMaxDigits);
    const double magnitude = std::fabs(value);
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    std::string digits;
    switch (spec.type) {
      case 0:
        digits = spec.precision < 0 ? float_repr(magnitude) : general_with_point(magnitude, precision);
        break;
      case '%':
        digits = format_double(magnitude * 100, 'f', precision, spec.alternate) + "%";
        break;
      case 'n':
        digits = format_double(magnitude, 'g', precision, spec.alternate);
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        digits = format_double(magnitude, spec.type, precision, spec.alternate);
        break;
      default:
        raise("Unknown format code '{}' for object of type 'float'", spec.type);
    }
    if (spec.grouping != 0 && std::isfinite(value)) group_digits(digits, spec.grouping, 3);
    return digits;
  }

  /// No type but a precision: like 'g', but it shows at least one digit behind the point.
  static std::string general_with_point(double value, int precision) {
    std::string digits = format_double(value, 'g', precision, false);
    if (std::isfinite(value) && digits.find_first_of(".e") == std::string::npos) {
      if (static_cast<int>(digits.size()) >= std::max(precision, 1))
        return format_double(value, 'e', std::max(precision, 1) - 1, false);
      digits += ".0";
    }
    return digits;
  }

  void pad(TextBuilder& out, std::string_view fill, std::int64_t count) {
    if (count <= 0) return;
    machine_.heap().charge(static_cast<std::size_t>(count) * fill.size());
    machine_.step(static_cast<std::uint64_t>(count) / 16);
    std::string padding(fill.size() == 1 ? static_cast<std::size_t>(count) : 0, fill[0]);
    for (std::int64_t i = 0; i < count && fill.size() > 1; ++i) padding += fill;
    out.untrusted(padding);
  }

  Machine& machine_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;
  int numbering_ = 0;  // 1 automatic, 2 by hand
};

}  // namespace

Value format_braces(Machine& machine, const Text& text, const Arguments& arguments) {
  TextBuilder out(machine);
  BraceFormatter(machine, arguments).run(text, 0, text.bytes.size(), out, 1);
  return out.build(text.markup);
}

}  // namespace pagoda::text::jinja
