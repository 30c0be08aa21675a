#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Reads the table of a safetensors file of which `data_bytes` follow the header; offsets count from its end, and
/// ranges lie inside those bytes. `entry.format` is null for types that Pagoda has no format for; `dtypes` names each
/// one's.
struct SafetensorsTable {
  std::vector<TensorEntry> entries;
  std::vector<std::string_view> dtypes;  ///< of each entry; static storage
};

Result<SafetensorsTable> read_safetensors_table(std::string_view header, std::string_view file,
                                                std::uint64_t data_bytes);

}  // namespace pagoda::io
