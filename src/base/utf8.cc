#include "base/utf8.h"

#include <cstring>

namespace pagoda {
namespace {

/// What may follow a first byte: the number of bytes in all and the limits of the second one.
struct Lead {
  std::size_t length = 0;  // 0: no first byte
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte == 0xE0) return {.length = 3, .low = 0xA0};
  if (byte == 0xED) return {.length = 3, .high = 0x9F};
  if (byte < 0xF0) return {.length = 3};
  if (byte == 0xF0) return {.length = 4, .low = 0x90};
  if (byte < 0xF4) return {.length = 4};
  if (byte == 0xF4) return {.length = 4, .high = 0x8F};
  return {};
}

}  // namespace

Utf8Part read_utf8(std::string_view bytes) {
  using Kind = Utf8Part::Kind;
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {Kind::kCharacter, 1, first};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {Kind::kInvalid, 1};
  char32_t character = first & (0x7Fu >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return {Kind::kInvalid, i};
    character = character << 6 | (byte & 0x3Fu);
  }
  return {Kind::kCharacter, lead.length, character};
}

std::size_t valid_utf8_length(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    std::uint64_t word = 0;
    if (bytes.size() - at >= 8) {
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Part part = read_utf8(bytes.substr(at));
    if (part.kind != Utf8Part::Kind::kCharacter) return at;
    at += part.length;
  }
  return at;
}

Status check_utf8(std::string_view text, std::string_view what) {
  const std::size_t valid = valid_utf8_length(text);
  if (valid == text.size()) return Ok{};
  return fail(ErrorCode::kInvalidArgument, "{} is no UTF-8: byte 0x{:02x} at offset {}", what,
              static_cast<unsigned>(static_cast<unsigned char>(text[valid])), valid);
}

void append_utf8(std::string& out, char32_t character) {
  if (character < 0x80) {
    out += static_cast<char>(character);
    return;
  }
  const int tail = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  const unsigned first = tail == 1 ? 0xC0u : tail == 2 ? 0xE0u : 0xF0u;
  out += static_cast<char>(first | (character >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80u | ((character >> (6 * i)) & 0x3Fu));
}

}  // namespace pagoda
