// What can be called: builtins, macros, recursive loops; and the attributes of macros and loops.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace pagoda::text::jinja {

namespace {

std::int64_t loop_length(Machine& machine, Loop& loop) {
  if (loop.length >= 0) return loop.length;
  const auto sized = length_of(loop.iterable);
  if (sized) return loop.length = *sized;
  Value rest = machine.list({});
  auto& items = rest.as<Sequence>().items;
  for (Value item; loop.next(item);) {
    machine.heap().charge(sizeof(Value));
    items.push_back(item);
  }
  loop.next = iterate(machine, rest);
  loop.length = static_cast<std::int64_t>(items.size()) + loop.index0 + 1 + (loop.has_after ? 1 : 0);
  return loop.length;
}

Value loop_cycle(Call& call) {
  const auto& items = call.given.positional;
  if (items.empty()) raise("no items for cycling given");
  return items[static_cast<std::size_t>(call.self.as<Loop>().index0) % items.size()];
}

Value loop_changed(Call& call) {
  auto& loop = call.self.as<Loop>();
  const Value now = call.machine.tuple(call.given.positional);
  call.machine.step(weight_of(now));
  if (!loop.last_changed.is(Kind::kMissing) && equals(loop.last_changed, now)) return Value::boolean(false);
  loop.last_changed = now;
  return Value::boolean(true);
}

constexpr Builtin kCycle = {"cycle", "*", 0, loop_cycle};
constexpr Builtin kChanged = {"changed", "*", 0, loop_changed};

std::string macro_name(const Macro& macro) {
  return macro.stmt->kind == StmtKind::kMacro ? string_repr(macro.stmt->name) : "None";
}

}  // namespace

std::string describe_runtime_object(Machine& machine, const Value& value) {
  if (value.is(Kind::kLoop)) {
    auto& loop = value.as<Loop>();
    const std::int64_t index = loop.index0 + 1;
    return pagoda::format("<LoopContext {}/{}>", index, loop_length(machine, loop));
  }
  const auto& macro = value.as<Macro>();
  return pagoda::format("<Macro {}>", macro.stmt->kind == StmtKind::kMacro ? macro_name(macro) : "anonymous");
}

Value loop_attribute(Machine& machine, const Value& value, std::string_view name) {
  auto& loop = value.as<Loop>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!loop.peek());
  if (name == "length") return Value::integer(loop_length(machine, loop));
  if (name == "revindex") return Value::integer(loop_length(machine, loop) - loop.index0);
  if (name == "revindex0") return Value::integer(loop_length(machine, loop) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? machine.undefined("there is no previous item") : loop.before;
  if (name == "nextitem") return loop.peek() ? loop.after : machine.undefined("there is no next item");
  if (name == "cycle") return machine.bound(kCycle, value);
  if (name == "changed") return machine.bound(kChanged, value);
  return {};
}

Value macro_attribute(Machine& machine, const Value& value, std::string_view name) {
  const Stmt& stmt = *value.as<Macro>().stmt;
  if (name == "name") return stmt.kind == StmtKind::kMacro ? machine.trusted(stmt.name) : Value::none();
  if (name == "catch_kwargs") return Value::boolean(stmt.reads_kwargs);
  if (name == "catch_varargs") return Value::boolean(stmt.reads_varargs);
  if (name == "caller") return Value::boolean(stmt.reads_caller);
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const auto& [id, parameter] : stmt.parameters) names.push_back(machine.trusted(parameter));
  return machine.tuple(std::move(names));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kFunction: {
      const auto& function = callee.as<Function>();
      return run_builtin(*this, *function.builtin, function.self, arguments);
    }
    case Kind::kMacro:
      return call_macro(callee.as<Macro>(), arguments);
    case Kind::kLoop: {
      const auto& loop = callee.as<Loop>();
      if (!loop.stmt->recursive) raise("The loop must have the 'recursive' marker to be called recursively.");
      if (arguments.positional.size() != 1 || !arguments.named.empty()) raise("a recursive loop takes one argument");
      const Deeper deeper(*this);
      TextBuilder out(*this);
      run_for(*loop.stmt, *loop.scope, arguments.positional[0], loop.depth0 + 1, out);
      return out.build();
    }
    case Kind::kJoiner: {
      auto& joiner = callee.as<Joiner>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return trusted("");
    }
    case Kind::kUndefined:
      raise_undefined(callee);
    default:
      raise("'{}' object is not callable", type_name(callee));
  }
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const Deeper deeper(*this);
  const Stmt& stmt = *macro.stmt;
  Scope& scope = make_scope(*macro.scope);
  auto named = arguments.named;
  const auto take = [&](std::string_view name) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const auto& argument) { return argument.first == name; });
    if (found == named.end()) return Value();
    const Value value = found->second;
    named.erase(found);
    return value;
  };
  const std::size_t count = stmt.parameters.size();
  bool explicit_caller = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [id, name] = stmt.parameters[i];
    explicit_caller = explicit_caller || name == "caller";
    scope.set(id, i < arguments.positional.size() ? arguments.positional[i] : take(name));
  }
  const auto special = [&](std::string_view name) { return program_.name_ids.find(name)->second; };
  if (stmt.reads_caller && !explicit_caller) {
    const Value caller = take("caller");
    const bool none = caller.is(Kind::kMissing) || caller.is(Kind::kNone);
    scope.set(special("caller"), none ? undefined("No caller defined") : caller);
  }
  const auto is_parameter = [&](std::string_view name) {
    return std::any_of(stmt.parameters.begin(), stmt.parameters.end(), [&](const auto& p) { return p.second == name; });
  };
  if (stmt.reads_kwargs && !is_parameter("kwargs")) {
    auto* kwargs = heap().make<Dict>();
    for (const auto& [name, value] : named) kwargs->set(trusted(name), value);
    scope.set(special("kwargs"), Value(Kind::kDict, kwargs));
  } else if (!named.empty()) {
    if (std::any_of(named.begin(), named.end(), [](const auto& n) { return n.first == "caller"; })) {
      raise("macro {} was invoked with two values for the special caller argument. This is most likely a bug.",
            macro_name(macro));
    }
    raise("macro {} takes no keyword argument {}", macro_name(macro), string_repr(named[0].first));
  }
  if (stmt.reads_varargs && !is_parameter("varargs")) {
    std::vector<Value> rest;
    for (std::size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
    scope.set(special("varargs"), tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    raise("macro {} takes not more than {} argument(s)", macro_name(macro), count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!scope.variables[i].second.is(Kind::kMissing)) continue;
    const std::size_t first_default = count - stmt.exprs.size();
    const auto& [id, name] = stmt.parameters[i];
    scope.set(id, i >= first_default ? evaluate(*stmt.exprs[i - first_default], scope)
                                     : undefined(pagoda::format("parameter {} was not provided", string_repr(name))));
  }
  TextBuilder out(*this);
  execute(stmt.bodies[0], scope, out);
  return out.build();
}

}  // namespace pagoda::text::jinja
