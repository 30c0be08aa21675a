// The expression half of the parser: one function a level of precedence.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/nesting.h"
#include "text/jinja/parser.h"
#include "text/jinja/printing.h"

namespace pagoda::text::jinja {

ExprPtr Parser::make(ExprKind kind, int line, std::vector<ExprPtr> items) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  for (const auto& item : items) {
    if (item) node->height = std::max(node->height, item->height + 1);
  }
  node->items = std::move(items);
  if (node->height > kMaxTreeHeight) {
    throw Fault{.code = ErrorCode::kTemplateLimit, .words = "an expression nests too deeply", .line = line};
  }
  return node;
}

namespace {

std::vector<ExprPtr> nodes(ExprPtr a, ExprPtr b = nullptr, bool two = false) {
  std::vector<ExprPtr> out;
  out.push_back(std::move(a));
  if (two || b) out.push_back(std::move(b));
  return out;
}

}  // namespace

ExprPtr Parser::make_name(const Token& token) {
  ExprPtr node = make(ExprKind::kName, token.line);
  node->name = token.text;
  node->name_id = program_.intern(token.text);
  return node;
}

ExprPtr Parser::join_binary(ExprKind kind, std::string_view op, ExprPtr left, ExprPtr right) {
  const int line = left->line;
  ExprPtr node = make(kind, line, nodes(std::move(left), std::move(right)));
  if (kind == ExprKind::kBinary) node->ops.push_back(op);
  return node;
}

ExprPtr Parser::expression(bool with_cond) { return with_cond ? condition() : disjunction(); }

ExprPtr Parser::condition() {
  const Nested nested(*this);
  const std::size_t unknown_before = unknown_.size();
  const int line = current().line;
  ExprPtr node = disjunction();
  while (skip_name("if")) {
    std::vector<ExprPtr> items;
    items.push_back(disjunction());
    items.push_back(std::move(node));
    items.push_back(skip_name("else") ? condition() : nullptr);
    node = make(ExprKind::kCond, line, std::move(items));
    unknown_.resize(unknown_before);  // in here an unknown filter is an error only when it is reached
  }
  return node;
}

ExprPtr Parser::disjunction() {
  ExprPtr left = conjunction();
  while (skip_name("or")) left = join_binary(ExprKind::kOr, "", std::move(left), conjunction());
  return left;
}

ExprPtr Parser::conjunction() {
  ExprPtr left = negation();
  while (skip_name("and")) left = join_binary(ExprKind::kAnd, "", std::move(left), negation());
  return left;
}

ExprPtr Parser::negation() {
  const Nested nested(*this);
  if (!current().is_name("not")) return comparison();
  const int line = next().line;
  return make(ExprKind::kNot, line, nodes(negation()));
}

ExprPtr Parser::comparison() {
  static constexpr std::string_view kOps[] = {"==", "!=", "<", "<=", ">", ">="};
  const int line = current().line;
  std::vector<ExprPtr> items;
  std::vector<std::string_view> ops;
  items.push_back(sum());
  while (true) {
    const auto* op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](std::string_view o) { return current().is_op(o); });
    if (op != std::end(kOps)) {
      next();
      ops.push_back(*op);
    } else if (skip_name("in")) {
      ops.push_back("in");
    } else if (current().is_name("not") && lexer_.look().is_name("in")) {
      next();
      next();
      ops.push_back("not in");
    } else {
      break;
    }
    items.push_back(sum());
  }
  if (ops.empty()) return std::move(items[0]);
  ExprPtr node = make(ExprKind::kCompare, line, std::move(items));
  node->ops = std::move(ops);
  return node;
}

ExprPtr Parser::sum() {
  ExprPtr left = concat();
  while (current().is_op("+") || current().is_op("-")) {
    const std::string_view op = next().text == "+" ? "+" : "-";
    left = join_binary(ExprKind::kBinary, op, std::move(left), concat());
  }
  return left;
}

ExprPtr Parser::concat() {
  const int line = current().line;
  std::vector<ExprPtr> items;
  items.push_back(product());
  while (skip_op("~")) items.push_back(product());
  return items.size() == 1 ? std::move(items[0]) : make(ExprKind::kConcat, line, std::move(items));
}

ExprPtr Parser::product() {
  static constexpr std::string_view kOps[] = {"*", "/", "//", "%"};
  ExprPtr left = power();
  while (true) {
    const auto* op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](std::string_view o) { return current().is_op(o); });
    if (op == std::end(kOps)) return left;
    next();
    left = join_binary(ExprKind::kBinary, *op, std::move(left), power());
  }
}

ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (skip_op("**")) left = join_binary(ExprKind::kBinary, "**", std::move(left), unary());
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const Nested nested(*this);
  ExprPtr node;
  if (current().is_op("-") || current().is_op("+")) {
    const Token sign = next();
    node = make(sign.text == "-" ? ExprKind::kNeg : ExprKind::kPos, sign.line, nodes(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filter_chain(std::move(node)) : std::move(node);
}

ExprPtr Parser::primary(bool with_namespace) {
  const Token token = current();
  ExprPtr node = make(ExprKind::kConst, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      next();
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        node->constant = Value::boolean(token.text[0] == 't' || token.text[0] == 'T');
        return node;
      }
      if (token.text == "none" || token.text == "None") {
        node->constant = Value::none();
        return node;
      }
      node = make_name(token);
      program_.loaded.insert(node->name_id);
      if (with_namespace && skip_op(".")) {
        node->kind = ExprKind::kNsRef;
        node->attribute = expect_name().text;
      }
      return node;
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += next().text;
      node->constant = program_.constant(text);
      return node;
    }
    case TokenKind::kInteger:
      node->constant = Value::integer(next().integer);
      return node;
    case TokenKind::kFloat:
      node->constant = Value::real(next().real);
      return node;
    default:
      break;
  }
  if (token.is_op("(")) {
    next();
    node = tuple({.parentheses = true});
    expect_op(")");
    return node;
  }
  if (token.is_op("[")) return list_display();
  if (token.is_op("{")) return dict_display();
  raise_at(token.line, "unexpected {}", string_repr(token.describe()));
}

ExprPtr Parser::tuple(const TupleRules& rules) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    const Token& token = current();
    if (token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd || token.is_op(")")) {
      break;
    }
    items.push_back(rules.simplified ? primary(rules.with_namespace) : expression(rules.with_cond));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.parentheses) {
      raise_at(current().line, "Expected an expression, got {}", string_repr(current().describe()));
    }
  }
  return make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr Parser::list_display() {
  const int line = next().line;
  std::vector<ExprPtr> items;
  while (!current().is_op("]")) {
    if (!items.empty()) expect_op(",");
    if (current().is_op("]")) break;
    items.push_back(expression());
  }
  expect_op("]");
  return make(ExprKind::kList, line, std::move(items));
}

ExprPtr Parser::dict_display() {
  const int line = next().line;
  std::vector<ExprPtr> items;
  while (!current().is_op("}")) {
    if (!items.empty()) expect_op(",");
    if (current().is_op("}")) break;
    items.push_back(expression());
    expect_op(":");
    items.push_back(expression());
  }
  expect_op("}");
  return make(ExprKind::kDict, line, std::move(items));
}

ExprPtr Parser::postfix(ExprPtr node) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) {
      node = subscript(std::move(node));
    } else if (current().is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::filter_chain(ExprPtr node) {
  while (true) {
    if (current().is_op("|")) {
      node = filter(std::move(node), false);
    } else if (current().is_name("is")) {
      node = test(std::move(node));
    } else if (current().is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr node) {
  const Token token = next();
  if (token.text == ".") {
    const Token attribute = next();
    if (attribute.kind == TokenKind::kName) {
      ExprPtr out = make(ExprKind::kGetattr, token.line, nodes(std::move(node)));
      out->name = attribute.text;
      return out;
    }
    if (attribute.kind != TokenKind::kInteger) raise_at(attribute.line, "expected name or number");
    ExprPtr key = make(ExprKind::kConst, attribute.line);
    key->constant = Value::integer(attribute.integer);
    return make(ExprKind::kGetitem, token.line, nodes(std::move(node), std::move(key)));
  }
  std::vector<ExprPtr> keys;
  while (!current().is_op("]")) {
    if (!keys.empty()) expect_op(",");
    keys.push_back(subscribed());
  }
  expect_op("]");
  ExprPtr key = keys.size() == 1 ? std::move(keys[0]) : make(ExprKind::kTuple, token.line, std::move(keys));
  for (const auto& part : key->items) {
    if (key->kind == ExprKind::kTuple && part->kind == ExprKind::kSlice) raise_at(token.line, "invalid syntax");
  }
  return make(ExprKind::kGetitem, token.line, nodes(std::move(node), std::move(key)));
}

ExprPtr Parser::subscribed() {
  const int line = current().line;
  const auto ends = [&] { return current().is_op("]") || current().is_op(","); };
  std::vector<ExprPtr> parts;
  if (!current().is_op(":")) {
    ExprPtr node = expression();
    if (!current().is_op(":")) return node;
    parts.push_back(std::move(node));
  } else {
    parts.push_back(nullptr);
  }
  next();
  parts.push_back(current().is_op(":") || ends() ? nullptr : expression());
  parts.push_back(skip_op(":") && !ends() ? expression() : nullptr);
  return make(ExprKind::kSlice, line, std::move(parts));
}

CallArguments Parser::call_arguments() {
  const int line = expect_op("(").line;
  CallArguments out;
  const auto ensure = [&](bool valid) {
    if (!valid) raise_at(line, "invalid syntax for function call expression");
  };
  bool first = true;
  while (!current().is_op(")")) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    first = false;
    if (skip_op("*")) {
      ensure(!out.spread && !out.named_spread);
      out.spread = expression();
    } else if (skip_op("**")) {
      ensure(!out.named_spread);
      out.named_spread = expression();
    } else if (current().kind == TokenKind::kName && lexer_.look().is_op("=")) {
      ensure(!out.named_spread);
      const std::string name = next().text;
      next();
      for (const auto& [other, value] : out.named) {
        if (other == name) raise_at(line, "keyword argument repeated: {}", name);
      }
      out.named.emplace_back(name, expression());
    } else {
      ensure(!out.spread && !out.named_spread && out.named.empty());
      out.positional.push_back(expression());
    }
  }
  expect_op(")");
  return out;
}

void Parser::note_arguments(Expr& node, CallArguments arguments) {
  const auto note = [&](const ExprPtr& argument) {
    if (argument) node.height = std::max(node.height, argument->height + 1);
  };
  for (const auto& argument : arguments.positional) note(argument);
  for (const auto& [name, argument] : arguments.named) note(argument);
  note(arguments.spread);
  note(arguments.named_spread);
  if (node.height > kMaxTreeHeight) {
    throw Fault{.code = ErrorCode::kTemplateLimit, .words = "an expression nests too deeply", .line = node.line};
  }
  node.arguments = std::move(arguments);
}

ExprPtr Parser::call(ExprPtr node) {
  ExprPtr out = make(ExprKind::kCall, current().line, nodes(std::move(node)));
  note_arguments(*out, call_arguments());
  return out;
}

ExprPtr Parser::filter(ExprPtr node, bool start_inline) {
  while (current().is_op("|") || start_inline) {
    if (!start_inline) next();
    start_inline = false;
    const Token token = expect_name();
    ExprPtr out = make(ExprKind::kFilter, token.line, nodes(std::move(node)));
    out->name = token.text;
    while (skip_op(".")) out->name += "." + expect_name().text;
    if (current().is_op("(")) note_arguments(*out, call_arguments());
    out->builtin = find_filter(out->name);
    if (out->builtin == nullptr && !soft_) {
      unknown_.push_back({pagoda::format("No filter named {}.", string_repr(out->name)), token.line});
    }
    node = std::move(out);
  }
  return node;
}

ExprPtr Parser::test(ExprPtr node) {
  const int line = next().line;
  const bool negated = skip_name("not");
  ExprPtr out = make(ExprKind::kTest, line, nodes(std::move(node)));
  out->name = expect_name().text;
  while (skip_op(".")) out->name += "." + expect_name().text;
  const Token token = current();
  const bool starts_value = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                            token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat || token.is_op("[") ||
                            token.is_op("{");
  if (token.is_op("(")) {
    note_arguments(*out, call_arguments());
  } else if (starts_value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) raise_at(token.line, "You cannot chain multiple tests with is");
    CallArguments arguments;
    arguments.positional.push_back(postfix(primary()));
    note_arguments(*out, std::move(arguments));
  }
  out->builtin = find_test(out->name);
  if (out->builtin == nullptr && !soft_) {
    unknown_.push_back({pagoda::format("No test named {}.", string_repr(out->name)), line});
  }
  if (!negated) return out;
  return make(ExprKind::kNot, line, nodes(std::move(out)));
}

}  // namespace pagoda::text::jinja
