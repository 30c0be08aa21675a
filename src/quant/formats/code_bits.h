// Codes of a few bits, one after the other from the least significant bit of byte 0 on; one may lie in two bytes. It is
// the order of MLX, GPTQ and compressed-tensors, whose 32-bit words are little-endian.
#pragma once

#include "base/shared.h"

namespace pagoda::quant {

template <int kBits>
PAGODA_SHARED int code_at(const std::uint8_t* codes, int index) {
  const int bit = index * kBits;
  int word = codes[bit / 8] >> (bit % 8);
  if constexpr (8 % kBits != 0) {
    if (bit % 8 + kBits > 8) word |= codes[bit / 8 + 1] << (8 - bit % 8);
  }
  return word & ((1 << kBits) - 1);
}

/// Sets a code whose bits are zero.
template <int kBits>
PAGODA_SHARED void add_code(std::uint8_t* codes, int index, int code) {
  const int bit = index * kBits;
  codes[bit / 8] = static_cast<std::uint8_t>(codes[bit / 8] | code << (bit % 8));
  if constexpr (8 % kBits != 0) {
    if (bit % 8 + kBits > 8) {
      codes[bit / 8 + 1] = static_cast<std::uint8_t>(codes[bit / 8 + 1] | code >> (8 - bit % 8));
    }
  }
}

}  // namespace pagoda::quant
