#pragma once

#include <fmt/core.h>

#include <string>

namespace pagoda {

std::string format_packed(fmt::string_view text, fmt::format_args args);

/// Formats as `fmt::format` does; the library itself is compiled once, in format.cc.
template <class... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return format_packed(text, fmt::make_format_args(args...));
}

}  // namespace pagoda
