// F32: one IEEE binary32 value, 4 bytes.
#pragma once

#include "base/shared.h"

namespace pagoda::quant {

struct F32 {
  static constexpr char kName[] = "f32";
  static constexpr int kGgufType = 0;
  static constexpr int kBlockElements = 1;
  struct Block {
    float value;
  };
  static PAGODA_SHARED float decode(const Block& block, int /*element*/) { return block.value; }
};

}  // namespace pagoda::quant
