// Result<T> with the two ways to use it inside the engine: make an error, hand an error up.
#pragma once

#include "base/format.h"
#include "pagoda/types.h"

namespace pagoda {

/// An error whose sentence is formatted: `return fail(ErrorCode::kConfigRange, "{}: ...", path)`.
template <class... Args>
Error fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return Error{.code = code, .message = format_packed(text, fmt::make_format_args(args...)), .param = {}};
}

/// The same for a fault of one argument or request field.
template <class... Args>
Error fail_param(ErrorCode code, std::string param, fmt::format_string<Args...> text, Args&&... args) {
  return Error{.code = code, .message = format_packed(text, fmt::make_format_args(args...)), .param = std::move(param)};
}

}  // namespace pagoda

/// The value of a Result expression; if it holds an error, the enclosing function returns that error.
#define PAGODA_TRY(...)                            \
  __extension__({                                  \
    auto pagoda_try_result = (__VA_ARGS__);        \
    if (!pagoda_try_result.ok()) {                 \
      return std::move(pagoda_try_result).error(); \
    }                                              \
    std::move(pagoda_try_result).value();          \
  })
