// BF16: the upper half of an IEEE binary32 value, 2 bytes.
#pragma once

#include "base/numbers.h"

namespace pagoda::quant {

struct BF16 {
  static constexpr char kName[] = "bf16";
  static constexpr int kGgufType = 30;
  static constexpr int kBlockElements = 1;
  struct Block {
    std::uint16_t value;
  };
  static PAGODA_SHARED float decode(const Block& block, int /*element*/) { return bf16_to_float(block.value); }
};

}  // namespace pagoda::quant
