#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <array>
#include <utility>

namespace pagoda::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

/// Letters whose capital form is several letters (Unicode's SpecialCasing, the unconditional lines in use).
constexpr std::array<std::pair<char32_t, std::u32string_view>, 20> kSpecialUpper = {{
    {0xDF, U"SS"},
    {0x149, U"\u02BCN"},
    {0x1F0, U"J\u030C"},
    {0x390, U"\u0399\u0308\u0301"},
    {0x3B0, U"\u03A5\u0308\u0301"},
    {0x587, U"\u0535\u0552"},
    {0x1E96, U"H\u0331"},
    {0x1E97, U"T\u0308"},
    {0x1E98, U"W\u030A"},
    {0x1E99, U"Y\u030A"},
    {0x1E9A, U"A\u02BE"},
    {0xFB00, U"FF"},
    {0xFB01, U"FI"},
    {0xFB02, U"FL"},
    {0xFB03, U"FFI"},
    {0xFB04, U"FFL"},
    {0xFB05, U"ST"},
    {0xFB06, U"ST"},
    {0xFB13, U"\u0544\u0546"},
    {0xFB14, U"\u0544\u0535"},
}};

}  // namespace

std::size_t count_chars(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return count;
}

char32_t next_char(std::string_view text, std::size_t& pos) {
  const auto byte = [&](std::size_t i) -> char32_t { return static_cast<unsigned char>(text[pos + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) return text[pos++];
  char32_t c = 0;
  if (first < 0xE0) {
    c = (first & 0x1FU) << 6U | (byte(1) & 0x3FU);
    pos += 2;
  } else if (first < 0xF0) {
    c = (first & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    pos += 3;
  } else {
    c = (first & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
    pos += 4;
  }
  return c;
}

char32_t previous_char(std::string_view text, std::size_t& pos) {
  do {
    --pos;
  } while ((static_cast<unsigned char>(text[pos]) & 0xC0U) == 0x80U);
  std::size_t at = pos;
  return next_char(text, at);
}

void append_char(std::string& out, char32_t c) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  if (is_decimal(c)) return true;
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_upper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_lower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  const auto kind = category(c);
  if (kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_CO) return false;
  return kind != UTF8PROC_CATEGORY_CN;
}

void append_upper(std::string& out, char32_t c) {
  for (const auto& [from, to] : kSpecialUpper) {
    if (c != from) continue;
    for (const char32_t part : to) append_char(out, part);
    return;
  }
  append_char(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  for (const auto& [from, to] : kSpecialUpper) {
    if (c != from) continue;
    bool first = true;
    for (const char32_t part : to) {
      first ? append_char(out, part) : append_lower(out, part);
      first = false;
    }
    return;
  }
  append_char(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c, bool word_end) {
  if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3A3 && word_end) {
    out += "\u03C2";
  } else {
    append_char(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

}  // namespace pagoda::text::jinja
