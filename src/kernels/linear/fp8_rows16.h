// How kFp8Rows16Layout lies in memory: rows go in tiles of 16. A tile is a region of scales, (blocks, 16) of a block's
// own type, padded to 64 bytes, then a region of codes, (columns, 16), also of columns that a last block has no element
// for, and 32 bytes that a load of two columns may touch.
#pragma once

#include "kernels/linear/float_gemm.h"
#include "quant/format.h"

namespace pagoda::kernels {

/// Of a format that the layout supports.
float_gemm::Kind fp8_kind(const quant::Format& format);
std::int64_t fp8_region_bytes(const quant::Format& format, std::int64_t k);
std::int64_t fp8_tile_bytes(const quant::Format& format, std::int64_t k);

}  // namespace pagoda::kernels
