// The methods of str.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

const Text& self(Call& call) { return call.self.text(); }

/// Bytes [begin, end) of the characters [start, stop) that a method's optional arguments name; begin > end if the
/// slice lies behind the text, where not even the empty string is found.
ByteRange window(const Text& text, const Value& start, const Value& stop) {
  const auto chars = static_cast<std::int64_t>(text.chars);
  const auto index = [&](const Value& value, std::int64_t fallback) {
    if (!given_and_not_none(value)) return fallback;
    const std::int64_t i = int_argument(value, fallback);
    return i < 0 ? std::max<std::int64_t>(i + chars, 0) : i;
  };
  const std::int64_t first = index(start, 0);
  const std::int64_t last = std::min(index(stop, chars), chars);
  if (first > chars || first > last) return {1, 0};
  return {byte_of_char(text, static_cast<std::size_t>(first)), byte_of_char(text, static_cast<std::size_t>(last))};
}

std::int64_t search(Call& call, bool from_right) {
  const Text& text = self(call);
  const std::string& wanted = text_argument(call.a[0], "argument").bytes;
  const ByteRange range = window(text, call.a[1], call.a[2]);
  call.machine.step_bytes(text.bytes.size());
  if (range.begin > range.end) return -1;
  const std::string_view inside = std::string_view(text.bytes).substr(range.begin, range.end - range.begin);
  const std::size_t at = from_right ? rfind_bytes(inside, wanted) : find_bytes(inside, wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(count_chars(std::string_view(text.bytes).substr(0, range.begin + at)));
}

Value find(Call& call) { return Value::integer(search(call, false)); }
Value rfind(Call& call) { return Value::integer(search(call, true)); }
Value index_of(Call& call, bool from_right) {
  const std::int64_t at = search(call, from_right);
  if (at < 0) raise("substring not found");
  return Value::integer(at);
}
Value index(Call& call) { return index_of(call, false); }
Value rindex(Call& call) { return index_of(call, true); }

Value count(Call& call) {
  const Text& text = self(call);
  const Text& wanted = text_argument(call.a[0], "argument");
  const ByteRange range = window(text, call.a[1], call.a[2]);
  call.machine.step_bytes(text.bytes.size());
  if (range.begin > range.end) return Value::integer(0);
  const std::string_view inside = std::string_view(text.bytes).substr(range.begin, range.end - range.begin);
  if (wanted.bytes.empty()) return Value::integer(static_cast<std::int64_t>(count_chars(inside)) + 1);
  std::int64_t found = 0;
  for (std::size_t at = 0; (at = find_bytes(inside, wanted.bytes, at)) != std::string_view::npos;
       at += wanted.bytes.size())
    ++found;
  return Value::integer(found);
}

Value affix(Call& call, bool at_end) {
  const Text& text = self(call);
  const ByteRange range = window(text, call.a[1], call.a[2]);
  const std::string_view name = at_end ? "endswith" : "startswith";
  const auto matches = [&](const Value& value) {
    if (!value.is(Kind::kString)) {
      raise("{} first arg must be str or a tuple of str, not {}", name, type_name(value));
    }
    if (range.begin > range.end) return false;
    const std::string_view inside = std::string_view(text.bytes).substr(range.begin, range.end - range.begin);
    return at_end ? inside.ends_with(value.bytes()) : inside.starts_with(value.bytes());
  };
  if (!call.a[0].is(Kind::kTuple)) return Value::boolean(matches(call.a[0]));
  const auto& options = call.a[0].as<Sequence>().items;
  return Value::boolean(std::any_of(options.begin(), options.end(), matches));
}
Value startswith(Call& call) { return affix(call, false); }
Value endswith(Call& call) { return affix(call, true); }

Value removeprefix(Call& call) {
  const Text& text = self(call);
  const std::string& prefix = text_argument(call.a[0], "removeprefix() argument").bytes;
  return slice_bytes(call.machine, text, text.bytes.starts_with(prefix) ? prefix.size() : 0, text.bytes.size());
}
Value removesuffix(Call& call) {
  const Text& text = self(call);
  const std::string& suffix = text_argument(call.a[0], "removesuffix() argument").bytes;
  return slice_bytes(call.machine, text, 0, text.bytes.size() - (text.bytes.ends_with(suffix) ? suffix.size() : 0));
}

Value upper(Call& call) { return text_upper(call.machine, self(call)); }
Value lower(Call& call) { return text_lower(call.machine, self(call)); }
Value capitalize(Call& call) { return text_capitalize(call.machine, self(call)); }

template <class Change>
Value change_chars(Call& call, Change change) {
  const Text& text = self(call);
  TextBuilder builder(call.machine);
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const std::size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    std::string made;
    change(made, c);
    builder.in_place_of(text, begin, pos, made);
    if ((begin & 7U) == 0) call.machine.step();
  }
  return builder.build(text.markup);
}

Value title(Call& call) {
  bool inside = false;
  return change_chars(call, [&](std::string& out, char32_t c) {
    inside ? append_lower(out, c) : append_title(out, c);
    inside = is_upper(c) || is_lower(c) || is_title(c);
  });
}
Value swapcase(Call& call) {
  return change_chars(call, [](std::string& out, char32_t c) {
    if (is_upper(c)) {
      append_lower(out, c);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      append_char(out, c);
    }
  });
}
Value casefold(Call& call) {
  return change_chars(call, [](std::string& out, char32_t c) {
    c == 0xDF || c == 0x1E9E ? void(out += "ss") : append_lower(out, c == 0x3C2 ? 0x3A3 : c);
  });
}

Value strip(Call& call) { return text_strip(call.machine, self(call), call.a[0], true, true); }
Value lstrip(Call& call) { return text_strip(call.machine, self(call), call.a[0], true, false); }
Value rstrip(Call& call) { return text_strip(call.machine, self(call), call.a[0], false, true); }

Value replace(Call& call) {
  return text_replace(call.machine, self(call), text_argument(call.a[0], "replace() argument 1"),
                      text_argument(call.a[1], "replace() argument 2"), int_argument(call.a[2], -1));
}

std::string_view fill_argument(const Value& value) {
  if (!given(value)) return " ";
  if (text_argument(value, "The fill character").chars != 1)
    raise("The fill character must be exactly one character long");
  return value.bytes();
}
Value center(Call& call) {
  return text_center(call.machine, self(call), int_argument(call.a[0], 0), fill_argument(call.a[1]));
}
Value justify(Call& call, bool left) {
  const std::int64_t missing = int_argument(call.a[0], 0) - static_cast<std::int64_t>(self(call).chars);
  const std::string_view fill = fill_argument(call.a[1]);
  call.machine.heap().charge(static_cast<std::size_t>(std::max<std::int64_t>(missing, 0)));
  TextBuilder builder(call.machine);
  if (left) builder.copy(self(call));
  for (std::int64_t i = 0; i < missing; ++i) builder.untrusted(fill);
  if (!left) builder.copy(self(call));
  return builder.build(self(call).markup);
}
Value ljust(Call& call) { return justify(call, true); }
Value rjust(Call& call) { return justify(call, false); }
Value zfill(Call& call) {
  const Text& text = self(call);
  const std::int64_t missing = int_argument(call.a[0], 0) - static_cast<std::int64_t>(text.chars);
  const std::size_t sign = text.bytes.starts_with("-") || text.bytes.starts_with("+") ? 1 : 0;
  call.machine.heap().charge(static_cast<std::size_t>(std::max<std::int64_t>(missing, 0)));
  TextBuilder builder(call.machine);
  builder.copy(text, 0, sign);
  for (std::int64_t i = 0; i < missing; ++i) builder.untrusted("0");
  builder.copy(text, sign, text.bytes.size());
  return builder.build(text.markup);
}

Value expandtabs(Call& call) {
  const Text& text = self(call);
  const std::int64_t size = int_argument(call.a[0], 8);
  TextBuilder builder(call.machine);
  std::int64_t column = 0;
  for (std::size_t pos = 0; pos < text.bytes.size();) {
    const std::size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    if (c == '\t') {
      const std::int64_t width = size > 0 ? size - column % size : 0;
      call.machine.heap().charge(static_cast<std::size_t>(width));
      builder.untrusted(std::string(static_cast<std::size_t>(width), ' '));
      column += width;
    } else {
      builder.copy(text, begin, pos);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return builder.build(text.markup);
}

Value splitlines(Call& call) {
  return call.machine.list(text_splitlines(call.machine, self(call), given(call.a[0]) && truthy(call.a[0])));
}
Value join(Call& call) { return text_join(call.machine, self(call), collect(call.machine, call.a[0]), false); }
Value format_method(Call& call) { return format_braces(call.machine, self(call), call.given); }
Value format_map(Call& call) {
  if (!call.a[0].is(Kind::kDict)) raise("format_map() argument must be a mapping");
  Arguments arguments;
  for (const auto& [key, value] : call.a[0].as<Dict>().items) {
    if (key.is(Kind::kString)) arguments.named.emplace_back(key.bytes(), value);
  }
  return format_braces(call.machine, self(call), arguments);
}

using CharTest = bool (*)(char32_t);
Value all_chars(Call& call, CharTest test, bool empty_is) {
  const std::string& bytes = self(call).bytes;
  call.machine.step_bytes(bytes.size());
  for (std::size_t pos = 0; pos < bytes.size();) {
    if (!test(next_char(bytes, pos))) return Value::boolean(false);
  }
  return Value::boolean(!bytes.empty() || empty_is);
}
Value isalpha(Call& call) { return all_chars(call, is_alpha, false); }
Value isalnum(Call& call) { return all_chars(call, is_alnum, false); }
Value isdigit(Call& call) { return all_chars(call, is_digit, false); }
Value isdecimal(Call& call) { return all_chars(call, is_decimal, false); }
Value isnumeric(Call& call) { return all_chars(call, is_numeric, false); }
Value isspace(Call& call) { return all_chars(call, is_space, false); }
Value isprintable(Call& call) { return all_chars(call, is_printable, true); }
Value isascii(Call& call) { return Value::boolean(self(call).ascii()); }
Value islower(Call& call) { return Value::boolean(text_is_lower(self(call))); }
Value isupper(Call& call) { return Value::boolean(text_is_upper(self(call))); }
Value isidentifier(Call& call) {
  const std::string& bytes = self(call).bytes;
  if (bytes.empty() || (bytes[0] >= '0' && bytes[0] <= '9')) return Value::boolean(false);
  return all_chars(
      call, [](char32_t c) { return c == '_' || is_alnum(c); }, false);
}
Value istitle(Call& call) {
  const std::string& bytes = self(call).bytes;
  bool inside = false;
  bool any = false;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const char32_t c = next_char(bytes, pos);
    const bool big = is_upper(c) || is_title(c);
    if ((big && inside) || (is_lower(c) && !inside)) return Value::boolean(false);
    inside = big || is_lower(c);
    any = any || inside;
  }
  return Value::boolean(any);
}

Value partition_at(Call& call, bool from_right) {
  const Text& text = self(call);
  const std::string& separator = text_argument(call.a[0], "argument").bytes;
  if (separator.empty()) raise("empty separator");
  call.machine.step_bytes(text.bytes.size());
  const std::size_t at = from_right ? rfind_bytes(text.bytes, separator) : find_bytes(text.bytes, separator);
  const auto part = [&](std::size_t begin, std::size_t end) { return slice_bytes(call.machine, text, begin, end); };
  const std::size_t size = text.bytes.size();
  if (at == std::string::npos) {
    if (from_right) return call.machine.tuple({part(0, 0), part(0, 0), part(0, size)});
    return call.machine.tuple({part(0, size), part(0, 0), part(0, 0)});
  }
  return call.machine.tuple({part(0, at), part(at, at + separator.size()), part(at + separator.size(), size)});
}
Value partition(Call& call) { return partition_at(call, false); }
Value rpartition(Call& call) { return partition_at(call, true); }

/// Cuts at whitespace: `limit` cuts at most, from the left or from the right.
std::vector<Value> split_spaces(Machine& machine, const Text& text, std::int64_t limit, bool from_right) {
  const std::string& bytes = text.bytes;
  std::vector<ByteRange> words;
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  const auto forward = [&](std::size_t from, bool spaces) {
    for (std::size_t pos = from; from < end && is_space(next_char(bytes, pos)) == spaces; from = pos) {
    }
    return from;
  };
  const auto backward = [&](std::size_t from, bool spaces) {
    for (std::size_t pos = from; from > begin && is_space(previous_char(bytes, pos)) == spaces; from = pos) {
    }
    return from;
  };
  while (true) {
    begin = from_right ? begin : forward(begin, true);
    end = from_right ? backward(end, true) : end;
    if (begin >= end) break;
    machine.step();
    if (limit-- == 0) {
      words.push_back(from_right ? ByteRange{forward(0, true) < end ? 0 : end, end} : ByteRange{begin, end});
      break;
    }
    const std::size_t cut = from_right ? backward(end, false) : forward(begin, false);
    words.push_back(from_right ? ByteRange{cut, end} : ByteRange{begin, cut});
    (from_right ? end : begin) = cut;
  }
  if (from_right) std::reverse(words.begin(), words.end());
  std::vector<Value> out;
  for (const ByteRange& word : words) out.push_back(slice_bytes(machine, text, word.begin, word.end));
  return out;
}

std::vector<Value> split_at(Machine& machine, const Text& text, const std::string& separator, std::int64_t limit,
                            bool from_right) {
  if (separator.empty()) raise("empty separator");
  machine.step_bytes(text.bytes.size());
  // From the right is from the left in the text written backward.
  const std::string backward = from_right ? std::string(text.bytes.rbegin(), text.bytes.rend()) : std::string();
  const std::string wanted = from_right ? std::string(separator.rbegin(), separator.rend()) : separator;
  const std::string_view bytes = from_right ? backward : text.bytes;
  const auto part = [&](std::size_t begin, std::size_t end) {
    return from_right ? slice_bytes(machine, text, bytes.size() - end, bytes.size() - begin)
                      : slice_bytes(machine, text, begin, end);
  };
  std::vector<Value> out;
  std::size_t begin = 0;
  for (; limit != 0; --limit) {
    const std::size_t at = find_bytes(bytes, wanted, begin);
    if (at == std::string_view::npos) break;
    machine.step();
    out.push_back(part(begin, at));
    begin = at + wanted.size();
  }
  out.push_back(part(begin, bytes.size()));
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

Value split_text(Call& call, bool from_right) {
  const std::int64_t limit = int_argument(call.a[1], -1);
  if (!given_and_not_none(call.a[0])) {
    return call.machine.list(split_spaces(call.machine, self(call), limit, from_right));
  }
  if (!call.a[0].is(Kind::kString)) raise("must be str or None, not {}", type_name(call.a[0]));
  return call.machine.list(split_at(call.machine, self(call), call.a[0].bytes(), limit, from_right));
}
Value split(Call& call) { return split_text(call, false); }
Value rsplit(Call& call) { return split_text(call, true); }

Value refused(Call& call) {
  (void)call;
  raise("this string method is not supported in chat templates");
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", 0, capitalize},
    {"casefold", "", 0, casefold},
    {"center", "width fillchar", 1, center},
    {"count", "sub start end", 1, count},
    {"encode", "encoding errors", 0, refused},
    {"endswith", "suffix start end", 1, endswith},
    {"expandtabs", "tabsize", 0, expandtabs},
    {"find", "sub start end", 1, find},
    {"format", "*", 0, format_method},
    {"format_map", "mapping", 1, format_map},
    {"index", "sub start end", 1, index},
    {"isalnum", "", 0, isalnum},
    {"isalpha", "", 0, isalpha},
    {"isascii", "", 0, isascii},
    {"isdecimal", "", 0, isdecimal},
    {"isdigit", "", 0, isdigit},
    {"isidentifier", "", 0, isidentifier},
    {"islower", "", 0, islower},
    {"isnumeric", "", 0, isnumeric},
    {"isprintable", "", 0, isprintable},
    {"isspace", "", 0, isspace},
    {"istitle", "", 0, istitle},
    {"isupper", "", 0, isupper},
    {"join", "iterable", 1, join},
    {"ljust", "width fillchar", 1, ljust},
    {"lower", "", 0, lower},
    {"lstrip", "chars", 0, lstrip},
    {"maketrans", "x y z", 1, refused},
    {"partition", "sep", 1, partition},
    {"removeprefix", "prefix", 1, removeprefix},
    {"removesuffix", "suffix", 1, removesuffix},
    {"replace", "old new count", 2, replace},
    {"rfind", "sub start end", 1, rfind},
    {"rindex", "sub start end", 1, rindex},
    {"rjust", "width fillchar", 1, rjust},
    {"rpartition", "sep", 1, rpartition},
    {"rsplit", "sep maxsplit", 0, rsplit},
    {"rstrip", "chars", 0, rstrip},
    {"split", "sep maxsplit", 0, split},
    {"splitlines", "keepends", 0, splitlines},
    {"startswith", "prefix start end", 1, startswith},
    {"strip", "chars", 0, strip},
    {"swapcase", "", 0, swapcase},
    {"title", "", 0, title},
    {"translate", "table", 1, refused},
    {"upper", "", 0, upper},
    {"zfill", "width", 1, zfill},
};

}  // namespace

const Builtin* find_string_method(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Builtin& m) { return m.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace pagoda::text::jinja
