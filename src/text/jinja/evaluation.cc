// The expression half of the interpreter.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/level.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace pagoda::text::jinja {

Value Interpreter::evaluate(const Expr& node, Scope& scope) {
  if (node.kind == ExprKind::kConst) return node.constant;
  step();
  if (node.kind == ExprKind::kName) return lookup(node, scope);
  const Level level(*this);
  return evaluate_deeper(node, scope);
}

Value Interpreter::evaluate_deeper(const Expr& node, Scope& scope) {
  const auto operand = [&](std::size_t i) { return evaluate(*node.items[i], scope); };
  switch (node.kind) {
    case ExprKind::kConst:
      return node.constant;
    case ExprKind::kName:
    case ExprKind::kNsRef:
      return lookup(node, scope);
    case ExprKind::kTuple:
      return tuple(all_of(node.items, scope));
    case ExprKind::kList:
      return list(all_of(node.items, scope));
    case ExprKind::kDict:
      return dict_of(node, scope);
    case ExprKind::kGetattr:
      return get_attribute(*this, operand(0), node.name);
    case ExprKind::kGetitem:
    case ExprKind::kSlice:
      return item_of(node, scope);
    case ExprKind::kCall: {
      const Value callee = operand(0);
      return call(callee, arguments_of(node.arguments, scope));
    }
    case ExprKind::kFilter:
      return filtered(node, operand(0), scope);
    case ExprKind::kTest: {
      const Value value = operand(0);
      if (node.builtin == nullptr) raise("No test named {} found.", string_repr(node.name));
      return run_builtin(*this, *node.builtin, value, arguments_of(node.arguments, scope));
    }
    case ExprKind::kCond:
      return conditional(node, scope);
    case ExprKind::kAnd: {
      const Value left = operand(0);
      return truthy(left) ? operand(1) : left;
    }
    case ExprKind::kOr: {
      const Value left = operand(0);
      return truthy(left) ? left : operand(1);
    }
    case ExprKind::kNot:
      return Value::boolean(!truthy(operand(0)));
    case ExprKind::kNeg:
      return negate(operand(0));
    case ExprKind::kPos:
      return posite(operand(0));
    case ExprKind::kBinary: {
      const Value left = operand(0);
      return binary(*this, node.ops[0], left, operand(1));
    }
    case ExprKind::kConcat: {
      TextBuilder builder(*this);
      const auto parts = all_of(node.items, scope);
      for (const Value& part : parts) print_str(*this, builder, part);
      return builder.build();
    }
    case ExprKind::kCompare:
      return compare(node, scope);
  }
  return Value::none();
}

Value Interpreter::lookup(const Expr& node, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    for (const auto& [id, value] : at->variables) {
      if (id != node.name_id) continue;
      return value.is(Kind::kMissing) ? undefined_name(node.name) : value;
    }
  }
  const Value& value = context_[static_cast<std::size_t>(node.name_id)];
  return value.is(Kind::kMissing) ? undefined_name(node.name) : value;
}

std::vector<Value> Interpreter::all_of(const std::vector<ExprPtr>& nodes, Scope& scope) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const auto& node : nodes) values.push_back(evaluate(*node, scope));
  return values;
}

Value Interpreter::dict_of(const Expr& node, Scope& scope) {
  auto* dict = heap().make<Dict>();
  for (std::size_t i = 0; i < node.items.size(); i += 2) {
    const Value key = evaluate(*node.items[i], scope);
    const Value value = evaluate(*node.items[i + 1], scope);
    require_hashable(key);
    step(weight_of(key));
    heap().charge(2 * sizeof(Value));
    dict->set(key, value);
  }
  return Value(Kind::kDict, dict);
}

Value Interpreter::item_of(const Expr& node, Scope& scope) {
  const Value owner = evaluate(*node.items[0], scope);
  const Expr& key = *node.items[1];
  if (key.kind != ExprKind::kSlice) return get_item(*this, owner, evaluate(key, scope));
  Value parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (key.items[i]) parts[i] = evaluate(*key.items[i], scope);
  }
  return slice(*this, owner, parts[0], parts[1], parts[2]);
}

Value Interpreter::conditional(const Expr& node, Scope& scope) {
  if (truthy(evaluate(*node.items[0], scope))) return evaluate(*node.items[1], scope);
  if (node.items[2]) return evaluate(*node.items[2], scope);
  return undefined(pagoda::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", node.line));
}

Value Interpreter::compare(const Expr& node, Scope& scope) {
  Value left = evaluate(*node.items[0], scope);
  for (std::size_t i = 0; i < node.ops.size(); ++i) {
    const Value right = evaluate(*node.items[i + 1], scope);
    const std::string_view op = node.ops[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      step(std::min(weight_of(left), weight_of(right)));
      holds = equals(left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(*this, right, left) == (op == "in");
    } else {
      holds = ordered(*this, op, left, right);
    }
    if (!holds) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interpreter::filtered(const Expr& node, const Value& value, Scope& scope) {
  if (node.builtin == nullptr) raise("No filter named {} found.", string_repr(node.name));
  return run_builtin(*this, *node.builtin, value, arguments_of(node.arguments, scope));
}

Value Interpreter::filter_block(const Expr& node, const Value& captured, Scope& scope) {
  return filtered(node, node.items[0] ? filter_block(*node.items[0], captured, scope) : captured, scope);
}

Arguments Interpreter::arguments_of(const CallArguments& arguments, Scope& scope) {
  Arguments out;
  out.positional = all_of(arguments.positional, scope);
  for (const auto& [name, node] : arguments.named) out.named.emplace_back(name, evaluate(*node, scope));
  if (arguments.spread) {
    const Value spread = evaluate(*arguments.spread, scope);
    if (!is_iterable(spread)) raise("Value after * must be an iterable, not {}", type_name(spread));
    for (const Value& value : collect(*this, spread)) out.positional.push_back(value);
  }
  if (arguments.named_spread) {
    const Value spread = evaluate(*arguments.named_spread, scope);
    if (!spread.is(Kind::kDict)) raise("argument after ** must be a mapping, not {}", type_name(spread));
    for (const auto& [key, value] : spread.as<Dict>().items) {
      if (!key.is(Kind::kString)) raise("keywords must be strings");
      for (const auto& [name, other] : out.named) {
        if (name == key.bytes()) raise("got multiple values for keyword argument '{}'", name);
      }
      step();
      out.named.emplace_back(key.bytes(), value);
    }
  }
  return out;
}

}  // namespace pagoda::text::jinja
