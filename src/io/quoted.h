#pragma once

#include <string>
#include <string_view>

namespace pagoda::io {

/// Bytes from a file as they may stand in a message: in quotes, at most 64 of them, everything but printable ASCII as
/// an escape.
std::string quoted(std::string_view bytes);

/// Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view bytes);

/// Whether a control character of ASCII is among the bytes.
bool has_control_characters(std::string_view bytes);

}  // namespace pagoda::io
