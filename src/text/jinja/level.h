#pragma once

#include "text/jinja/interpreter.h"

namespace pagoda::text::jinja {

inline constexpr int kMaxLevels = 1500;  // of the interpreter's own recursion: what its stack use is bounded by

/// One level of the interpreter's recursion; gives a fault the line where it happened.
class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter.level_ > kMaxLevels) raise_limit("it nests deeper than {} levels", kMaxLevels);
  }
  ~Level() { --interpreter_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace pagoda::text::jinja
