#pragma once

#include <vector>

#include "base/result.h"
#include "io/gguf.h"
#include "io/gguf_cursor.h"
#include "io/raw_config.h"

namespace pagoda::io {

/// Reads `num_keys` keys with their values into `config`; returns where each value lies.
Result<std::vector<GgufKeyRange>> read_gguf_metadata(GgufCursor& cursor, std::uint64_t num_keys, RawConfig& config);

}  // namespace pagoda::io
