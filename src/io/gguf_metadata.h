#pragma once

#include "base/result.h"
#include "io/gguf_cursor.h"
#include "io/raw_config.h"

namespace pagoda::io {

/// Reads `num_keys` keys with their values into `config`.
Status read_gguf_metadata(GgufCursor& cursor, std::uint64_t num_keys, RawConfig& config);

}  // namespace pagoda::io
