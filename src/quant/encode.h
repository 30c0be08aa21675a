// From values to the blocks of a format: what `pagoda quantize` writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"

namespace pagoda::quant {

/// Encodes `cols` finite values (a multiple of block_elements) into one row of the format. Every code is the one
/// nearest to its value under the scales that the block ends up with; scales are chosen for the least squared error.
using EncodeRow = void (*)(const float* values, std::int64_t cols, std::byte* row);

/// Null for a format that can only be read.
EncodeRow find_encoder(const Format& format);

}  // namespace pagoda::quant
