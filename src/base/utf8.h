// UTF-8 read strictly: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table 3-7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda {

/// What stands at the beginning of some bytes.
struct Utf8Part {
  enum class Kind { kCharacter, kInvalid, kIncomplete } kind = Kind::kInvalid;
  std::size_t length = 0;  ///< bytes of the character, of the invalid part, or of the beginning that is there
  char32_t character = 0;  ///< of kCharacter
};

/// The first part of `bytes`, which are not empty. An invalid part is as long as bytes could still have begun a
/// character; an incomplete one reaches the end of `bytes`.
Utf8Part read_utf8(std::string_view bytes);

/// Bytes at the front of `bytes` that are valid UTF-8.
std::size_t valid_utf8_length(std::string_view bytes);

inline bool is_utf8(std::string_view bytes) { return valid_utf8_length(bytes) == bytes.size(); }

/// Error, kInvalidArgument: "`what` is no UTF-8: byte 0xff at offset 3". What comes in as text is checked, for a
/// tokenizer may have no token for a byte of what is none.
Status check_utf8(std::string_view text, std::string_view what);

void append_utf8(std::string& out, char32_t character);

}  // namespace pagoda
