#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/nesting.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

std::unique_ptr<Stmt> make_stmt(StmtKind kind, int line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

/// Sets a value and puts the old one back at the end.
template <class T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), old_(place) { place = value; }
  ~Restore() { place_ = old_; }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};

}  // namespace

int Program::intern(std::string_view name) {
  const auto found = name_ids.find(name);
  if (found != name_ids.end()) return found->second;
  const int id = static_cast<int>(names.size());
  names.emplace_back(name);
  name_ids.emplace(std::string(name), id);
  return id;
}

Value Program::constant(std::string_view text) {
  heap.charge(text.size());
  Text* made = heap.make<Text>();
  made->bytes = text;
  made->chars = count_chars(text);
  if (!text.empty()) made->trusted = {{0, text.size()}};
  return Value(Kind::kString, made);
}

void Parser::parse() {
  program_.body = subparse({});
  if (!unknown_.empty()) raise_at(unknown_[0].line, "{}", unknown_[0].words);
}

bool Parser::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

void Parser::unexpected(std::string_view wanted) {
  if (current().kind == TokenKind::kEnd) {
    raise_at(current().line, "unexpected end of template, expected {}.", string_repr(wanted));
  }
  raise_at(current().line, "expected token {}, got {}", string_repr(wanted), string_repr(current().describe()));
}

Token Parser::expect_op(std::string_view op) {
  if (!current().is_op(op)) unexpected(op);
  return next();
}

Token Parser::expect_name(std::string_view name) {
  if (current().kind != TokenKind::kName || (!name.empty() && current().text != name)) {
    unexpected(name.empty() ? "name" : name);
  }
  return next();
}

Token Parser::expect(TokenKind kind) {
  if (current().kind != kind) unexpected(describe_kind(kind));
  return next();
}

void Parser::fail_tag(const std::string* unknown, int line) {
  std::string words =
      unknown == nullptr ? "Unexpected end of template." : "Encountered unknown tag " + string_repr(*unknown) + ".";
  if (!end_tag_stack_.empty()) {
    std::string looking;
    for (const auto tag : end_tag_stack_.back()) looking += (looking.empty() ? "" : " or ") + string_repr(tag);
    const bool expected =
        unknown != nullptr && std::any_of(end_tag_stack_.begin(), end_tag_stack_.end(), [&](const EndTags& tags) {
          return std::find(tags.begin(), tags.end(), *unknown) != tags.end();
        });
    words += expected
                 ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " +
                       looking + "."
                 : " Jinja was looking for the following tags: " + looking + ".";
  }
  if (!tag_stack_.empty()) {
    words += " The innermost block that needs to be closed is " + string_repr(tag_stack_.back()) + ".";
  }
  raise_at(line, "{}", words);
}

Body Parser::subparse(const EndTags& end_tags) {
  Body body;
  if (!end_tags.empty()) end_tag_stack_.push_back(end_tags);
  const auto output = [&]() -> Stmt& {
    if (body.empty() || body.back()->kind != StmtKind::kOutput || body.back()->name == "print") {
      body.push_back(make_stmt(StmtKind::kOutput, current().line));
    }
    return *body.back();
  };
  while (current().kind != TokenKind::kEnd) {
    if (current().kind == TokenKind::kData) {
      ExprPtr data = make(ExprKind::kConst, current().line);
      data->constant = program_.constant(current().text);
      output().exprs.push_back(std::move(data));
      next();
    } else if (current().kind == TokenKind::kVariableBegin) {
      next();
      output().exprs.push_back(tuple({}));
      expect(TokenKind::kVariableEnd);
    } else {
      expect(TokenKind::kBlockBegin);
      const bool ends = current().kind == TokenKind::kName &&
                        std::find(end_tags.begin(), end_tags.end(), current().text) != end_tags.end();
      if (ends) break;
      body.push_back(statement());
      expect(TokenKind::kBlockEnd);
    }
  }
  if (!end_tags.empty()) end_tag_stack_.pop_back();
  return body;
}

Body Parser::statements(const EndTags& end_tags, bool drop_needle) {
  skip_op(":");
  expect(TokenKind::kBlockEnd);
  Body body = subparse(end_tags);
  if (current().kind == TokenKind::kEnd) {
    end_tag_stack_.push_back(end_tags);
    fail_tag(nullptr, current().line);
  }
  if (drop_needle) next();
  return body;
}

Body Parser::inner_statements(const EndTags& end_tags, bool drop_needle) {
  const Restore hard(soft_, false);
  return statements(end_tags, drop_needle);
}

std::unique_ptr<Stmt> Parser::statement() {
  const Nested nested(*this);
  if (current().kind != TokenKind::kName) raise_at(current().line, "tag name expected");
  using Rule = std::unique_ptr<Stmt> (Parser::*)();
  static constexpr std::array<std::pair<std::string_view, Rule>, 18> kRules = {{
      {"for", &Parser::parse_for},
      {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block},
      {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},
      {"generation", &Parser::parse_generation},
      {"block", &Parser::parse_block},
      {"print", &Parser::parse_print},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
      {"include", &Parser::parse_refused},
      {"import", &Parser::parse_refused},
      {"from", &Parser::parse_refused},
      {"extends", &Parser::parse_refused},
      {"autoescape", &Parser::parse_refused},
      {"", nullptr},
  }};
  const Token token = current();
  const auto* rule =
      std::find_if(kRules.begin(), kRules.end() - 1, [&](const auto& r) { return r.first == token.text; });
  if (rule->second == nullptr) fail_tag(&token.text, token.line);
  tag_stack_.push_back(token.text);
  auto stmt = (this->*rule->second)();
  tag_stack_.pop_back();
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_for() {
  auto stmt = make_stmt(StmtKind::kFor, next().line);
  ++for_depth_;
  stmt->exprs.push_back(assign_target(false, false));
  expect_name("in");
  stmt->exprs.push_back(tuple({.with_cond = false}));
  stmt->exprs.push_back(skip_name("if") ? expression() : nullptr);
  stmt->recursive = skip_name("recursive");
  {
    const Restore inside(loop_depth_, loop_depth_ + 1);
    stmt->bodies.push_back(inner_statements({"endfor", "else"}, false));
  }
  stmt->bodies.emplace_back();
  if (next().text == "else") stmt->bodies.back() = inner_statements({"endfor"});
  --for_depth_;
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_if() {
  const Restore soft(soft_, true);
  auto stmt = make_stmt(StmtKind::kIf, current().line);
  do {
    next();
    stmt->exprs.push_back(tuple({.with_cond = false}));
    stmt->bodies.push_back(statements({"elif", "else", "endif"}, false));
  } while (current().text == "elif");
  if (next().text == "else") stmt->bodies.push_back(statements({"endif"}, true));
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_set() {
  auto stmt = make_stmt(StmtKind::kSet, next().line);
  stmt->exprs.push_back(assign_target(false, true));
  if (skip_op("=")) {
    stmt->exprs.push_back(tuple({}));
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  stmt->exprs.push_back(filter(nullptr, false));
  stmt->bodies.push_back(inner_statements({"endset"}));
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_with() {
  auto stmt = make_stmt(StmtKind::kWith, next().line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->exprs.empty()) expect_op(",");
    stmt->exprs.push_back(assign_target(false, false));
    expect_op("=");
    stmt->exprs.push_back(expression());
  }
  stmt->bodies.push_back(inner_statements({"endwith"}));
  return stmt;
}

void Parser::parse_signature(Stmt& stmt) {
  expect_op("(");
  while (!current().is_op(")")) {
    if (!stmt.parameters.empty()) expect_op(",");
    const ExprPtr target = assign_target(true, false);
    stmt.parameters.emplace_back(target->name_id, target->name);
    if (skip_op("=")) {
      const Restore hard(soft_, false);
      stmt.exprs.push_back(expression());
    } else if (!stmt.exprs.empty()) {
      raise_at(current().line, "non-default argument follows default argument");
    }
  }
  expect_op(")");
}

void Parser::parse_macro_body(Stmt& stmt, std::string_view end_tag) {
  const Restore outside(loop_depth_, 0);
  const std::array<int, 3> names = {program_.intern("caller"), program_.intern("kwargs"), program_.intern("varargs")};
  std::array<bool, 3> known{};
  for (std::size_t i = 0; i < names.size(); ++i) known[i] = program_.loaded.erase(names[i]) != 0;
  stmt.bodies.push_back(inner_statements({end_tag}));
  std::array<bool*, 3> reads = {&stmt.reads_caller, &stmt.reads_kwargs, &stmt.reads_varargs};
  for (std::size_t i = 0; i < names.size(); ++i) {
    *reads[i] = program_.loaded.contains(names[i]);
    if (known[i]) program_.loaded.insert(names[i]);
  }
}

std::unique_ptr<Stmt> Parser::parse_macro() {
  auto stmt = make_stmt(StmtKind::kMacro, next().line);
  const Token name = expect_name();
  stmt->name = name.text;
  stmt->name_id = program_.intern(name.text);
  parse_signature(*stmt);
  parse_macro_body(*stmt, "endmacro");
  const std::size_t undefaulted = stmt->parameters.size() - stmt->exprs.size();
  for (std::size_t i = 0; i < undefaulted; ++i) {
    if (stmt->parameters[i].second == "caller" && stmt->reads_caller) {
      raise_at(
          stmt->line,
          "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a default.");
    }
  }
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
  auto stmt = make_stmt(StmtKind::kCallBlock, next().line);
  if (current().is_op("(")) parse_signature(*stmt);
  stmt->call = expression();
  if (stmt->call->kind != ExprKind::kCall) raise_at(stmt->line, "expected call");
  parse_macro_body(*stmt, "endcall");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
  auto stmt = make_stmt(StmtKind::kFilterBlock, next().line);
  stmt->exprs.push_back(filter(nullptr, true));
  stmt->bodies.push_back(inner_statements({"endfilter"}));
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_generation() {
  auto stmt = make_stmt(StmtKind::kScope, next().line);
  const Restore outside(loop_depth_, 0);
  stmt->bodies.push_back(inner_statements({"endgeneration"}));
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_block() {
  auto stmt = make_stmt(StmtKind::kScope, next().line);
  const Token name = expect_name();
  skip_name("scoped");
  skip_name("required");
  if (current().is_op("-")) {
    raise_at(current().line,
             "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore "
             "instead.");
  }
  if (!block_names_.insert(name.text).second) raise_at(stmt->line, "block {} defined twice", string_repr(name.text));
  const Restore outside(loop_depth_, 0);
  stmt->bodies.push_back(inner_statements({"endblock"}));
  skip_name(name.text);
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_print() {
  auto stmt = make_stmt(StmtKind::kOutput, next().line);
  stmt->name = "print";
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->exprs.empty()) expect_op(",");
    stmt->exprs.push_back(expression());
  }
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_loop_control() {
  const Token token = next();
  if (loop_depth_ == 0) {
    raise_at(token.line, "{}", token.text == "break" ? "'break' outside loop" : "'continue' not properly in loop");
  }
  return make_stmt(token.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, token.line);
}

/// Tags that need other templates, or escaping: parsed as far as their end, refused when they are reached.
std::unique_ptr<Stmt> Parser::parse_refused() {
  const Token tag = next();
  auto stmt = make_stmt(StmtKind::kRefused, tag.line);
  stmt->name = "no loader for this environment specified";
  const ExprPtr subject = expression();
  if (tag.text == "autoescape") {
    stmt->name = "autoescape blocks are not supported in chat templates";
    Body body = inner_statements({"endautoescape"});
    if (subject->kind == ExprKind::kConst && subject->constant.is(Kind::kBool) && !subject->constant.as_bool()) {
      stmt->kind = StmtKind::kScope;
      stmt->bodies.push_back(std::move(body));
    }
    return stmt;
  }
  while (current().kind == TokenKind::kName || current().is_op(",")) next();  // as x, ignore missing, with context
  return stmt;
}

void Parser::check_target(const Expr& target) {
  switch (target.kind) {
    case ExprKind::kNsRef:
      return;
    case ExprKind::kName:
      if (target.name == "loop" && for_depth_ > 0) {
        raise_at(target.line, "Can't assign to special loop variable in for-loop target");
      }
      return;
    case ExprKind::kTuple:
      for (const auto& item : target.items) check_target(*item);
      return;
    default:
      raise_at(target.line, "can't assign to {}",
               string_repr(target.kind == ExprKind::kList   ? "list"
                           : target.kind == ExprKind::kDict ? "dict"
                                                            : "const"));
  }
}

ExprPtr Parser::assign_target(bool name_only, bool with_namespace) {
  if (name_only) return make_name(expect_name());
  const std::set<int> loaded = program_.loaded;  // the names of a target are not read
  ExprPtr target = tuple({.simplified = true, .with_namespace = with_namespace});
  program_.loaded = loaded;
  check_target(*target);
  return target;
}

}  // namespace pagoda::text::jinja
