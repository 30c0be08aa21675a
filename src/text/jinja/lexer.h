// Tokens of a template, made one after the other as the parser asks, with jinja2's rules for whitespace
// (trim_blocks and lstrip_blocks on) and its words for errors.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/fault.h"

namespace pagoda::text::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  ///< of data, names, strings (unescaped) and operators
  std::int64_t integer = 0;
  double real = 0;

  bool is(TokenKind wanted, std::string_view value) const { return kind == wanted && text == value; }
  bool is_op(std::string_view value) const { return is(TokenKind::kOperator, value); }
  bool is_name(std::string_view value) const { return is(TokenKind::kName, value); }
  /// As jinja2's messages call it.
  std::string describe() const;
};

std::string_view describe_kind(TokenKind kind);

class Lexer {
 public:
  explicit Lexer(std::string_view source);

  const Token& current() { return peek(0); }
  const Token& look() { return peek(1); }
  Token next();

 private:
  enum class State : std::uint8_t { kRoot, kBlock, kVariable };

  const Token& peek(std::size_t ahead);
  void produce();
  void root();
  void raw_block(std::size_t body);
  void comment(std::size_t body);
  void tag();
  bool tag_end();
  void number();
  void name();
  void string();
  void op();
  void balance(std::string_view op);
  /// Data before a tag with its whitespace control; `lstrip` for tags that take their line's blanks with them.
  void data(std::size_t begin, std::size_t end, char sign, bool lstrip);
  void push(TokenKind kind, std::string text);
  void advance(std::size_t to);
  std::size_t skip_space(std::size_t at) const;
  bool have(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  State state_ = State::kRoot;
  std::vector<char> open_;
  std::deque<Token> ready_;
};

}  // namespace pagoda::text::jinja
