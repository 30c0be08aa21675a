#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "text/jinja/printing.h"
#include "text/jinja/unescape.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

/// One kind of line end, and none at the very end of the template.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view describe_kind(TokenKind kind) {
  switch (kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kName:
      return "name";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kOperator:
      return "operator";
    case TokenKind::kEnd:
      return "end of template";
  }
  return "";
}

std::string Token::describe() const {
  return kind == TokenKind::kName || kind == TokenKind::kOperator ? text : std::string(describe_kind(kind));
}

Lexer::Lexer(std::string_view source) : source_(normalised(source)) {}

const Token& Lexer::peek(std::size_t ahead) {
  while (ready_.size() <= ahead) {
    if (!ready_.empty() && ready_.back().kind == TokenKind::kEnd) return ready_.back();
    produce();
  }
  return ready_[ahead];
}

Token Lexer::next() {
  Token token = peek(0);
  if (token.kind != TokenKind::kEnd) ready_.pop_front();
  return token;
}

void Lexer::produce() {
  if (at_ >= source_.size()) {
    push(TokenKind::kEnd, "");
  } else if (state_ == State::kRoot) {
    root();
  } else {
    tag();
  }
}

void Lexer::push(TokenKind kind, std::string text) {
  ready_.push_back({.kind = kind, .line = line_, .text = std::move(text), .integer = 0, .real = 0});
}

void Lexer::advance(std::size_t to) {
  line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                       source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  if (to > at_) line_starting_ = source_[to - 1] == '\n';
  at_ = to;
}

std::size_t Lexer::skip_space(std::size_t at) const {
  while (at < source_.size()) {
    std::size_t next = at;
    if (!is_space(next_char(source_, next))) break;
    at = next;
  }
  return at;
}

void Lexer::data(std::size_t begin, std::size_t end, char sign, bool lstrip) {
  std::size_t kept = end;
  const auto back_over_space = [&](std::size_t stop) {
    std::size_t at = end;
    while (at > stop) {
      std::size_t previous = at;
      if (!is_space(previous_char(source_, previous))) break;
      at = previous;
    }
    return at;
  };
  if (sign == '-') {
    kept = back_over_space(begin);
  } else if (sign != '+' && lstrip) {
    const std::size_t newline = end == begin ? std::string::npos : source_.rfind('\n', end - 1);
    const bool inside = newline != std::string::npos && newline >= begin;
    const std::size_t line_begin = inside ? newline + 1 : begin;
    if ((inside || line_starting_) && back_over_space(line_begin) == line_begin) kept = line_begin;
  }
  if (kept > begin) push(TokenKind::kData, source_.substr(begin, kept - begin));
}

void Lexer::root() {
  std::size_t open = at_;
  while ((open = source_.find('{', open)) != std::string::npos) {
    const char kind = open + 1 < source_.size() ? source_[open + 1] : '\0';
    if (kind == '{' || kind == '%' || kind == '#') break;
    ++open;
  }
  if (open == std::string::npos) {
    push(TokenKind::kData, source_.substr(at_));
    return advance(source_.size());
  }
  const char kind = source_[open + 1];
  std::size_t after = open + 2;
  const char sign =
      after < source_.size() && (source_[after] == '-' || source_[after] == '+') ? source_[after++] : '\0';
  data(at_, open, sign, kind != '{');
  advance(open);
  if (kind == '#') return comment(after);
  if (kind == '%') {
    const std::size_t word = skip_space(after);
    if (source_.compare(word, 3, "raw") == 0) {
      const std::size_t close = skip_space(word + 3);
      if (source_.compare(close, 3, "-%}") == 0) return raw_block(skip_space(close + 3));
      if (source_.compare(close, 2, "%}") == 0) return raw_block(close + 2);
    }
  }
  push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
  state_ = kind == '%' ? State::kBlock : State::kVariable;
  advance(after);
}

void Lexer::comment(std::size_t body) {
  advance(body);
  std::size_t end = source_.find("#}", at_);
  if (end == std::string::npos) {
    if (at_ >= source_.size()) return;  // jinja2 lets a template end right behind the opening
    raise_at(line_, "Missing end of comment tag");
  }
  const char sign = end > at_ ? source_[end - 1] : '\0';
  end += 2;
  if (sign == '-') end = skip_space(end);
  if (sign != '-' && sign != '+' && end < source_.size() && source_[end] == '\n') ++end;
  advance(end);
}

void Lexer::raw_block(std::size_t body) {
  advance(body);
  for (std::size_t open = at_; (open = source_.find("{%", open)) != std::string::npos; ++open) {
    std::size_t after = open + 2;
    const char sign =
        after < source_.size() && (source_[after] == '-' || source_[after] == '+') ? source_[after++] : '\0';
    after = skip_space(after);
    if (source_.compare(after, 6, "endraw") != 0) continue;
    after = skip_space(after + 6);
    const char mark = after < source_.size() ? source_[after] : '\0';
    if (mark == '-' || mark == '+') ++after;
    if (source_.compare(after, 2, "%}") != 0) continue;
    after += 2;
    if (mark == '-') after = skip_space(after);
    if (mark == '%' && after < source_.size() && source_[after] == '\n') ++after;
    data(at_, open, sign, true);
    return advance(after);
  }
  if (at_ >= source_.size()) return;
  raise_at(line_, "Missing end of raw directive");
}

bool Lexer::tag_end() {
  if (!open_.empty()) return false;
  const bool block = state_ == State::kBlock;
  const std::string_view close = block ? "%}" : "}}";
  std::size_t end = at_;
  const char mark = source_[at_];
  if (mark == '-' || (mark == '+' && block)) ++end;
  if (source_.compare(end, 2, close) != 0) return false;
  end += 2;
  if (mark == '-') end = skip_space(end);
  if (block && mark == '%' && end < source_.size() && source_[end] == '\n') ++end;
  push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
  state_ = State::kRoot;
  advance(end);
  return true;
}

void Lexer::tag() {
  if (tag_end()) return;
  const std::size_t behind_space = skip_space(at_);
  if (behind_space > at_) return advance(behind_space);
  const char c = source_[at_];
  if (is_digit_char(c)) return number();
  std::size_t pos = at_;
  const char32_t wide = next_char(source_, pos);
  if (wide == '_' || is_alnum(wide)) return name();
  if (c == '\'' || c == '"') return string();
  op();
}

void Lexer::number() {
  const std::string_view rest = std::string_view(source_).substr(at_);
  const auto at = [&](std::size_t i) { return i < rest.size() ? rest[i] : '\0'; };
  const auto digits = [&](std::size_t i, auto accept) {  // behind a run with single underscores inside
    while (accept(at(i)) || (at(i) == '_' && accept(at(i + 1)))) ++i;
    return i;
  };
  const std::size_t whole = digits(0, is_digit_char);
  std::size_t end = whole;
  bool real = false;
  if (at_ == 0 || source_[at_ - 1] != '.') {
    if (at(end) == '.' && is_digit_char(at(end + 1))) {
      end = digits(end + 1, is_digit_char);
      real = true;
    }
    const std::size_t sign = (at(end + 1) == '+' || at(end + 1) == '-') ? 1 : 0;
    if ((at(end) | 0x20) == 'e' && is_digit_char(at(end + 1 + sign))) {
      end = digits(end + 1 + sign, is_digit_char);
      real = true;
    }
  }
  int base = 10;
  std::size_t begin = 0;
  if (!real) {
    const char letter = static_cast<char>(at(1) | 0x20);
    const int prefixed = at(0) != '0' ? 10 : letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 10;
    const auto accept = [&](char c) {
      const int value = is_digit_char(c)                         ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : 99;
      return value < prefixed;
    };
    if (prefixed != 10 && (accept(at(2)) || (at(2) == '_' && accept(at(3))))) {
      base = prefixed;
      begin = 2;
      end = digits(2, accept);
    } else if (at(0) == '0') {
      end = digits(0, [](char c) { return c == '0'; });
    }
  }
  std::string text(rest.substr(begin, end - begin));
  std::erase(text, '_');
  push(real ? TokenKind::kFloat : TokenKind::kInteger, text);
  Token& token = ready_.back();
  if (real) {
    token.real = std::strtod(text.c_str(), nullptr);
  } else if (std::from_chars(text.data(), text.data() + text.size(), token.integer, base).ec != std::errc()) {
    throw Fault{.code = ErrorCode::kTemplateLimit, .words = "it contains an integer beyond 64 bits", .line = line_};
  }
  advance(at_ + end);
}

void Lexer::name() {
  std::size_t end = at_;
  while (end < source_.size()) {
    std::size_t next = end;
    const char32_t c = next_char(source_, next);
    if (c != '_' && !is_alnum(c)) break;
    end = next;
  }
  push(TokenKind::kName, source_.substr(at_, end - at_));
  advance(end);
}

void Lexer::string() {
  const char quote = source_[at_];
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return op();  // no end: jinja2 stumbles over the quote itself
  push(TokenKind::kString, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
  advance(end + 1);
}

void Lexer::op() {
  for (const std::string_view candidate : kOperators) {
    if (!have(candidate)) continue;
    balance(candidate);
    push(TokenKind::kOperator, std::string(candidate));
    return advance(at_ + candidate.size());
  }
  std::size_t end = at_;
  next_char(source_, end);
  raise_at(line_, "unexpected char {} at {}", string_repr(std::string_view(source_).substr(at_, end - at_)),
           count_chars(std::string_view(source_).substr(0, at_)));
}

void Lexer::balance(std::string_view op) {
  constexpr std::string_view kOpen = "([{";
  constexpr std::string_view kClose = ")]}";
  if (op.size() != 1) return;
  if (const std::size_t kind = kOpen.find(op[0]); kind != std::string_view::npos) {
    open_.push_back(kClose[kind]);
  } else if (kClose.find(op[0]) != std::string_view::npos) {
    if (open_.empty()) raise_at(line_, "unexpected '{}'", op);
    const char expected = open_.back();
    open_.pop_back();
    if (op[0] != expected) raise_at(line_, "unexpected '{}', expected '{}'", op, expected);
  }
}

}  // namespace pagoda::text::jinja
