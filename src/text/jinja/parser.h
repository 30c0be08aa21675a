// From tokens to a Program, with jinja2's grammar, its quirks and its words for errors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace pagoda::text::jinja {

class Parser {
 public:
  explicit Parser(Program& program) : program_(program), lexer_(program.source) {}

  /// Fills the program's body; throws a Fault.
  void parse();

 private:
  // What ends a list of statements, as jinja2 names it in errors.
  using EndTags = std::vector<std::string_view>;

  // Statements (parser.cc).
  Body subparse(const EndTags& end_tags);
  Body statements(const EndTags& end_tags, bool drop_needle);
  std::unique_ptr<Stmt> statement();
  std::unique_ptr<Stmt> parse_for();
  std::unique_ptr<Stmt> parse_if();
  std::unique_ptr<Stmt> parse_set();
  std::unique_ptr<Stmt> parse_with();
  std::unique_ptr<Stmt> parse_macro();
  std::unique_ptr<Stmt> parse_call_block();
  std::unique_ptr<Stmt> parse_filter_block();
  std::unique_ptr<Stmt> parse_generation();
  std::unique_ptr<Stmt> parse_block();
  std::unique_ptr<Stmt> parse_print();
  std::unique_ptr<Stmt> parse_loop_control();
  std::unique_ptr<Stmt> parse_refused();
  void parse_signature(Stmt& stmt);
  void parse_macro_body(Stmt& stmt, std::string_view end_tag);
  Body inner_statements(const EndTags& end_tags, bool drop_needle = true);
  ExprPtr assign_target(bool name_only, bool with_namespace);
  void check_target(const Expr& target);
  [[noreturn]] void fail_tag(const std::string* unknown, int line);

  // Expressions (parser_expressions.cc).
  ExprPtr expression(bool with_cond = true);
  ExprPtr condition();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary(bool with_namespace = false);
  struct TupleRules {
    bool simplified = false;
    bool with_cond = true;
    bool parentheses = false;
    bool with_namespace = false;
  };
  ExprPtr tuple(const TupleRules& rules);
  ExprPtr list_display();
  ExprPtr dict_display();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filter_chain(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscribed();
  ExprPtr filter(ExprPtr node, bool start_inline);
  ExprPtr test(ExprPtr node);
  ExprPtr call(ExprPtr node);
  CallArguments call_arguments();
  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> items = {});
  ExprPtr make_name(const Token& token);
  ExprPtr join_binary(ExprKind kind, std::string_view op, ExprPtr left, ExprPtr right);
  void note_arguments(Expr& node, CallArguments arguments);

  // Tokens.
  const Token& current() { return lexer_.current(); }
  Token next() { return lexer_.next(); }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Token expect_op(std::string_view op);
  Token expect_name(std::string_view name = {});
  Token expect(TokenKind kind);
  [[noreturn]] void unexpected(std::string_view wanted);

  class Nested;

  Program& program_;
  Lexer lexer_;
  std::vector<std::string> tag_stack_;
  std::vector<EndTags> end_tag_stack_;
  int depth_ = 0;
  bool soft_ = false;   ///< inside if or a conditional expression unknown filters are errors only when reached
  int for_depth_ = 0;   ///< enclosing for statements, macros or not
  int loop_depth_ = 0;  ///< enclosing loops that break and continue may act on
  struct Unknown {
    std::string words;
    int line;
  };
  std::vector<Unknown> unknown_;  ///< filters and tests without a definition, outside soft places
  std::set<std::string, std::less<>> block_names_;
};

}  // namespace pagoda::text::jinja
