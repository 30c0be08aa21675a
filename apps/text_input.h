// Texts for a model, from files and standard input.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace pagoda::apps {

/// The whole of a file, or of standard input if `path` is "-", which must be UTF-8: a byte that is none may have no
/// token. Errors: those of read_text; kInvalidArgument with the place of such a byte.
Result<std::string> read_utf8(const std::string& path, std::uint64_t max_bytes);

}  // namespace pagoda::apps
