// Python's operators on template values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace pagoda::text::jinja {

/// What an Undefined says when it is used.
std::string undefined_words(const Value& undefined);
[[noreturn]] void raise_undefined(const Value& undefined);
/// jinja2's description of an object in messages: `dict object`, `None`, `jinja2.runtime.Macro object`.
std::string describe_type(const Value& value);

bool truthy(const Value& value);
/// Costs nothing; pay with Machine::step(weight_of(...)) where values may be large.
bool equals(const Value& a, const Value& b);
/// `symbol` is one of < <= > >=.
bool ordered(Machine& machine, std::string_view symbol, const Value& a, const Value& b);
bool contains(Machine& machine, const Value& container, const Value& item);
void require_hashable(const Value& value);

/// `symbol` is one of + - * / // % **.
Value binary(Machine& machine, std::string_view symbol, const Value& a, const Value& b);
Value negate(const Value& a);
Value posite(const Value& a);
std::int64_t checked_int(std::optional<std::int64_t> value);

/// jinja2's environment.getattr and environment.getitem.
Value get_attribute(Machine& machine, const Value& owner, std::string_view name);
Value get_item(Machine& machine, const Value& owner, const Value& key);
/// owner[start:stop:step]; kMissing or none where absent.
Value slice(Machine& machine, const Value& owner, const Value& start, const Value& stop, const Value& step);

std::optional<std::int64_t> length_of(const Value& value);
bool is_iterable(const Value& value);
/// Walks a value; raises if it cannot be iterated.
std::function<bool(Value& out)> iterate(Machine& machine, const Value& value);
std::vector<Value> collect(Machine& machine, const Value& value);

/// The method `name` of a value's type, or null.
const Builtin* find_string_method(std::string_view name);
const Builtin* find_container_method(const Value& owner, std::string_view name);

/// loop.index and so on; kMissing if there is no such attribute. (interpreter.cc)
Value loop_attribute(Machine& machine, const Value& loop, std::string_view name);
Value macro_attribute(Machine& machine, const Value& macro, std::string_view name);

}  // namespace pagoda::text::jinja
