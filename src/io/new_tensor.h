#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace pagoda::io {

/// A tensor of a file to be written.
struct NewTensor {
  std::string name;
  const quant::Format* format = nullptr;
  std::vector<std::int64_t> shape;  ///< row-major, as TensorEntry has it; not empty

  std::uint64_t bytes() const {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    return static_cast<std::uint64_t>(rows * format->row_bytes(shape.back()));
  }
};

/// What of a file is known before its tensors' bytes are.
struct FileImage {
  std::string header;                  ///< the file's first bytes
  std::vector<std::uint64_t> offsets;  ///< of each tensor, from the start of the file
  std::uint64_t bytes = 0;             ///< of the whole file; those between tensors are zero
};

}  // namespace pagoda::io
