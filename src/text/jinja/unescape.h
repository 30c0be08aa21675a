#pragma once

#include <string>
#include <string_view>

namespace pagoda::text::jinja {

/// A string literal's text without its quotes, escapes resolved as in a Python literal; `line` is for errors.
std::string unescaped(std::string_view literal, int line);

}  // namespace pagoda::text::jinja
