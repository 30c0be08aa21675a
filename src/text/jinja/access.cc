// Attributes, elements, slices and iteration: what jinja2's sandbox lets a template reach.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "text/jinja/operators.h"
#include "text/jinja/tracing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::array<std::string_view, 8> kListMutators = {"append", "clear", "pop",    "reverse",
                                                           "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 5> kDictMutators = {"clear", "pop", "popitem", "setdefault", "update"};
/// What every Python object has; the sandbox refuses them all.
constexpr std::array<std::string_view, 24> kDunders = {
    "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
    "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
    "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
    "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
    "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value unsafe(Machine& machine, const Value& owner, std::string_view name) {
  const Value made =
      machine.undefined(pagoda::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(owner)));
  made.as<Undefined>().unsafe = true;
  return made;
}

/// getattr(owner, name) under the sandbox; kMissing for an AttributeError.
Value python_attribute(Machine& machine, const Value& owner, std::string_view name) {
  if (owner.is(Kind::kNamespace)) {
    const Value* value = owner.as<Namespace>().dict.find(name);
    if (value == nullptr) return {};
    return name.starts_with("_") ? unsafe(machine, owner, name) : *value;
  }
  if (among(kDunders, name)) return unsafe(machine, owner, name);
  switch (owner.kind()) {
    case Kind::kString:
      if (const Builtin* method = find_string_method(name)) return machine.bound(*method, owner);
      return {};
    case Kind::kList:
      if (among(kListMutators, name)) return unsafe(machine, owner, name);
      break;
    case Kind::kDict:
      if (among(kDictMutators, name)) return unsafe(machine, owner, name);
      break;
    case Kind::kTuple:
      if (owner.as<Sequence>().group && (name == "grouper" || name == "list")) {
        return owner.as<Sequence>().items[name == "list" ? 1 : 0];
      }
      break;
    case Kind::kLoop:
      return loop_attribute(machine, owner, name);
    case Kind::kMacro:
      return macro_attribute(machine, owner, name);
    default:
      break;
  }
  if (owner.is(Kind::kFunction) && name == "fromkeys" && owner.as<Function>().builtin->name == "dict") {
    return machine.bound(*find_container_method(Value(Kind::kDict, nullptr), name), owner);
  }
  if (const Builtin* method = find_container_method(owner, name)) {
    if (name == "current") return run_builtin(machine, *method, owner, {});
    return machine.bound(*method, owner);
  }
  return {};
}

/// owner[key] as Python does it; kMissing for a TypeError or LookupError.
Value python_item(Machine& machine, const Value& owner, const Value& key) {
  if (owner.is(Kind::kDict)) {
    if (key.is(Kind::kList) || key.is(Kind::kDict)) return {};
    machine.step(weight_of(key));
    const Value* value = owner.as<Dict>().find(key);
    return value == nullptr ? Value() : *value;
  }
  if (!key.is_int()) return {};
  const auto length = owner.is_sequence() || owner.is(Kind::kString) || owner.is(Kind::kRange) ? *length_of(owner) : 0;
  const std::int64_t index = key.as_int() < 0 ? key.as_int() + length : key.as_int();
  if (index < 0 || index >= length) return {};
  if (owner.is(Kind::kRange)) return Value::integer(owner.as<Range>().at(index));
  if (owner.is_sequence()) return owner.as<Sequence>().items[static_cast<std::size_t>(index)];
  const Text& text = owner.text();
  machine.step_bytes(text.ascii() ? 0 : text.bytes.size());
  const std::size_t begin = byte_of_char(text, static_cast<std::size_t>(index));
  std::size_t end = begin;
  next_char(text.bytes, end);
  return slice_bytes(machine, text, begin, end);
}

std::int64_t slice_index(const Value& value, std::int64_t fallback) {
  if (value.is(Kind::kMissing) || value.is(Kind::kNone)) return fallback;
  if (!value.is_int()) raise("slice indices must be integers or None or have an __index__ method");
  return value.as_int();
}

/// The indices a slice takes, as slice.indices(length) gives them.
Range slice_range(std::int64_t length, const Value& start, const Value& stop, const Value& step) {
  Range range;
  range.step = slice_index(step, 1);
  if (range.step == 0) raise("slice step cannot be zero");
  const bool back = range.step < 0;
  const auto bound = [&](const Value& value, std::int64_t fallback) {
    std::int64_t index = slice_index(value, fallback);
    if (value.is(Kind::kMissing) || value.is(Kind::kNone)) return fallback;
    if (index < 0) return std::max(index + length, back ? std::int64_t{-1} : std::int64_t{0});
    return std::min(index, back ? length - 1 : length);
  };
  range.start = bound(start, back ? length - 1 : 0);
  range.stop = bound(stop, back ? -1 : length);
  const std::int64_t span = back ? range.start - range.stop : range.stop - range.start;
  const std::uint64_t stride =
      back ? 0 - static_cast<std::uint64_t>(range.step) : static_cast<std::uint64_t>(range.step);
  range.length = span <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride + 1);
  return range;
}

Value slice_text(Machine& machine, const Text& text, const Range& range) {
  machine.step_bytes(text.bytes.size());
  if (range.length == 0) return slice_bytes(machine, text, 0, 0);
  if (range.step == 1) {
    const std::size_t begin = byte_of_char(text, static_cast<std::size_t>(range.start));
    const std::size_t end = byte_of_char(text, static_cast<std::size_t>(range.start + range.length));
    return slice_bytes(machine, text, begin, end);
  }
  std::vector<std::size_t> starts;
  for (std::size_t pos = 0; pos < text.bytes.size(); next_char(text.bytes, pos)) starts.push_back(pos);
  starts.push_back(text.bytes.size());
  TextBuilder builder(machine);
  for (std::int64_t i = 0; i < range.length; ++i) {
    const auto index = static_cast<std::size_t>(range.at(i));
    builder.copy(text, starts[index], starts[index + 1]);
    if (i % 16 == 0) machine.step();
  }
  return builder.build(text.markup);
}

}  // namespace

Value get_attribute(Machine& machine, const Value& owner, std::string_view name) {
  machine.step();
  if (owner.is(Kind::kUndefined) && !among(kDunders, name)) raise_undefined(owner);
  const Value attribute = python_attribute(machine, owner, name);
  if (!attribute.is(Kind::kMissing)) return attribute;
  if (owner.is(Kind::kDict)) {
    if (const Value* value = owner.as<Dict>().find(name)) return *value;
  }
  return machine.undefined_item(owner, machine.trusted(name));
}

Value get_item(Machine& machine, const Value& owner, const Value& key) {
  machine.step();
  if (owner.is(Kind::kUndefined)) raise_undefined(owner);
  const Value item = python_item(machine, owner, key);
  if (!item.is(Kind::kMissing)) return item;
  if (key.is(Kind::kString)) {
    const Value attribute = python_attribute(machine, owner, key.bytes());
    if (!attribute.is(Kind::kMissing)) return attribute;
  }
  return machine.undefined_item(owner, key);
}

Value slice(Machine& machine, const Value& owner, const Value& start, const Value& stop, const Value& step) {
  if (owner.is(Kind::kUndefined)) raise_undefined(owner);
  if (owner.is(Kind::kDict)) raise("unhashable type: 'slice'");
  if (!owner.is(Kind::kString) && !owner.is_sequence() && !owner.is(Kind::kRange)) {
    raise("'{}' object is not subscriptable", type_name(owner));
  }
  const Range range = slice_range(*length_of(owner), start, stop, step);
  if (owner.is(Kind::kString)) return slice_text(machine, owner.text(), range);
  if (owner.is(Kind::kRange)) {
    auto* made = machine.heap().make<Range>();
    const auto& whole = owner.as<Range>();
    made->step = checked_int(checked_mul(whole.step, range.step));
    made->start = whole.at(range.start);
    made->stop = whole.at(range.stop);
    made->length = range.length;
    return Value(Kind::kRange, made);
  }
  std::vector<Value> items;
  machine.step(static_cast<std::uint64_t>(range.length));
  for (std::int64_t i = 0; i < range.length; ++i) {
    items.push_back(owner.as<Sequence>().items[static_cast<std::size_t>(range.at(i))]);
  }
  return owner.is(Kind::kList) ? machine.list(std::move(items)) : machine.tuple(std::move(items));
}

std::optional<std::int64_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<std::int64_t>(value.text().chars);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<std::int64_t>(value.as<Sequence>().items.size());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.as<Dict>().items.size());
    case Kind::kView:
      return static_cast<std::int64_t>(value.as<View>().dict->items.size());
    case Kind::kRange:
      return value.as<Range>().length;
    default:
      return std::nullopt;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return false;
    default:
      return true;
  }
}

std::function<bool(Value& out)> iterate(Machine& machine, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return [](Value&) { return false; };
    case Kind::kString:
      return [&machine, &text = value.text(), pos = std::size_t{0}](Value& out) mutable {
        if (pos >= text.bytes.size()) return false;
        machine.step();
        const std::size_t begin = pos;
        next_char(text.bytes, pos);
        out = slice_bytes(machine, text, begin, pos);
        return true;
      };
    case Kind::kList:
    case Kind::kTuple:
      return [&machine, &items = value.as<Sequence>().items, i = std::size_t{0}](Value& out) mutable {
        if (i >= items.size()) return false;
        machine.step();
        out = items[i++];
        return true;
      };
    case Kind::kRange:
      return [&machine, &range = value.as<Range>(), i = std::int64_t{0}](Value& out) mutable {
        if (i >= range.length) return false;
        machine.step();
        out = Value::integer(range.at(i++));
        return true;
      };
    case Kind::kDict:
    case Kind::kView: {
      const auto part = value.is(Kind::kDict) ? View::Part::kKeys : value.as<View>().part;
      const Dict& dict = value.is(Kind::kDict) ? value.as<Dict>() : *value.as<View>().dict;
      return [&machine, &dict, part, i = std::size_t{0}](Value& out) mutable {
        if (i >= dict.items.size()) return false;
        machine.step();
        const auto& [key, element] = dict.items[i++];
        out = part == View::Part::kKeys ? key : part == View::Part::kValues ? element : machine.tuple({key, element});
        return true;
      };
    }
    case Kind::kIterator:
      return [&machine, &inner = value.as<Iterator>()](Value& out) {
        machine.step();
        return inner.next(out);
      };
    default:
      raise("'{}' object is not iterable", type_name(value));
  }
}

std::vector<Value> collect(Machine& machine, const Value& value) {
  std::vector<Value> items;
  const auto next = iterate(machine, value);
  for (Value element; next(element);) {
    machine.heap().charge(sizeof(Value));
    items.push_back(element);
  }
  return items;
}

}  // namespace pagoda::text::jinja
