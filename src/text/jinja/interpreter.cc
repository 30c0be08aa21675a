#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/level.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace pagoda::text::jinja {

void Scope::set(int name_id, const Value& value) {
  for (auto& [id, old] : variables) {
    if (id != name_id) continue;
    old = value;
    return;
  }
  variables.emplace_back(name_id, value);
}

Interpreter::Interpreter(const Program& program, const Budget& budget, std::int64_t now_unix_seconds)
    : Machine(budget, now_unix_seconds), program_(program), context_(program.names.size()) {
  root_ = heap().make<Scope>();
  for (const Builtin& builtin : global_functions()) define(builtin.name, bound(builtin, {}));
}

void Interpreter::define(std::string_view name, const Value& value) {
  const auto found = program_.name_ids.find(name);
  if (found != program_.name_ids.end()) context_[static_cast<std::size_t>(found->second)] = value;
}

Text Interpreter::render() {
  start_clock();
  TextBuilder out(*this, budget().output_bytes);
  execute(program_.body, *root_, out);
  return out.take();
}

Scope& Interpreter::make_scope(Scope& parent) {
  auto* scope = heap().make<Scope>();
  scope->parent = &parent;
  return *scope;
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope, TextBuilder& out) {
  for (const auto& stmt : body) {
    try {
      const Flow flow = execute(*stmt, scope, out);
      if (flow != Flow::kNormal) return flow;
    } catch (Fault& fault) {
      if (fault.line == 0) fault.line = stmt->line;
      throw;
    }
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Scope& scope, TextBuilder& out) {
  const Level level(*this);
  step();
  switch (stmt.kind) {
    case StmtKind::kOutput:
      for (const auto& expr : stmt.exprs) print_value(*expr, scope, out);
      return Flow::kNormal;
    case StmtKind::kIf:
      return run_if(stmt, scope, out);
    case StmtKind::kFor:
      return run_for(stmt, scope, evaluate(*stmt.exprs[1], scope), 0, out);
    case StmtKind::kMacro:
      scope.set(stmt.name_id, make_macro(stmt, scope));
      return Flow::kNormal;
    case StmtKind::kCallBlock:
      run_call_block(stmt, scope, out);
      return Flow::kNormal;
    case StmtKind::kFilterBlock:
    case StmtKind::kSetBlock:
      return run_captured(stmt, scope, out);
    case StmtKind::kSet:
      check_namespaces(*stmt.exprs[0], scope);
      assign(*stmt.exprs[0], evaluate(*stmt.exprs[1], scope), scope);
      return Flow::kNormal;
    case StmtKind::kWith:
      return run_with(stmt, scope, out);
    case StmtKind::kScope:
      return execute(stmt.bodies[0], make_scope(scope), out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kRefused:
      raise("{}", stmt.name);
  }
  return Flow::kNormal;
}

void Interpreter::print_value(const Expr& expr, Scope& scope, TextBuilder& out) {
  try {
    print_str(*this, out, evaluate(expr, scope));
  } catch (Fault& fault) {
    if (fault.line == 0) fault.line = expr.line;
    throw;
  }
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt, Scope& scope, TextBuilder& out) {
  for (std::size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (truthy(evaluate(*stmt.exprs[i], scope))) return execute(stmt.bodies[i], scope, out);
  }
  return stmt.bodies.size() > stmt.exprs.size() ? execute(stmt.bodies.back(), scope, out) : Flow::kNormal;
}

bool Loop::peek() {
  if (has_after || ended) return has_after;
  has_after = next(after);
  ended = !has_after;
  return has_after;
}

bool Loop::advance(Value& out) {
  if (!peek()) return false;
  has_after = false;
  ++index0;
  before = current;
  current = after;
  out = current;
  return true;
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt, Scope& scope, const Value& iterable, std::int64_t depth0,
                                       TextBuilder& out) {
  static constexpr std::string_view kLoopName = "loop";
  auto* loop = heap().make<Loop>();
  loop->stmt = &stmt;
  loop->scope = &scope;
  loop->depth0 = depth0;
  loop->next = iterate(*this, iterable);
  if (stmt.exprs[2]) {
    Scope& test_scope = make_scope(scope);
    loop->next = [this, &stmt, &test_scope, all = loop->next](Value& item) {
      while (all(item)) {
        assign(*stmt.exprs[0], item, test_scope);
        if (truthy(evaluate(*stmt.exprs[2], test_scope))) return true;
      }
      return false;
    };
  } else {
    loop->iterable = iterable;
  }
  const auto loop_name = program_.name_ids.find(kLoopName);
  Scope& inside = make_scope(scope);
  bool completed = false;  // jinja2 runs the else part unless one round came to its end
  for (Value item; loop->advance(item);) {
    step();
    inside.variables.clear();
    if (loop_name != program_.name_ids.end()) inside.set(loop_name->second, Value(Kind::kLoop, loop));
    assign(*stmt.exprs[0], item, inside);
    const Flow flow = execute(stmt.bodies[0], inside, out);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || stmt.bodies[1].empty()) return Flow::kNormal;
  return execute(stmt.bodies[1], make_scope(scope), out);
}

Interpreter::Flow Interpreter::run_captured(const Stmt& stmt, Scope& scope, TextBuilder& out) {
  Scope& inside = make_scope(scope);
  TextBuilder captured(*this);
  const Flow flow = execute(stmt.bodies[0], inside, captured);
  if (flow != Flow::kNormal) return flow;
  Value value = captured.build();
  const Expr* filter = stmt.exprs[stmt.kind == StmtKind::kSetBlock ? 1 : 0].get();
  if (filter != nullptr) value = filter_block(*filter, value, inside);
  if (stmt.kind == StmtKind::kFilterBlock) {
    print_block(value, out);
  } else {
    check_namespaces(*stmt.exprs[0], scope);
    assign(*stmt.exprs[0], value, scope);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt, Scope& scope, TextBuilder& out) {
  Scope& inside = make_scope(scope);
  for (std::size_t i = 0; i < stmt.exprs.size(); i += 2) {
    assign(*stmt.exprs[i], evaluate(*stmt.exprs[i + 1], scope), inside);
  }
  return execute(stmt.bodies[0], inside, out);
}

Value Interpreter::make_macro(const Stmt& stmt, Scope& scope) {
  auto* macro = heap().make<Macro>();
  macro->stmt = &stmt;
  macro->scope = &scope;
  return Value(Kind::kMacro, macro);
}

void Interpreter::run_call_block(const Stmt& stmt, Scope& scope, TextBuilder& out) {
  const Value callee = evaluate(*stmt.call->items[0], scope);
  Arguments arguments = arguments_of(stmt.call->arguments, scope);
  arguments.named.emplace_back("caller", make_macro(stmt, scope));
  print_block(call(callee, arguments), out);
}

/// What a filter or call block makes goes to the output as it is, so it has to be a string.
void Interpreter::print_block(const Value& value, TextBuilder& out) {
  if (!value.is(Kind::kString)) raise("sequence item: expected str instance, {} found", type_name(value));
  out.copy(value.text());
}

void Interpreter::check_namespaces(const Expr& target, Scope& scope) {
  if (target.kind == ExprKind::kNsRef && !lookup(target, scope).is(Kind::kNamespace)) {
    raise("cannot assign attribute on non-namespace object");
  }
  if (target.kind != ExprKind::kTuple) return;
  for (const auto& item : target.items) check_namespaces(*item, scope);
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == ExprKind::kName) return scope.set(target.name_id, value);
  if (target.kind == ExprKind::kNsRef) {
    check_namespace_name(target.attribute);
    return lookup(target, scope).as<Namespace>().dict.set(trusted(target.attribute), value);
  }
  if (!is_iterable(value)) raise("cannot unpack non-iterable {} object", type_name(value));
  const std::size_t wanted = target.items.size();
  std::vector<Value> parts;
  const auto next = iterate(*this, value);
  for (Value part; parts.size() <= wanted && next(part);) parts.push_back(part);
  if (parts.size() > wanted) raise("too many values to unpack (expected {})", wanted);
  if (parts.size() < wanted) raise("not enough values to unpack (expected {}, got {})", wanted, parts.size());
  for (std::size_t i = 0; i < wanted; ++i) assign(*target.items[i], parts[i], scope);
}

}  // namespace pagoda::text::jinja
