#pragma once

#include "base/format.h"

namespace pagoda {

/// Prints the failed condition with its values and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

}  // namespace pagoda

/// Our own fault, in every build: `PAGODA_CHECK(rows > 0, "rows {}", rows)` aborts with the values.
#define PAGODA_CHECK(condition, ...)                                                            \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      ::pagoda::check_failed(__FILE__, __LINE__, #condition, ::pagoda::format("" __VA_ARGS__)); \
    }                                                                                           \
  } while (false)
