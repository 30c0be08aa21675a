// Safetensors: one file with a JSON table of tensors and their bytes.
// Source: the format's description (github.com/huggingface/safetensors, README) and the rules of its reader.
//
//   u64 length of the header | header, padded with spaces | tensor bytes, without holes
//   header: {"__metadata__": {string: string}, name: {"dtype": "BF16", "shape": [rows, cols], "data_offsets": [b, e]}}
//           offsets count from the end of the header
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "io/byte_source.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Limits beyond which no file is read, whatever it holds.
struct SafetensorsLimits {
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
  static constexpr std::uint64_t kMaxTensors = 1u << 17;
  static constexpr std::uint64_t kMaxMetadata = 1u << 16;
  static constexpr std::uint64_t kMaxTensorNameBytes = 1024;
  static constexpr std::size_t kMaxRank = 8;
  static constexpr std::int64_t kMaxDimension = std::int64_t{1} << 48;
};

/// Reads and checks the whole header: every byte behind it belongs to exactly one tensor. Entries are in the order of
/// their bytes, with offsets from the start of the file. Every rule that a file can break has its own ErrorCode
/// (kJson…, kSafetensors…). The sentence names the file, the tensor, what was found and what is allowed. An entry of a
/// type that is no weight's by itself has no format.
Result<std::vector<TensorEntry>> read_safetensors(const ByteSource& source);

}  // namespace pagoda::io
