// Walks a Program. One instance renders once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/machine.h"
#include "text/jinja/tracing.h"

namespace pagoda::text::jinja {

/// The names of one block; lookups go on in the parent. Kept alive by the heap, since macros hold on to theirs.
struct Scope : Object {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;

  void set(int name_id, const Value& value);
};

struct Macro : Object {
  const Stmt* stmt = nullptr;  ///< kMacro or kCallBlock
  Scope* scope = nullptr;      ///< where it was defined
};

struct Loop : Object {
  const Stmt* stmt = nullptr;
  Scope* scope = nullptr;  ///< around the loop
  Value iterable;          ///< kMissing if the items are filtered
  std::function<bool(Value& out)> next;
  std::int64_t index0 = -1;
  std::int64_t depth0 = 0;
  std::int64_t length = -1;
  bool has_after = false;  ///< one item was looked at ahead
  bool ended = false;
  Value before, current, after;
  Value last_changed;

  bool peek();
  bool advance(Value& out);
};

/// repr() of macros and loops.
std::string describe_runtime_object(Machine& machine, const Value& value);

class Interpreter final : public Machine {
 public:
  Interpreter(const Program& program, const Budget& budget, std::int64_t now_unix_seconds);

  /// Binds a variable of the outermost context.
  void define(std::string_view name, const Value& value);
  Text render();

  Value call(const Value& callee, const Arguments& arguments) override;

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements (interpreter.cc).
  Flow execute(const Body& body, Scope& scope, TextBuilder& out);
  Flow execute(const Stmt& stmt, Scope& scope, TextBuilder& out);
  void print_block(const Value& value, TextBuilder& out);
  void print_value(const Expr& expr, Scope& scope, TextBuilder& out);
  Flow run_if(const Stmt& stmt, Scope& scope, TextBuilder& out);
  Flow run_for(const Stmt& stmt, Scope& scope, const Value& iterable, std::int64_t depth0, TextBuilder& out);
  Flow run_captured(const Stmt& stmt, Scope& scope, TextBuilder& out);
  Flow run_with(const Stmt& stmt, Scope& scope, TextBuilder& out);
  void run_call_block(const Stmt& stmt, Scope& scope, TextBuilder& out);
  void assign(const Expr& target, const Value& value, Scope& scope);
  void check_namespaces(const Expr& target, Scope& scope);
  Scope& make_scope(Scope& parent);
  Value make_macro(const Stmt& stmt, Scope& scope);
  Value call_macro(const Macro& macro, const Arguments& arguments);

  // Expressions (evaluation.cc).
  Value evaluate(const Expr& node, Scope& scope);
  Value evaluate_deeper(const Expr& node, Scope& scope);
  Value lookup(const Expr& node, Scope& scope);
  Value compare(const Expr& node, Scope& scope);
  Value item_of(const Expr& node, Scope& scope);
  Value dict_of(const Expr& node, Scope& scope);
  Value conditional(const Expr& node, Scope& scope);
  Value filtered(const Expr& node, const Value& value, Scope& scope);
  /// A chain of filters whose innermost has no value of its own but takes what a block captured.
  Value filter_block(const Expr& node, const Value& captured, Scope& scope);
  Arguments arguments_of(const CallArguments& arguments, Scope& scope);
  std::vector<Value> all_of(const std::vector<ExprPtr>& nodes, Scope& scope);

  class Level;

  const Program& program_;
  std::vector<Value> context_;  ///< by name id: globals and what was passed in
  Scope* root_;
  int level_ = 0;
};

}  // namespace pagoda::text::jinja
