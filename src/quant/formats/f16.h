// F16: one IEEE binary16 value, 2 bytes.
#pragma once

#include "base/numbers.h"

namespace pagoda::quant {

struct F16 {
  static constexpr char kName[] = "f16";
  static constexpr int kGgufType = 1;
  static constexpr int kBlockElements = 1;
  struct Block {
    std::uint16_t value;
  };
  static PAGODA_SHARED float decode(const Block& block, int /*element*/) { return f16_to_float(block.value); }
};

}  // namespace pagoda::quant
