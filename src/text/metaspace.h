#pragma once

#include <string>
#include <string_view>

namespace pagoda::text {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  ///< U+2581 "▁", which stands for a space in some vocabularies

/// The text with "▁" for each space.
inline std::string escape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      out += kMetaspace;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace pagoda::text
