// GGUF, versions 2 and 3: one file with typed metadata, a table of tensors, and their bytes.
// Source: the GGUF specification (github.com/ggml-org/ggml, docs/gguf.md).
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys … | tensors … | padding | tensor bytes
//   string: u64 length, bytes            key: string name, u32 type, value
//   array:  u32 type, u64 count, values  tensor: string name, u32 rank, u64 dimensions (contiguous one first),
//                                                u32 type, u64 offset from the start of the tensor bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/byte_source.h"
#include "io/raw_config.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Where the value of a key lies in its file, type first: what another file can take over as it is.
struct GgufKeyRange {
  std::string key;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What a GGUF file says before its tensor bytes.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;  ///< where tensor bytes start
  RawConfig config;
  std::vector<GgufKeyRange> keys;  ///< in the file's order
  TensorCatalog tensors;
};

/// Limits that no real model comes near; with the rule that no count or length may pass the bytes left, they bound what
/// a hostile file can make us do.
struct GgufLimits {
  static constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 28;  ///< all before the tensor bytes
  static constexpr std::uint64_t kMaxKeys = 1u << 16;
  static constexpr std::uint64_t kMaxTensors = 1u << 17;
  static constexpr std::uint64_t kMaxKeyBytes = 65535;
  static constexpr std::uint64_t kMaxTensorNameBytes = 1024;
  static constexpr std::uint64_t kMaxLists = 1u << 16;  ///< lists inside lists, in one file
  static constexpr std::uint64_t kMaxDimension = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kMinAlignment = 8;
  static constexpr std::uint64_t kMaxAlignment = 1u << 20;
};

/// Reads and checks the whole header. Every rule that a file can break has its own ErrorCode (kGguf…); the sentence
/// names the file, the key or tensor, the offset, what was found and what is allowed.
Result<GgufHeader> read_gguf(const ByteSource& source);

}  // namespace pagoda::io
