// The methods of lists, tuples, dicts, ranges, cyclers. What would change a list or dict is refused before it gets
// here.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace pagoda::text::jinja {

namespace {

Value index(Call& call) {
  const auto items = collect(call.machine, call.self);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto clamp = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size); };
  const std::int64_t stop = clamp(int_argument(call.a[2], size));
  for (std::int64_t i = clamp(int_argument(call.a[1], 0)); i < stop; ++i) {
    call.machine.step(weight_of(call.a[0]));
    if (equals(items[static_cast<std::size_t>(i)], call.a[0])) return Value::integer(i);
  }
  if (call.self.is(Kind::kTuple)) raise("tuple.index(x): x not in tuple");
  raise("{} is not in {}", repr_of(call.a[0]), type_name(call.self));
}

Value count(Call& call) {
  std::int64_t found = 0;
  for (const Value& item : collect(call.machine, call.self)) {
    call.machine.step(weight_of(call.a[0]));
    found += equals(item, call.a[0]) ? 1 : 0;
  }
  return Value::integer(found);
}

Value copy(Call& call) { return call.self; }  // nothing can change it, so a copy needs no copying

Value view(Call& call, View::Part part) {
  auto* made = call.machine.heap().make<View>();
  made->part = part;
  made->dict = &call.self.as<Dict>();
  return Value(Kind::kView, made);
}
Value keys(Call& call) { return view(call, View::Part::kKeys); }
Value values(Call& call) { return view(call, View::Part::kValues); }
Value items(Call& call) { return view(call, View::Part::kItems); }

Value get(Call& call) {
  require_hashable(call.a[0]);
  call.machine.step(weight_of(call.a[0]));
  const Value* value = call.self.as<Dict>().find(call.a[0]);
  if (value != nullptr) return *value;
  return given(call.a[1]) ? call.a[1] : Value::none();
}

Value fromkeys(Call& call) {
  auto* made = call.machine.heap().make<Dict>();
  for (const Value& key : collect(call.machine, call.a[0])) {
    require_hashable(key);
    made->set(key, given(call.a[1]) ? call.a[1] : Value::none());
  }
  return Value(Kind::kDict, made);
}

Value cycler_next(Call& call) {
  auto& cycler = call.self.as<Cycler>();
  const Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}
Value cycler_current(Call& call) { return call.self.as<Cycler>().items[call.self.as<Cycler>().at]; }
Value cycler_reset(Call& call) {
  call.self.as<Cycler>().at = 0;
  return Value::none();
}

constexpr Builtin kSequenceMethods[] = {{"index", "value start stop", 1, index}, {"count", "value", 1, count}};
constexpr Builtin kListCopy = {"copy", "", 0, copy};
constexpr Builtin kDictMethods[] = {
    {"keys", "", 0, keys},          {"values", "", 0, values}, {"items", "", 0, items},
    {"get", "key default", 1, get}, {"copy", "", 0, copy},     {"fromkeys", "iterable value", 1, fromkeys},
};
constexpr Builtin kCyclerMethods[] = {
    {"next", "", 0, cycler_next}, {"current", "", 0, cycler_current}, {"reset", "", 0, cycler_reset}};

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& m) { return m.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Builtin* find_container_method(const Value& owner, std::string_view name) {
  switch (owner.kind()) {
    case Kind::kList:
      if (name == "copy") return &kListCopy;
      [[fallthrough]];
    case Kind::kTuple:
    case Kind::kRange:
      return find_in(kSequenceMethods, name);
    case Kind::kDict:
      return find_in(kDictMethods, name);
    case Kind::kCycler:
      return find_in(kCyclerMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace pagoda::text::jinja
