#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Reads the table of a safetensors file of which `data_bytes` follow the header; offsets count from its end, and
/// ranges lie inside those bytes.
struct SafetensorsTable {
  std::vector<TensorEntry> entries;
};

Result<SafetensorsTable> read_safetensors_table(std::string_view header, std::string_view file,
                                                std::uint64_t data_bytes);

}  // namespace pagoda::io
