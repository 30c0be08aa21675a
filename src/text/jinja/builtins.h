// The tables of what a template can call, and how a builtin reads its arguments.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/machine.h"

namespace pagoda::text::jinja {

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
/// `range`, `dict`, `namespace`, `raise_exception`, ...
std::span<const Builtin> global_functions();

/// The sandbox keeps names with an underscore in front out of namespaces.
void check_namespace_name(std::string_view name);

/// Filters, in two files.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();

inline bool given(const Value& value) { return !value.is(Kind::kMissing); }
inline bool given_and_not_none(const Value& value) { return given(value) && !value.is(Kind::kNone); }

/// An argument that must be an integer (`fallback` if not given).
std::int64_t int_argument(const Value& value, std::int64_t fallback);
/// An argument that must be a string.
const Text& text_argument(const Value& value, std::string_view what);

/// environment.getitem along "a.b.0" (an integer or string value), `fallback` in place of an undefined part.
Value get_path(Machine& machine, Value owner, const Value& path, const Value& fallback = {});

/// std::string::find and rfind in linear time, whatever the texts; npos if there is none.
std::size_t find_bytes(std::string_view text, std::string_view wanted, std::size_t from = 0);
std::size_t rfind_bytes(std::string_view text, std::string_view wanted);

/// str methods that filters share.
Value text_upper(Machine& machine, const Text& text);
Value text_lower(Machine& machine, const Text& text);
Value text_strip(Machine& machine, const Text& text, const Value& chars, bool left, bool right);
Value text_replace(Machine& machine, const Text& text, const Text& from, const Text& to, std::int64_t count);
Value text_capitalize(Machine& machine, const Text& text);
Value text_center(Machine& machine, const Text& text, std::int64_t width, std::string_view fill);
std::vector<Value> text_splitlines(Machine& machine, const Text& text, bool keep_ends);
Value text_join(Machine& machine, const Text& separator, const std::vector<Value>& items, bool convert);
bool text_is_lower(const Text& text);
bool text_is_upper(const Text& text);

/// Filters and tests called by name, as map() and select() do.
Value call_filter(Machine& machine, const Value& name, const Value& value, const Arguments& arguments);
bool call_test(Machine& machine, const Value& name, const Value& value, const Arguments& arguments);

}  // namespace pagoda::text::jinja
