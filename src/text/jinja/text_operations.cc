// What str methods and filters share.
#include <string.h>  // memmem: POSIX

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

/// Whether the capital sigma at `begin` ends a word: a cased letter before it, none behind.
bool ends_word(const std::string& bytes, std::size_t begin, std::size_t end) {
  const auto ignorable = [](char32_t c) { return c == '\'' || c == '.' || c == 0xAD || c == 0x2019; };
  bool before = false;
  for (std::size_t pos = begin; pos > 0;) {
    const char32_t c = previous_char(bytes, pos);
    if (ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  if (!before) return false;
  for (std::size_t pos = end; pos < bytes.size();) {
    const char32_t c = next_char(bytes, pos);
    if (ignorable(c)) continue;
    return !is_cased(c);
  }
  return true;
}

/// Every character replaced by what `change(out, c, begin, end)` appends.
template <class Change>
Value map_chars(Machine& machine, const Text& text, Change change) {
  TextBuilder builder(machine);
  std::string made;
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const std::size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    made.clear();
    change(made, c, begin, pos);
    builder.in_place_of(text, begin, pos, made);
    if ((begin & 7U) == 0) machine.step();
  }
  return builder.build(text.markup);
}

}  // namespace

std::int64_t int_argument(const Value& value, std::int64_t fallback) {
  if (!given(value)) return fallback;
  if (value.is(Kind::kUndefined)) raise_undefined(value);
  if (!value.is_int()) raise("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.as_int();
}

const Text& text_argument(const Value& value, std::string_view what) {
  if (!value.is(Kind::kString)) raise("{} must be str, not {}", what, type_name(value));
  return value.text();
}

std::size_t find_bytes(std::string_view text, std::string_view wanted, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* at = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return at == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
}

std::size_t rfind_bytes(std::string_view text, std::string_view wanted) {
  const std::string backward(text.rbegin(), text.rend());
  const std::string wanted_backward(wanted.rbegin(), wanted.rend());
  const std::size_t at = find_bytes(backward, wanted_backward);
  return at == std::string_view::npos ? at : text.size() - at - wanted.size();
}

Value text_upper(Machine& machine, const Text& text) {
  return map_chars(machine, text, [](std::string& out, char32_t c, std::size_t, std::size_t) { append_upper(out, c); });
}

Value text_lower(Machine& machine, const Text& text) {
  return map_chars(machine, text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    append_lower(out, c, c == 0x3A3 && ends_word(text.bytes, begin, end));
  });
}

Value text_capitalize(Machine& machine, const Text& text) {
  return map_chars(machine, text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    begin == 0 ? append_title(out, c) : append_lower(out, c, c == 0x3A3 && ends_word(text.bytes, begin, end));
  });
}

Value text_strip(Machine& machine, const Text& text, const Value& chars, bool left, bool right) {
  std::u32string set;
  const bool spaces = !given_and_not_none(chars);
  if (!spaces) {
    if (!chars.is(Kind::kString)) raise("strip arg must be None or str");
    const std::string& bytes = chars.bytes();
    for (std::size_t pos = 0; pos < bytes.size();) set += next_char(bytes, pos);
  }
  const auto strips = [&](char32_t c) { return spaces ? is_space(c) : set.find(c) != std::u32string::npos; };
  machine.step_bytes(text.bytes.size() * (1 + set.size() / 8));
  std::size_t begin = 0;
  std::size_t end = text.bytes.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!strips(next_char(text.bytes, next))) break;
    begin = next;
  }
  while (right && begin < end) {
    std::size_t last = end;
    if (!strips(previous_char(text.bytes, last))) break;
    end = last;
  }
  return slice_bytes(machine, text, begin, end);
}

Value text_replace(Machine& machine, const Text& text, const Text& from, const Text& to, std::int64_t count) {
  const std::string& bytes = text.bytes;
  TextBuilder builder(machine);
  std::size_t done = 0;
  std::int64_t left = count < 0 ? INT64_MAX : count;
  if (from.bytes.empty()) {
    for (std::size_t pos = 0; left > 0; --left) {
      builder.copy(text, done, pos);
      builder.copy(to);
      machine.step();
      done = pos;
      if (pos >= bytes.size()) break;
      next_char(bytes, pos);
    }
  } else {
    machine.step_bytes(bytes.size());
    for (std::size_t at = 0; left > 0 && (at = find_bytes(bytes, from.bytes, done)) != std::string::npos; --left) {
      builder.copy(text, done, at);
      builder.copy(to);
      machine.step();
      done = at + from.bytes.size();
    }
  }
  builder.copy(text, done, bytes.size());
  return builder.build(text.markup);
}

Value text_center(Machine& machine, const Text& text, std::int64_t width, std::string_view fill) {
  const auto chars = static_cast<std::int64_t>(text.chars);
  const std::int64_t missing = std::max<std::int64_t>(width - chars, 0);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  machine.heap().charge(static_cast<std::size_t>(missing));
  TextBuilder builder(machine);
  for (std::int64_t i = 0; i < left; ++i) builder.untrusted(fill);
  builder.copy(text);
  for (std::int64_t i = left; i < missing; ++i) builder.untrusted(fill);
  return builder.build(text.markup);
}

std::vector<Value> text_splitlines(Machine& machine, const Text& text, bool keep_ends) {
  const std::string& bytes = text.bytes;
  std::vector<Value> lines;
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const std::size_t end = pos;
    const char32_t c = next_char(bytes, pos);
    if (!is_line_break(c)) continue;
    if (c == '\r' && pos < bytes.size() && bytes[pos] == '\n') ++pos;
    machine.step();
    lines.push_back(slice_bytes(machine, text, begin, keep_ends ? pos : end));
    begin = pos;
  }
  if (begin < bytes.size()) lines.push_back(slice_bytes(machine, text, begin, bytes.size()));
  return lines;
}

Value text_join(Machine& machine, const Text& separator, const std::vector<Value>& items, bool convert) {
  TextBuilder builder(machine);
  for (std::size_t i = 0; i < items.size(); ++i) {
    machine.step();
    if (i > 0) builder.copy(separator);
    if (convert) {
      print_str(machine, builder, items[i]);
    } else if (items[i].is(Kind::kString)) {
      builder.copy(separator.markup ? escape_text(machine, items[i].text()).text() : items[i].text());
    } else {
      raise("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
  }
  return builder.build(separator.markup && !convert);
}

bool text_is_lower(const Text& text) {
  bool any = false;
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const char32_t c = next_char(text.bytes, pos);
    if (is_upper(c) || is_title(c)) return false;
    any = any || is_lower(c);
  }
  return any;
}

bool text_is_upper(const Text& text) {
  bool any = false;
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const char32_t c = next_char(text.bytes, pos);
    if (is_lower(c) || is_title(c)) return false;
    any = any || is_upper(c);
  }
  return any;
}

}  // namespace pagoda::text::jinja
