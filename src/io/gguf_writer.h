// The header of a GGUF file to be written; gguf.h draws it. Tensor bytes go to the offsets that it states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/new_tensor.h"

namespace pagoda::io {

/// Keys with typed values, in the order in which they are added.
class GgufKeys {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const std::string> values);
  void add(std::string_view key, std::span<const float> values);
  void add(std::string_view key, std::span<const std::int32_t> values);
  /// A value as another file has it: its type, then its bytes.
  void add_typed(std::string_view key, std::span<const std::byte> typed_value);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t type);

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// Version 3, with the tensors one after the other at multiples of `alignment`, which the keys state if it is not 32.
/// The formats must have GGUF types.
FileImage lay_out_gguf(const GgufKeys& keys, std::span<const NewTensor> tensors, std::uint64_t alignment = 32);

}  // namespace pagoda::io
