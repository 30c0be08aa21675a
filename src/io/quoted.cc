#include "io/quoted.h"

#include <algorithm>
#include <cstdint>

#include "base/format.h"

namespace pagoda::io {

std::string quoted(std::string_view bytes) {
  constexpr std::size_t kMaxBytes = 64;
  std::string text = "'";
  for (const char byte : bytes.substr(0, kMaxBytes)) {
    const auto code = static_cast<std::uint8_t>(byte);
    if (code < 0x20 || code > 0x7e) {
      text += pagoda::format("\\x{:02x}", code);
    } else {
      if (byte == '\'' || byte == '\\') text += '\\';
      text += byte;
    }
  }
  text += bytes.size() > kMaxBytes ? pagoda::format("' and {} more bytes", bytes.size() - kMaxBytes) : "'";
  return text;
}

bool is_utf8(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto lead = static_cast<std::uint8_t>(bytes[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || bytes.size() - at < length) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if ((static_cast<std::uint8_t>(bytes[at + i]) & 0xc0) != 0x80) return false;
    }
    const auto second = static_cast<std::uint8_t>(bytes[at + 1]);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    if (overlong || beyond) return false;
    at += length;
  }
  return true;
}

bool has_control_characters(std::string_view bytes) {
  return std::ranges::any_of(bytes, [](char byte) { return static_cast<std::uint8_t>(byte) < 0x20 || byte == 0x7f; });
}

}  // namespace pagoda::io
