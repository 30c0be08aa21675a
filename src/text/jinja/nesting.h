#pragma once

#include "text/jinja/parser.h"

namespace pagoda::text::jinja {

inline constexpr int kMaxParserDepth = 500;  // of its own recursion; about 160 parentheses
inline constexpr int kMaxTreeHeight = 300;   // of an expression

/// One level of the parser's recursion.
class Parser::Nested {
 public:
  explicit Nested(Parser& parser) : parser_(parser) {
    if (++parser.depth_ > kMaxParserDepth) raise_limit("it nests too deeply to be parsed");
  }
  ~Nested() { --parser_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Parser& parser_;
};

}  // namespace pagoda::text::jinja
