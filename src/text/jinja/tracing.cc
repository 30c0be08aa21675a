#include "text/jinja/tracing.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

/// The first trusted range that ends behind `at`.
std::vector<ByteRange>::const_iterator range_from(const Text& text, std::size_t at) {
  return std::upper_bound(text.trusted.begin(), text.trusted.end(), at,
                          [](std::size_t value, const ByteRange& range) { return value < range.end; });
}

}  // namespace

TextBuilder::TextBuilder(Machine& machine) : machine_(machine), limit_(machine.budget().memory_bytes) {}

void TextBuilder::reserve(std::size_t more) {
  if (more > limit_ - text_.bytes.size()) raise_limit("its text grows over {} bytes", limit_);
  machine_.step_bytes(more);
}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!text_.trusted.empty() && text_.trusted.back().end == begin) {
    text_.trusted.back().end = end;
  } else {
    text_.trusted.push_back({begin, end});
  }
}

void TextBuilder::untrusted(std::string_view bytes) {
  reserve(bytes.size());
  text_.bytes += bytes;
}

void TextBuilder::trusted(std::string_view bytes) {
  reserve(bytes.size());
  mark(text_.bytes.size(), text_.bytes.size() + bytes.size());
  text_.bytes += bytes;
}

void TextBuilder::copy(const Text& from, std::size_t begin, std::size_t end) {
  reserve(end - begin);
  const std::size_t at = text_.bytes.size();
  for (auto range = range_from(from, begin); range != from.trusted.end() && range->begin < end; ++range) {
    mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
  }
  text_.bytes.append(from.bytes, begin, end - begin);
}

void TextBuilder::repeat(const Text& from, std::int64_t count) {
  if (from.bytes.empty()) return;
  for (std::int64_t i = 0; i < count; ++i) {
    machine_.step();
    copy(from);
  }
}

void TextBuilder::in_place_of(const Text& from, std::size_t begin, std::size_t end, std::string_view bytes) {
  const auto range = range_from(from, begin);
  const bool whole = range != from.trusted.end() && range->begin <= begin && end <= range->end && begin < end;
  whole ? trusted(bytes) : untrusted(bytes);
}

Value TextBuilder::build(bool markup) {
  text_.markup = markup;
  return machine_.text(std::move(text_));
}

Value slice_bytes(Machine& machine, const Text& from, std::size_t begin, std::size_t end) {
  TextBuilder builder(machine);
  if (begin < end) builder.copy(from, begin, end);
  return builder.build(from.markup);
}

std::size_t byte_of_char(const Text& text, std::size_t index) {
  if (text.ascii()) return index;
  std::size_t pos = 0;
  while (index-- > 0) next_char(text.bytes, pos);
  return pos;
}

Value escape_text(Machine& machine, const Text& text) {
  TextBuilder builder(machine);
  if (text.markup) {
    builder.copy(text);
    return builder.build(true);
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view entity;
    switch (text.bytes[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    builder.copy(text, done, i);
    builder.in_place_of(text, i, i + 1, entity);
    done = i + 1;
  }
  builder.copy(text, done, text.bytes.size());
  return builder.build(true);
}

}  // namespace pagoda::text::jinja
