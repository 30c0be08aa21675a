#pragma once

#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"

namespace pagoda::quant {

inline void encode(const float* values, F32::Block& block, F32) { block.value = values[0]; }
inline void encode(const float* values, F16::Block& block, F16) { block.value = float_to_f16(values[0]); }
inline void encode(const float* values, BF16::Block& block, BF16) { block.value = float_to_bf16(values[0]); }

}  // namespace pagoda::quant
