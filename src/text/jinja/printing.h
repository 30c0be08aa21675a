// Python's str(), repr() and json.dumps() of template values.
#pragma once

#include <string>

#include "text/jinja/tracing.h"

namespace pagoda::text::jinja {

/// As float.__repr__: the shortest digits that read back as the same double.
std::string float_repr(double value);
std::string string_repr(std::string_view text);

/// A short value's repr for messages (long ones are cut).
std::string repr_of(const Value& value);

void print_repr(Machine& machine, TextBuilder& out, const Value& value);
/// str(): strings keep their provenance, all else is untrusted.
void print_str(Machine& machine, TextBuilder& out, const Value& value);
Value to_text(Machine& machine, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;
  std::string indent;  ///< of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Value to_json(Machine& machine, const Value& value, const JsonStyle& style);

}  // namespace pagoda::text::jinja
