// One row's place in a tile of kInt8Rows16Layout, and moves between there and a file's bytes.
#pragma once

#include <cstring>

#include "kernels/linear/int8_rows16.h"

namespace pagoda::kernels::int8_rows16 {

using Byte = std::uint8_t;

/// One row's place in a tile.
struct Lane {
  Byte* params;  ///< of the block of parameters
  Byte* codes;   ///< of the first group
  int row;

  Byte* bytes(std::int64_t array) const { return params + array + row; }           ///< in an array of bytes
  Byte* halves(std::int64_t array) const { return params + array + 2 * row; }      ///< in an array of f16
  Byte* words(std::int64_t array) const { return params + array + 4 * row; }       ///< in an array of 32 bits
  Byte* vector(std::int64_t index) const { return codes + 64 * index + 4 * row; }  ///< in a vector of codes
};

/// Either way between the file's bytes and the tile's: `kPack` says which.
template <bool kPack>
struct Mover {
  static void copy(Byte* file, Byte* tile, std::size_t bytes) {
    kPack ? std::memcpy(tile, file, bytes) : std::memcpy(file, tile, bytes);
  }

  /// 16 bytes with the low nibbles columns 0 … 15 and the high ones 16 … 31: GGML's order is the tile's.
  static void nibbles(Byte* file, const Lane& lane) {
    for (int v = 0; v < 4; ++v) copy(file + 4 * v, lane.vector(v), 4);
  }

  /// 32 fifth bits, bit c for column c.
  static void fifth_bits(Byte* file, const Lane& lane) {
    std::uint32_t bits = 0;
    Byte* tile = lane.vector(4);
    if constexpr (kPack) {
      std::memcpy(&bits, file, 4);
      for (int i = 0; i < 4; ++i) {
        Byte column_bits = 0;
        for (int v = 0; v < 8; ++v) column_bits = static_cast<Byte>(column_bits | ((bits >> (4 * v + i)) & 1u) << v);
        tile[i] = column_bits;
      }
    } else {
      for (int i = 0; i < 4; ++i) {
        for (int v = 0; v < 8; ++v) bits |= static_cast<std::uint32_t>((tile[i] >> v) & 1) << (4 * v + i);
      }
      std::memcpy(file, &bits, 4);
    }
  }
};

inline void set_bits(Byte* byte, int shift, int mask, int value) {
  *byte = static_cast<Byte>((*byte & ~(mask << shift)) | ((value & mask) << shift));
}

}  // namespace pagoda::kernels::int8_rows16
