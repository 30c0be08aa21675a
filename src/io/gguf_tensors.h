#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/gguf_cursor.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Reads the descriptions of `num_tensors` tensors; their offsets count from the start of the tensor bytes and are
/// multiples of `alignment`.
Result<std::vector<TensorEntry>> read_gguf_tensors(GgufCursor& cursor, std::uint64_t num_tensors,
                                                   std::uint64_t alignment);

/// Checks that all tensors lie inside the file and do not overlap, and makes their offsets count from its start.
Status place_gguf_tensors(const std::string& file, std::uint64_t file_bytes, std::uint64_t data_offset,
                          std::vector<TensorEntry>& tensors);

}  // namespace pagoda::io
