// The header of a safetensors file to be written; safetensors.h draws it. Tensor bytes go to the offsets that it
// states.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/new_tensor.h"

namespace pagoda::io {

/// A tensor by the format's own words. Bytes that a shape and a type contradict are our fault.
struct NewSafetensor {
  std::string name;
  std::string_view dtype;  ///< "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// Bytes of an element.
std::uint64_t width_of(std::string_view dtype);

/// The tensors one after the other, without holes, with the metadata that transformers asks for.
FileImage lay_out_safetensors(std::span<const NewSafetensor> tensors);

}  // namespace pagoda::io
