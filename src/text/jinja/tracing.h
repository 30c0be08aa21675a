// Building strings so that every byte keeps its provenance. A byte is trusted only if it was copied from a trusted
// byte; characters made by computation (numbers, quotes, JSON punctuation) are not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace pagoda::text::jinja {

class TextBuilder {
 public:
  /// More than `limit` bytes is kTemplateLimit.
  explicit TextBuilder(Machine& machine);
  TextBuilder(Machine& machine, std::size_t limit) : machine_(machine), limit_(limit) {}

  void untrusted(std::string_view bytes);
  void trusted(std::string_view bytes);
  void copy(const Text& from) { copy(from, 0, from.bytes.size()); }
  void copy(const Text& from, std::size_t begin, std::size_t end);
  void repeat(const Text& from, std::int64_t count);
  /// `bytes` in place of from[begin, end): trusted if all of that was.
  void in_place_of(const Text& from, std::size_t begin, std::size_t end, std::string_view bytes);

  std::size_t size() const { return text_.bytes.size(); }
  Text take() { return std::move(text_); }
  Value build(bool markup = false);

 private:
  void reserve(std::size_t more);
  void mark(std::size_t begin, std::size_t end);

  Machine& machine_;
  std::size_t limit_;
  Text text_;
};

/// The bytes [begin, end) of a string as a string.
Value slice_bytes(Machine& machine, const Text& from, std::size_t begin, std::size_t end);

/// The byte where character `index` begins (0 <= index <= chars).
std::size_t byte_of_char(const Text& text, std::size_t index);

/// jinja2's Markup: `&<>'"` become entities unless the text is markup already.
Value escape_text(Machine& machine, const Text& text);

}  // namespace pagoda::text::jinja
