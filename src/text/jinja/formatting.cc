#include "text/jinja/formatting.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::int64_t kMaxPrecision = 1000;

std::string int_digits(std::int64_t value, int base, bool upper) {
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, base);
  std::string text(buffer, end.ptr);
  if (!text.empty() && text.front() == '-') text.erase(0, 1);
  if (upper) std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' ? c - 32 : c; });
  return text;
}

// --- "%" ------------------------------------------------------------------------------------------------------------

struct Directive {
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
};

class PercentFormatter {
 public:
  PercentFormatter(Machine& machine, const Text& text, const Value& arguments)
      : machine_(machine), text_(text), arguments_(arguments), out_(machine) {}

  Value run() {
    const std::string& bytes = text_.bytes;
    std::size_t done = 0;
    while (true) {
      at_ = bytes.find('%', done);
      out_.copy(text_, done, std::min(at_, bytes.size()));
      if (at_ == std::string::npos) break;
      ++at_;
      directive();
      done = at_;
    }
    const bool mapping = arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) || arguments_.is(Kind::kUndefined);
    const std::size_t given = arguments_.is(Kind::kTuple) ? arguments_.as<Sequence>().items.size() : 1;
    if (next_ < given && !(mapping && !arguments_.is(Kind::kTuple))) {
      raise("not all arguments converted during string formatting");
    }
    return out_.build(text_.markup);
  }

 private:
  char peek() {
    if (at_ >= text_.bytes.size()) raise("incomplete format");
    return text_.bytes[at_];
  }

  Value take_argument() {
    if (arguments_.is(Kind::kTuple)) {
      const auto& items = arguments_.as<Sequence>().items;
      if (next_ >= items.size()) raise("not enough arguments for format string");
      return items[next_++];
    }
    if (next_ > 0) raise("not enough arguments for format string");
    ++next_;
    return arguments_;
  }

  std::int64_t number() {
    if (peek() == '*') {
      ++at_;
      const Value value = take_argument();
      if (!value.is_int()) raise("* wants int");
      return value.as_int();
    }
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<std::int64_t>(value * 10 + (text_.bytes[at_++] - '0'), std::int64_t{1} << 40);
    }
    return value;
  }

  void directive() {
    Value named;
    if (peek() == '(') {
      if (!arguments_.is(Kind::kDict)) raise("format requires a mapping");
      std::size_t close = ++at_;
      for (int open = 1; open > 0; ++close) {
        if (close >= text_.bytes.size()) raise("incomplete format key");
        open += text_.bytes[close] == '(' ? 1 : text_.bytes[close] == ')' ? -1 : 0;
      }
      const std::string key = text_.bytes.substr(at_, close - 1 - at_);
      const Value* found = arguments_.as<Dict>().find(key);
      if (found == nullptr) raise("{}", string_repr(key));
      named = *found;
      at_ = close;
    }
    Directive how;
    for (bool flags = true; flags;) {
      switch (peek()) {
        case '-':
          how.left = true;
          break;
        case '0':
          how.zero = true;
          break;
        case '+':
          how.plus = true;
          break;
        case ' ':
          how.blank = true;
          break;
        case '#':
          how.alternate = true;
          break;
        default:
          flags = false;
      }
      if (flags) ++at_;
    }
    how.width = number();
    if (how.width < 0) {
      how.left = true;
      how.width = -how.width;
    }
    if (peek() == '.') {
      ++at_;
      how.precision = std::max<std::int64_t>(number(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const std::size_t conversion_at = at_;
    const char conversion = peek();
    ++at_;
    if (conversion == '%') return out_.copy(text_, conversion_at, at_);
    convert(conversion, conversion_at, how, named.is(Kind::kMissing) ? take_argument() : named);
  }

  void convert(char conversion, std::size_t conversion_at, Directive how, const Value& value) {
    switch (conversion) {
      case 's':
        return pad_text(
            text_.markup && value.is(Kind::kString) ? escape_text(machine_, value.text()) : to_text(machine_, value),
            how);
      case 'r':
      case 'a': {
        TextBuilder repr(machine_);
        print_repr(machine_, repr, value);
        return pad_text(repr.build(), how);
      }
      case 'c':
        return character(value, how);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(conversion, how, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(conversion, how, value);
      default: {
        std::size_t pos = conversion_at;
        const char32_t c = next_char(text_.bytes, pos);
        std::string shown;
        append_char(shown, c);
        raise("unsupported format character '{}' (0x{:x}) at index {}", is_printable(c) ? shown : "?",
              static_cast<std::uint32_t>(c), count_chars(std::string_view(text_.bytes).substr(0, conversion_at)));
      }
    }
  }

  void character(const Value& value, const Directive& how) {
    if (value.is(Kind::kString) && value.text().chars == 1) return pad_text(value, how);
    if (!value.is_int()) raise("%c requires int or char");
    if (value.as_int() < 0 || value.as_int() > 0x10FFFF || (value.as_int() >= 0xD800 && value.as_int() < 0xE000)) {
      raise("%c arg not in range(0x110000)");
    }
    std::string c;
    append_char(c, static_cast<char32_t>(value.as_int()));
    pad_text(machine_.untrusted(c), how);
  }

  void integer(char conversion, const Directive& how, const Value& value) {
    if (!value.is_number() ||
        (value.is(Kind::kFloat) && (conversion == 'x' || conversion == 'X' || conversion == 'o'))) {
      if (value.is(Kind::kUndefined) && conversion != 'x' && conversion != 'X' && conversion != 'o')
        raise_undefined(value);
      const bool integer_only = conversion == 'x' || conversion == 'X' || conversion == 'o';
      raise("%{} format: {} is required, not {}", conversion, integer_only ? "an integer" : "a real number",
            type_name(value));
    }
    std::int64_t number = 0;
    if (value.is(Kind::kFloat)) {
      const double real = value.as_real();
      if (std::isnan(real)) raise("cannot convert float NaN to integer");
      if (std::isinf(real)) raise("cannot convert float infinity to integer");
      if (std::fabs(real) >= 9.2e18) checked_int(std::nullopt);
      number = static_cast<std::int64_t>(real);
    } else {
      number = value.as_int();
    }
    const int base = conversion == 'o' ? 8 : conversion == 'x' || conversion == 'X' ? 16 : 10;
    std::string digits = int_digits(number, base, conversion == 'X');
    if (how.precision > kMaxPrecision) raise_limit("it formats a number with over {} digits", kMaxPrecision);
    if (how.precision > static_cast<std::int64_t>(digits.size())) {
      digits.insert(0, static_cast<std::size_t>(how.precision) - digits.size(), '0');
    }
    std::string prefix = number < 0 ? "-" : how.plus ? "+" : how.blank ? " " : "";
    if (how.alternate && base != 10) prefix += base == 8 ? "0o" : conversion == 'X' ? "0X" : "0x";
    pad_number(prefix, digits, how);
  }

  void real(char conversion, const Directive& how, const Value& value) {
    if (value.is(Kind::kUndefined)) raise_undefined(value);
    if (!value.is_number()) raise("must be real number, not {}", type_name(value));
    if (how.precision > kMaxPrecision) raise_limit("it formats a number with over {} digits", kMaxPrecision);
    const double number = value.as_real();
    const int precision = how.precision < 0 ? 6 : static_cast<int>(how.precision);
    const std::string digits = format_double(std::fabs(number), conversion, precision, how.alternate);
    pad_number(std::signbit(number) && !std::isnan(number) ? "-" : how.plus ? "+" : how.blank ? " " : "", digits, how);
  }

  void spaces(std::int64_t count, char fill = ' ') {
    if (count <= 0) return;
    machine_.heap().charge(static_cast<std::size_t>(count));
    out_.untrusted(std::string(static_cast<std::size_t>(count), fill));
  }

  void pad_text(const Value& value, const Directive& how) {
    const Text& text = value.text();
    const auto chars = static_cast<std::int64_t>(text.chars);
    const std::int64_t shown = how.precision < 0 ? chars : std::min(chars, how.precision);
    if (!how.left) spaces(how.width - shown);
    out_.copy(text, 0, byte_of_char(text, static_cast<std::size_t>(shown)));
    if (how.left) spaces(how.width - shown);
  }

  void pad_number(const std::string& prefix, const std::string& digits, const Directive& how) {
    const std::int64_t missing = how.width - static_cast<std::int64_t>(prefix.size() + digits.size());
    if (!how.left && !how.zero) spaces(missing);
    out_.untrusted(prefix);
    if (!how.left && how.zero) spaces(missing, '0');
    out_.untrusted(digits);
    if (how.left) spaces(missing);
  }

  Machine& machine_;
  const Text& text_;
  const Value& arguments_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

std::string format_double(double value, char kind, int precision, bool alternate) {
  const bool upper = kind < 'a';
  const char lower = static_cast<char>(upper ? kind + 32 : kind);
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (upper) std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' ? c - 32 : c; });
    return text;
  }
  std::string text(static_cast<std::size_t>(400 + precision), '\0');
  const auto style = lower == 'f'   ? std::chars_format::fixed
                     : lower == 'e' ? std::chars_format::scientific
                                    : std::chars_format::general;
  if (lower == 'g' && precision == 0) precision = 1;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, style, precision);
  text.resize(static_cast<std::size_t>(end.ptr - text.data()));
  if (alternate && text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".");
  if (upper) std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' ? c - 32 : c; });
  return text;
}

Value format_percent(Machine& machine, const Text& text, const Value& arguments) {
  return PercentFormatter(machine, text, arguments).run();
}

}  // namespace pagoda::text::jinja
