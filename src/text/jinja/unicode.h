// Characters as Python's `str` sees them. All texts here are valid UTF-8 (checked where they come in).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::text::jinja {

std::size_t count_chars(std::string_view text);
/// The character at `pos`, which moves behind it.
char32_t next_char(std::string_view text, std::size_t& pos);
/// The character that ends at `pos`, which moves to its first byte.
char32_t previous_char(std::string_view text, std::size_t& pos);
void append_char(std::string& out, char32_t c);

bool is_space(char32_t c);       ///< str.isspace
bool is_line_break(char32_t c);  ///< where str.splitlines cuts
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);

void append_upper(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);
/// `before` and `after` say whether cased letters surround a capital sigma, which then takes its word-end form.
void append_lower(std::string& out, char32_t c, bool word_end = false);

}  // namespace pagoda::text::jinja
