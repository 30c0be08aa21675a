// Filters on one text or number.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::size_t kPrintWidth = 80;  // of pprint, before it breaks lines

/// The filtered value as a string.
const Text& subject(Call& call) { return to_text(call.machine, call.self).text(); }

Value upper(Call& call) { return text_upper(call.machine, subject(call)); }
Value lower(Call& call) { return text_lower(call.machine, subject(call)); }
Value capitalize(Call& call) { return text_capitalize(call.machine, subject(call)); }
Value trim(Call& call) { return text_strip(call.machine, subject(call), call.a[0], true, true); }
Value string(Call& call) { return to_text(call.machine, call.self); }
Value center(Call& call) { return text_center(call.machine, subject(call), int_argument(call.a[0], 80), " "); }
Value escape(Call& call) { return escape_text(call.machine, subject(call)); }

Value force_escape(Call& call) {
  Text plain = subject(call);
  plain.markup = false;
  return escape_text(call.machine, plain);
}

Value safe(Call& call) {
  Text text = subject(call);
  text.markup = true;
  return call.machine.text(std::move(text));
}

Value replace(Call& call) {
  const Value from_value = to_text(call.machine, call.a[0]);
  const Value to_value = to_text(call.machine, call.a[1]);
  const Text& from = from_value.text();
  const Text& to = to_value.text();
  const std::int64_t count = given_and_not_none(call.a[2]) ? int_argument(call.a[2], -1) : -1;
  return text_replace(call.machine, subject(call), from, to, count);
}

Value title(Call& call) {
  const Text& text = subject(call);
  TextBuilder builder(call.machine);
  int last_kind = -1;  // separators and words alternate; each begins with a capital
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const std::size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    const int kind = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<' ? 1 : 0;
    std::string made;
    kind == last_kind ? append_lower(made, c) : append_upper(made, c);
    last_kind = kind;
    builder.in_place_of(text, begin, pos, made);
    if ((begin & 7U) == 0) call.machine.step();
  }
  return builder.build(text.markup);
}

Value indent(Call& call) {
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (!call.self.is(Kind::kString)) raise("unsupported operand type(s) for +=: '{}' and 'str'", type_name(call.self));
  const Value width = given(call.a[0]) ? call.a[0] : Value::integer(4);
  Machine& machine = call.machine;
  const Value indention = width.is(Kind::kString) ? width : binary(machine, "*", machine.trusted(" "), width);
  const bool first = given(call.a[1]) && truthy(call.a[1]);
  const bool blank = given(call.a[2]) && truthy(call.a[2]);
  const Value whole = binary(machine, "+", call.self, machine.trusted("\n"));
  const auto lines = text_splitlines(machine, whole.text(), false);
  TextBuilder builder(machine);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) builder.trusted("\n");
    if (i == 0 ? first : blank || !lines[i].bytes().empty()) builder.copy(indention.text());
    builder.copy(lines[i].text());
  }
  return builder.build(call.self.text().markup);
}

Value truncate(Call& call) {
  if (call.self.is(Kind::kUndefined)) return call.self;
  const auto size = length_of(call.self);
  if (!size) raise("object of type '{}' has no len()", type_name(call.self));
  const std::int64_t length = int_argument(call.a[0], 255);
  if (!call.self.is(Kind::kString)) {
    if (*size <= length) return call.self;  // jinja2 asks for nothing but a length here
    raise("truncate of a {} is not supported in chat templates", type_name(call.self));
  }
  const Text& text = call.self.text();
  const bool kill_words = given(call.a[1]) && truthy(call.a[1]);
  const Value end = given(call.a[2]) ? call.a[2] : call.machine.trusted("...");
  const auto end_chars = static_cast<std::int64_t>(text_argument(end, "end").chars);
  const std::int64_t leeway = given_and_not_none(call.a[3]) ? int_argument(call.a[3], 5) : 5;
  if (length < end_chars) raise("expected length >= {}, got {}", end_chars, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  if (static_cast<std::int64_t>(text.chars) <=
      checked_int(length > INT64_MAX - leeway ? std::nullopt : std::optional(length + leeway))) {
    return call.self;
  }
  std::size_t cut = byte_of_char(text, static_cast<std::size_t>(length - end_chars));
  if (!kill_words) cut = std::min(cut, std::string_view(text.bytes).substr(0, cut).rfind(' '));
  TextBuilder builder(call.machine);
  builder.copy(text, 0, cut);
  builder.copy(end.text());
  return builder.build(text.markup);
}

Value wordcount(Call& call) {
  const std::string& bytes = subject(call).bytes;
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const char32_t c = next_char(bytes, pos);
    const bool word = c == '_' || is_alnum(c);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  call.machine.step_bytes(bytes.size());
  return Value::integer(words);
}

Value format_filter(Call& call) {
  if (!call.given.positional.empty() && !call.given.named.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  if (call.given.named.empty()) {
    return format_percent(call.machine, subject(call), call.machine.tuple(call.given.positional));
  }
  auto* dict = call.machine.heap().make<Dict>();
  for (const auto& [name, value] : call.given.named) dict->set(call.machine.trusted(name), value);
  return format_percent(call.machine, subject(call), Value(Kind::kDict, dict));
}

std::string quoted_url(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += pagoda::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value urlencode(Call& call) {
  Machine& machine = call.machine;
  if (call.self.is(Kind::kString) || !is_iterable(call.self)) {
    return machine.untrusted(quoted_url(subject(call).bytes, false));
  }
  TextBuilder builder(machine);
  const auto add = [&](const Value& key, const Value& value) {
    if (builder.size() > 0) builder.untrusted("&");
    builder.untrusted(quoted_url(to_text(machine, key).bytes(), true) + "=");
    builder.untrusted(quoted_url(to_text(machine, value).bytes(), true));
  };
  if (call.self.is(Kind::kDict)) {
    for (const auto& [key, value] : call.self.as<Dict>().items) add(key, value);
  } else {
    for (const Value& item : collect(machine, call.self)) {
      const auto pair = collect(machine, item);
      if (pair.size() != 2) raise("too many values to unpack (expected 2)");
      add(pair[0], pair[1]);
    }
  }
  return builder.build();
}

/// The characters of an HTML entity at `pos` ("&lt;"), which moves behind it.
std::string unescaped_entity(std::string_view text, std::size_t& pos) {
  const std::size_t end = text.find(';', pos);
  const std::string_view name = text.substr(pos + 1, std::min(end, text.size()) - pos - 1);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"amp", "&"},   {"lt", "<"},   {"gt", ">"},
                                                                      {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00A0"},
                                                                      {"#39", "'"},   {"#34", "\""}};
  for (const auto& [entity, character] : kNames) {
    if (name != entity || end == std::string_view::npos) continue;
    pos = end + 1;
    return std::string(character);
  }
  if (pos + 1 < text.size() && (text[pos + 1] == '#' || is_alpha(static_cast<unsigned char>(text[pos + 1])))) {
    raise("striptags: this HTML entity is not supported in chat templates");
  }
  ++pos;
  return "&";
}

Value striptags(Call& call) {
  std::string text = subject(call).bytes;
  call.machine.step_bytes(text.size());
  const auto cut = [&](std::string_view open, std::string_view close) {
    std::string kept;
    std::size_t done = 0;
    for (std::size_t at = 0; (at = text.find(open, done)) != std::string::npos;) {
      const std::size_t end = text.find(close, at);
      if (end == std::string::npos) break;
      kept.append(text, done, at - done);
      done = end + close.size();
    }
    kept.append(text, done);
    text = std::move(kept);
  };
  cut("<!--", "-->");
  cut("<", ">");
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    if (text[pos] == '&') {
      out += unescaped_entity(text, pos);
      continue;
    }
    const char32_t c = next_char(text, pos);
    if (!is_space(c)) {
      append_char(out, c);
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return call.machine.untrusted(out);
}

Value xmlattr(Call& call) {
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (!call.self.is(Kind::kDict)) raise("'{}' object has no attribute 'items'", type_name(call.self));
  Machine& machine = call.machine;
  TextBuilder builder(machine);
  for (const auto& [key, value] : call.self.as<Dict>().items) {
    if (value.is(Kind::kNone) || value.is(Kind::kUndefined)) continue;
    if (!key.is(Kind::kString)) raise("expected string or bytes-like object, got '{}'", type_name(key));
    if (key.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      raise("Invalid character in attribute name: {}", repr_of(key));
    }
    if (builder.size() > 0 || !given(call.a[0]) || truthy(call.a[0])) builder.untrusted(" ");
    builder.copy(escape_text(machine, key.text()).text());
    builder.untrusted("=\"");
    builder.copy(escape_text(machine, to_text(machine, value).text()).text());
    builder.untrusted("\"");
  }
  return builder.build();
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

/// Digits without their single underscores; nothing if an underscore does not stand between digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return std::nullopt;
    }
  }
  return out;
}

/// int(text, base); nothing for a ValueError.
std::optional<std::int64_t> parse_int(std::string_view text, std::int64_t base) {
  text = stripped(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const std::int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      base = prefix;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0 && digits->size() > 1 && (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) {
    return std::nullopt;
  }
  const std::string signed_digits = (negative ? "-" : "") + *digits;
  if ((*digits)[0] == '-') return std::nullopt;
  std::int64_t value = 0;
  const char* last = signed_digits.data() + signed_digits.size();
  const auto end = std::from_chars(signed_digits.data(), last, value, static_cast<int>(base == 0 ? 10 : base));
  if (end.ptr != last || end.ec == std::errc::invalid_argument) return std::nullopt;
  if (end.ec == std::errc::result_out_of_range) checked_int(std::nullopt);
  return value;
}

/// float(text); nothing for a ValueError.
std::optional<double> parse_float(std::string_view text) {
  const auto plain = without_underscores(stripped(text));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  if (digits[0] == '+') digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '+' || digits.find('(') != std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* last = digits.data() + digits.size();
  const auto end = std::from_chars(digits.data(), last, value);
  if (end.ptr != last || end.ec == std::errc::invalid_argument) return std::nullopt;
  if (end.ec == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (std::fabs(value) >= 9.2e18) checked_int(std::nullopt);
  return static_cast<std::int64_t>(value);
}

Value to_int(Call& call) {
  const Value fallback = given(call.a[0]) ? call.a[0] : Value::integer(0);
  std::optional<std::int64_t> result;
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (call.self.is_int()) return Value::integer(call.self.as_int());
  if (call.self.is(Kind::kFloat)) {
    if (std::isinf(call.self.as_real())) raise("cannot convert float infinity to integer");
    result = truncated(call.self.as_real());
  } else if (call.self.is(Kind::kString)) {
    result = parse_int(call.self.bytes(), int_argument(call.a[1], 10));
    if (!result) {
      const auto real = parse_float(call.self.bytes());
      if (real && !std::isinf(*real)) result = truncated(*real);
    }
  }
  return result ? Value::integer(*result) : fallback;
}

Value to_float(Call& call) {
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (call.self.is_number()) return Value::real(call.self.as_real());
  if (call.self.is(Kind::kString)) {
    if (const auto value = parse_float(call.self.bytes())) return Value::real(*value);
  }
  return given(call.a[0]) ? call.a[0] : Value::real(0);
}

Value absolute(Call& call) {
  if (call.self.is(Kind::kFloat)) return Value::real(std::fabs(call.self.as_real()));
  if (!call.self.is_int()) raise("bad operand type for abs(): '{}'", type_name(call.self));
  return call.self.as_int() < 0 ? negate(call.self) : Value::integer(call.self.as_int());
}

/// Python's round(): to the nearest, ties to even, of the exact value.
Value round_common(const Value& value, std::int64_t precision) {
  if (value.is_int()) {
    if (precision >= 0) return Value::integer(value.as_int());
    if (precision < -18) return Value::integer(0);
    std::int64_t unit = 1;
    for (std::int64_t i = 0; i < -precision; ++i) unit *= 10;
    const std::int64_t rest = ((value.as_int() % unit) + unit) % unit;
    const std::int64_t low = value.as_int() - rest;
    const bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
    return Value::integer(up ? low + unit : low);
  }
  const double real = value.as_real();
  if (!std::isfinite(real) || precision > 308) return value;
  if (precision >= 0)
    return Value::real(std::strtod(format_double(real, 'f', static_cast<int>(precision), false).c_str(), nullptr));
  if (precision < -308) return Value::real(std::copysign(0.0, real));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value::real(std::nearbyint(real / unit) * unit);
}

Value round_filter(Call& call) {
  const std::int64_t precision = int_argument(call.a[0], 0);
  const std::string method = given(call.a[1]) ? to_text(call.machine, call.a[1]).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  if (!call.self.is_number()) {
    if (method == "common") raise("type {} doesn't define __round__ method", type_name(call.self));
    if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
    raise("must be real number, not {}", type_name(call.self));
  }
  if (method == "common") return round_common(call.self, precision);
  const Value unit = binary(call.machine, "**", Value::integer(10), Value::integer(precision));
  const double scaled = binary(call.machine, "*", call.self, unit).as_real();
  if (!std::isfinite(scaled)) raise("cannot convert float infinity to integer");
  return binary(call.machine, "/", Value::real(method == "ceil" ? std::ceil(scaled) : std::floor(scaled)), unit);
}

Value filesizeformat(Call& call) {
  const bool by_1024 = given(call.a[0]) && truthy(call.a[0]);
  std::optional<double> size;
  if (call.self.is_number()) size = call.self.as_real();
  if (call.self.is(Kind::kString)) size = parse_float(call.self.bytes());
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (!size) raise("could not convert string to float: {}", repr_of(call.self));
  const double base = by_1024 ? 1024 : 1000;
  if (*size == 1) return call.machine.untrusted("1 Byte");
  if (*size < base) return call.machine.untrusted(pagoda::format("{} Bytes", static_cast<std::int64_t>(*size)));
  constexpr std::string_view kLetters = "KMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  while (i + 1 < kLetters.size() && *size >= unit * base) {
    unit *= base;
    ++i;
  }
  const std::string letter(1, i == 0 && !by_1024 ? 'k' : kLetters[i]);
  return call.machine.untrusted(format_double(*size / unit, 'f', 1, false) + " " + letter + (by_1024 ? "iB" : "B"));
}

Value tojson(Call& call) {
  JsonStyle style;
  style.ensure_ascii = given(call.a[0]) && truthy(call.a[0]);
  if (given_and_not_none(call.a[1])) {
    style.pretty = true;
    style.item_separator = ",";
    style.indent =
        call.a[1].is(Kind::kString)
            ? call.a[1].bytes()
            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(int_argument(call.a[1], 0), 0, 1000)), ' ');
  }
  if (given_and_not_none(call.a[2])) {
    const auto separators = collect(call.machine, call.a[2]);
    if (separators.size() != 2) raise("not enough values to unpack (expected 2, got {})", separators.size());
    style.item_separator = text_argument(separators[0], "separator").bytes;
    style.key_separator = text_argument(separators[1], "separator").bytes;
  }
  style.sort_keys = given(call.a[3]) && truthy(call.a[3]);
  return to_json(call.machine, call.self, style);
}

Value pprint(Call& call) {
  TextBuilder builder(call.machine);
  print_repr(call.machine, builder, call.self);
  Value printed = builder.build();
  const bool sorted_already = !call.self.is(Kind::kDict) && !call.self.is_sequence();
  if (printed.text().chars > kPrintWidth || (!sorted_already && printed.bytes().find('{') != std::string::npos)) {
    raise("pprint of a dict, or of more than {} characters, is not supported in chat templates", kPrintWidth);
  }
  return printed;
}

Value default_filter(Call& call) {
  const bool boolean = given(call.a[1]) && truthy(call.a[1]);
  if (!call.self.is(Kind::kUndefined) && (!boolean || truthy(call.self))) return call.self;
  return given(call.a[0]) ? call.a[0] : call.machine.trusted("");
}

Value attr(Call& call) {
  const Value name_value = to_text(call.machine, call.a[0]);
  const std::string& name = name_value.bytes();
  if (call.self.is(Kind::kDict) && find_container_method(call.self, name) == nullptr && !name.starts_with("__")) {
    return call.machine.undefined_item(call.self, call.a[0]);  // unlike `x.name`, never an element
  }
  return get_attribute(call.machine, call.self, name);
}

Value refused(Call& call) {
  (void)call;
  raise("the filters random, urlize and wordwrap are not supported in chat templates");
}

constexpr Builtin kFilters[] = {
    {"abs", "", 0, absolute},
    {"attr", "name", 1, attr},
    {"capitalize", "", 0, capitalize},
    {"center", "width", 0, center},
    {"d", "default_value boolean", 0, default_filter},
    {"default", "default_value boolean", 0, default_filter},
    {"e", "", 0, escape},
    {"escape", "", 0, escape},
    {"filesizeformat", "binary", 0, filesizeformat},
    {"float", "default", 0, to_float},
    {"forceescape", "", 0, force_escape},
    {"format", "*", 0, format_filter},
    {"indent", "width first blank", 0, indent},
    {"int", "default base", 0, to_int},
    {"lower", "", 0, lower},
    {"pprint", "", 0, pprint},
    {"random", "*", 0, refused},
    {"replace", "old new count", 2, replace},
    {"round", "precision method", 0, round_filter},
    {"safe", "", 0, safe},
    {"string", "", 0, string},
    {"striptags", "", 0, striptags},
    {"title", "", 0, title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson},
    {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, upper},
    {"urlencode", "", 0, urlencode},
    {"urlize", "*", 0, refused},
    {"wordcount", "", 0, wordcount},
    {"wordwrap", "*", 0, refused},
    {"xmlattr", "autospace", 0, xmlattr},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace pagoda::text::jinja
