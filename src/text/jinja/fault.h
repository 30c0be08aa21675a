// How the template engine reports a fault from deep inside a rendering: an exception of its own, turned into an Error
// at the two doors (ChatTemplate::parse and ::render) and never seen outside.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace pagoda::text::jinja {

struct Fault {
  ErrorCode code = ErrorCode::kTemplateFailed;
  std::string words;  ///< what jinja2 or Python would say
  int line = 0;       ///< of the template; 0 if unknown yet
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> text, Args&&... args) {
  throw Fault{.words = format_packed(text, fmt::make_format_args(args...))};
}

template <class... Args>
[[noreturn]] void raise_at(int line, fmt::format_string<Args...> text, Args&&... args) {
  throw Fault{.words = format_packed(text, fmt::make_format_args(args...)), .line = line};
}

template <class... Args>
[[noreturn]] void raise_limit(fmt::format_string<Args...> text, Args&&... args) {
  throw Fault{.code = ErrorCode::kTemplateLimit, .words = format_packed(text, fmt::make_format_args(args...))};
}

}  // namespace pagoda::text::jinja
