// Filters on sequences and mappings. Those that jinja2 makes generators of are lazy and walk once here too.
#include <algorithm>
#include <memory>
#include <set>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/tracing.h"

namespace pagoda::text::jinja {

namespace {

bool flag(const Value& value) { return given(value) && truthy(value); }

Value folded(Machine& machine, const Value& value, bool case_sensitive) {
  return !case_sensitive && value.is(Kind::kString) ? text_lower(machine, value.text()) : value;
}

/// Sorted by keys that are compared once made, stable, as sorted(key=, reverse=).
std::vector<Value> sort_by(Machine& machine, std::vector<Value> items, const std::function<Value(const Value&)>& key,
                           bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  machine.heap().charge(keyed.size() * sizeof(keyed[0]));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? ordered(machine, "<", b.first, a.first) : ordered(machine, "<", a.first, b.first);
  });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
  return items;
}

Value length(Call& call) {
  const auto count = length_of(call.self);
  if (!count) raise("object of type '{}' has no len()", type_name(call.self));
  return Value::integer(*count);
}

Value first(Call& call) {
  Value item;
  if (iterate(call.machine, call.self)(item)) return item;
  return call.machine.undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& value) {
  return is_iterable(value) && !value.is(Kind::kIterator) && !value.is(Kind::kLoop);
}

Value last(Call& call) {
  if (!is_reversible(call.self)) raise("'{}' object is not reversible", type_name(call.self));
  if (call.self.is_sequence() && !call.self.as<Sequence>().items.empty()) return call.self.as<Sequence>().items.back();
  const auto items = collect(call.machine, call.self);
  return items.empty() ? call.machine.undefined("No last item, sequence was empty.") : items.back();
}

Value over(Machine& machine, std::string_view type, std::vector<Value> items) {
  const Value list = machine.list(std::move(items));
  return machine.iterator(type, iterate(machine, list));
}

Value reverse(Call& call) {
  if (call.self.is(Kind::kString)) {
    return slice(call.machine, call.self, {}, {}, Value::integer(-1));
  }
  if (!is_iterable(call.self)) raise("argument must be iterable");
  auto items = collect(call.machine, call.self);
  std::reverse(items.begin(), items.end());
  if (!is_reversible(call.self)) return call.machine.list(std::move(items));
  return over(call.machine, call.self.is(Kind::kList) ? "list_reverseiterator" : "reversed", std::move(items));
}

Value list(Call& call) { return call.machine.list(collect(call.machine, call.self)); }

Value join(Call& call) {
  auto items = collect(call.machine, call.self);
  if (given_and_not_none(call.a[1])) {
    for (Value& item : items) item = get_path(call.machine, item, call.a[1]);
  }
  Text separator = given(call.a[0]) ? to_text(call.machine, call.a[0]).text() : Text();
  separator.markup = false;
  return text_join(call.machine, separator, items, true);
}

Value sort(Call& call) {
  const bool sensitive = flag(call.a[1]);
  std::vector<Value> paths;
  if (given(call.a[2]) && call.a[2].is(Kind::kString)) {
    const std::string& names = call.a[2].bytes();
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t comma = std::min(names.find(',', begin), names.size());
      paths.push_back(call.machine.trusted(std::string_view(names).substr(begin, comma - begin)));
      begin = comma + 1;
    }
  } else {
    paths.push_back(given(call.a[2]) ? call.a[2] : Value::none());
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const Value& path : paths)
      parts.push_back(folded(call.machine, get_path(call.machine, item, path), sensitive));
    return call.machine.list(std::move(parts));
  };
  return call.machine.list(sort_by(call.machine, collect(call.machine, call.self), key, flag(call.a[0])));
}

Value dictsort(Call& call) {
  const std::string by = given(call.a[1]) ? to_text(call.machine, call.a[1]).bytes() : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (call.self.is(Kind::kUndefined)) raise_undefined(call.self);
  if (!call.self.is(Kind::kDict)) raise("'{}' object has no attribute 'items'", type_name(call.self));
  std::vector<Value> pairs;
  for (const auto& [key, value] : call.self.as<Dict>().items) pairs.push_back(call.machine.tuple({key, value}));
  const bool sensitive = flag(call.a[0]);
  const auto key = [&](const Value& pair) {
    return folded(call.machine, pair.as<Sequence>().items[by == "key" ? 0 : 1], sensitive);
  };
  return call.machine.list(sort_by(call.machine, std::move(pairs), key, flag(call.a[2])));
}

Value extreme(Call& call, std::string_view symbol) {
  const auto next = iterate(call.machine, call.self);
  Value best;
  if (!next(best)) return call.machine.undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    return folded(call.machine, get_path(call.machine, item, given(call.a[1]) ? call.a[1] : Value::none()),
                  flag(call.a[0]));
  };
  Value best_key = key(best);
  for (Value item; next(item);) {
    const Value item_key = key(item);
    if (!ordered(call.machine, symbol, item_key, best_key)) continue;
    best = item;
    best_key = item_key;
  }
  return best;
}
Value min_filter(Call& call) { return extreme(call, "<"); }
Value max_filter(Call& call) { return extreme(call, ">"); }

Value sum(Call& call) {
  Value total = given(call.a[1]) ? call.a[1] : Value::integer(0);
  if (total.is(Kind::kString)) raise("sum() can't sum strings [use ''.join(seq) instead]");
  const auto next = iterate(call.machine, call.self);
  for (Value item; next(item);) {
    if (given_and_not_none(call.a[0])) item = get_path(call.machine, item, call.a[0]);
    total = binary(call.machine, "+", total, item);
  }
  return total;
}

Value unique(Call& call) {
  Machine& machine = call.machine;
  const Value path = given(call.a[1]) ? call.a[1] : Value::none();
  const bool sensitive = flag(call.a[0]);
  const auto next = iterate(machine, call.self);
  auto seen = std::make_shared<std::set<Value, KeyLess>>();
  return machine.iterator("generator", [&machine, path, sensitive, next, seen](Value& out) {
    while (next(out)) {
      const Value key = folded(machine, get_path(machine, out, path), sensitive);
      require_hashable(key);
      machine.step(weight_of(key));
      machine.heap().charge(sizeof(Value) * 4);
      if (seen->insert(key).second) return true;
    }
    return false;
  });
}

Value groupby(Call& call) {
  Machine& machine = call.machine;
  const bool sensitive = flag(call.a[2]);
  const Value fallback = given_and_not_none(call.a[1]) ? call.a[1] : Value();
  const auto key = [&](const Value& item) {
    return folded(machine, get_path(machine, item, call.a[0], fallback), sensitive);
  };
  const auto items = sort_by(machine, collect(machine, call.self), key, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size();) {
    const Value group_key = key(items[begin]);
    std::size_t end = begin + 1;
    while (end < items.size() && equals(key(items[end]), group_key)) ++end;
    const Value name = sensitive ? group_key : get_path(machine, items[begin], call.a[0], fallback);
    const std::vector<Value> members(items.begin() + static_cast<std::ptrdiff_t>(begin),
                                     items.begin() + static_cast<std::ptrdiff_t>(end));
    const Value group = machine.tuple({name, machine.list(members)});
    group.as<Sequence>().group = true;
    groups.push_back(group);
    begin = end;
  }
  return machine.list(std::move(groups));
}

Value items(Call& call) {
  Machine& machine = call.machine;
  const Value self = call.self;
  auto next = std::make_shared<std::function<bool(Value&)>>();
  return machine.iterator("generator", [&machine, self, next](Value& out) {
    if (!*next) {
      if (self.is(Kind::kUndefined)) return false;
      if (!self.is(Kind::kDict)) raise("Can only get item pairs from a mapping.");
      auto* view = machine.heap().make<View>();
      view->part = View::Part::kItems;
      view->dict = &self.as<Dict>();
      *next = iterate(machine, Value(Kind::kView, view));
    }
    return (*next)(out);
  });
}

Value batch(Call& call) {
  Machine& machine = call.machine;
  const std::int64_t size = int_argument(call.a[0], 0);
  const auto all = collect(machine, call.self);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : all) {
    if (static_cast<std::int64_t>(row.size()) == size) {
      rows.push_back(machine.list(row));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    while (given_and_not_none(call.a[1]) && static_cast<std::int64_t>(row.size()) < size) {
      machine.step();
      machine.heap().charge(sizeof(Value));
      row.push_back(call.a[1]);
    }
    rows.push_back(machine.list(row));
  }
  return over(machine, "generator", std::move(rows));
}

Value slice_filter(Call& call) {
  Machine& machine = call.machine;
  const auto all = collect(machine, call.self);
  const std::int64_t slices = int_argument(call.a[0], 1);
  if (slices == 0) raise("integer division or modulo by zero");
  const auto size = static_cast<std::int64_t>(all.size());
  std::vector<Value> out;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    machine.step();
    const bool extra = i < size % slices;
    const auto count = static_cast<std::size_t>(size / slices + (extra ? 1 : 0));
    std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    if (given_and_not_none(call.a[1]) && !extra) part.push_back(call.a[1]);
    out.push_back(machine.list(std::move(part)));
  }
  return over(machine, "generator", std::move(out));
}

using Transform = std::function<Value(const Value&)>;

/// What map() does to each item, from its arguments.
Transform mapping(Machine& machine, const Arguments& given_arguments) {
  Arguments rest = given_arguments;
  const auto named = [&](std::string_view name) {
    return std::find_if(rest.named.begin(), rest.named.end(),
                        [&](const auto& argument) { return argument.first == name; });
  };
  if (rest.positional.empty() && named("attribute") != rest.named.end()) {
    const Value path = named("attribute")->second;
    rest.named.erase(named("attribute"));
    Value fallback;
    if (named("default") != rest.named.end()) {
      fallback = named("default")->second;
      rest.named.erase(named("default"));
      if (fallback.is(Kind::kNone)) fallback = {};
    }
    if (!rest.named.empty()) raise("Unexpected keyword argument {}", string_repr(rest.named[0].first));
    return [&machine, path, fallback](const Value& item) { return get_path(machine, item, path, fallback); };
  }
  if (rest.positional.empty()) raise("map requires a filter argument");
  const Value name = rest.positional[0];
  rest.positional.erase(rest.positional.begin());
  return [&machine, name, rest](const Value& item) { return call_filter(machine, name, item, rest); };
}

Value map(Call& call) {
  Machine& machine = call.machine;
  auto transform = std::make_shared<Transform>();
  auto next = std::make_shared<std::function<bool(Value&)>>();
  return machine.iterator("generator",
                          [&machine, self = call.self, arguments = call.given, transform, next](Value& out) {
                            if (!*next) {
                              if (!truthy(self)) return false;
                              *transform = mapping(machine, arguments);
                              *next = iterate(machine, self);
                            }
                            if (!(*next)(out)) return false;
                            out = (*transform)(out);
                            return true;
                          });
}

/// Whether select() and its kin take an item, from their arguments.
std::function<bool(const Value&)> selection(Machine& machine, Arguments rest, bool by_attribute) {
  Value path = Value::none();
  const auto shift = [&] {
    const Value value = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  if (by_attribute) {
    if (rest.positional.empty()) raise("Missing parameter for attribute name");
    path = shift();
  }
  if (rest.positional.empty()) {
    return [&machine, path](const Value& item) { return truthy(get_path(machine, item, path)); };
  }
  const Value test = shift();
  return [&machine, path, test, rest](const Value& item) {
    return call_test(machine, test, get_path(machine, item, path), rest);
  };
}

Value select_items(Call& call, bool wanted, bool by_attribute) {
  Machine& machine = call.machine;
  auto takes = std::make_shared<std::function<bool(const Value&)>>();
  auto next = std::make_shared<std::function<bool(Value&)>>();
  return machine.iterator(
      "generator", [&machine, self = call.self, arguments = call.given, takes, next, wanted, by_attribute](Value& out) {
        if (!*next) {
          if (!truthy(self)) return false;
          *takes = selection(machine, arguments, by_attribute);
          *next = iterate(machine, self);
        }
        while ((*next)(out)) {
          if ((*takes)(out) == wanted) return true;
        }
        return false;
      });
}
Value select(Call& call) { return select_items(call, true, false); }
Value reject(Call& call) { return select_items(call, false, false); }
Value selectattr(Call& call) { return select_items(call, true, true); }
Value rejectattr(Call& call) { return select_items(call, false, true); }

constexpr Builtin kFilters[] = {
    {"batch", "linecount fill_with", 1, batch},
    {"count", "", 0, length},
    {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"first", "", 0, first},
    {"groupby", "attribute default case_sensitive", 1, groupby},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"length", "", 0, length},
    {"list", "", 0, list},
    {"map", "*", 0, map},
    {"max", "case_sensitive attribute", 0, max_filter},
    {"min", "case_sensitive attribute", 0, min_filter},
    {"reject", "*", 0, reject},
    {"rejectattr", "*", 0, rejectattr},
    {"reverse", "", 0, reverse},
    {"select", "*", 0, select},
    {"selectattr", "*", 0, selectattr},
    {"slice", "slices fill_with", 1, slice_filter},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kFilters; }

Value get_path(Machine& machine, Value owner, const Value& path, const Value& fallback) {
  if (!given_and_not_none(path)) return owner;
  const auto step_into = [&](const Value& key) {
    owner = get_item(machine, owner, key);
    if (owner.is(Kind::kUndefined) && given(fallback)) owner = fallback;
  };
  if (!path.is(Kind::kString)) {
    step_into(path);
    return owner;
  }
  const std::string& names = path.bytes();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t dot = std::min(names.find('.', begin), names.size());
    const std::string_view part = std::string_view(names).substr(begin, dot - begin);
    const bool number =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string_view::npos;
    step_into(number ? Value::integer(std::stoll(std::string(part))) : machine.trusted(part));
    begin = dot + 1;
  }
  return owner;
}

}  // namespace pagoda::text::jinja
