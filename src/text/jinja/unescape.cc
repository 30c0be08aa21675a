#include "text/jinja/unescape.h"

#include <charconv>

#include "text/jinja/fault.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

/// The character of `\x41`, `\u0041`, `\U00000041`; `at` stands behind the letter and moves behind the digits.
char32_t read_hex(std::string_view literal, std::size_t& at, std::size_t digits, char letter, int line) {
  std::uint32_t value = 0;
  const char* first = literal.data() + at;
  const char* last = first + std::min(digits, literal.size() - at);
  const auto end = std::from_chars(first, last, value, 16);
  if (end.ptr != first + digits || *first == '-') {
    raise_at(line, "truncated \\{}{} escape", letter, std::string(digits, 'X'));
  }
  at += digits;
  return value;
}

void append_escape(std::string& out, std::string_view literal, std::size_t& at, int line) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char letter = literal[at];
  if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
    out += kMeanings[known];
    ++at;
  } else if (letter == '\n') {
    ++at;
  } else if (letter >= '0' && letter <= '7') {
    std::uint32_t value = 0;
    for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i) {
      value = value * 8 + static_cast<std::uint32_t>(literal[at++] - '0');
    }
    append_char(out, value);
  } else if (letter == 'x' || letter == 'u' || letter == 'U') {
    ++at;
    const char32_t c = read_hex(literal, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, letter, line);
    if (c > 0x10FFFF) raise_at(line, "illegal Unicode character");
    if (c >= 0xD800 && c < 0xE000) raise_at(line, "a string contains a lone surrogate");
    append_char(out, c);
  } else if (letter == 'N') {
    raise_at(line, "\\N escapes are not supported in chat templates");
  } else {
    out += '\\';
  }
}

}  // namespace

std::string unescaped(std::string_view literal, int line) {
  std::string out;
  for (std::size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      out += literal[at++];
      continue;
    }
    ++at;
    append_escape(out, literal, at, line);
  }
  return out;
}

}  // namespace pagoda::text::jinja
