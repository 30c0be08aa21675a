// The block format that a unit is compiled for: FORMAT is the name of its struct.
#pragma once

#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"

namespace pagoda {

using Format = quant::FORMAT;

/// Element `column` of a row of blocks.
__device__ __forceinline__ float decode_element(const void* row, std::int64_t column) {
  const auto* blocks = static_cast<const Format::Block*>(row);
  return Format::decode(blocks[column / Format::kBlockElements], static_cast<int>(column % Format::kBlockElements));
}

}  // namespace pagoda
