// How kFp8Rows16Layout lies in memory: rows go in tiles of 16. A tile is a run of chunks, then 64 bytes of marks: a
// word a row, not 0 if the row has a code that is NaN or infinite. A chunk is 64 bytes of scales of a block's own type,
// (blocks, 16): one block or, of one-byte scales, four; then these blocks' codes, also of columns that a last block has
// no element for. Codes of four columns are 64 bytes: byte 4·r + i is row r's column 4·v + i.
#pragma once

#include "kernels/linear/float_gemm.h"
#include "quant/format.h"

namespace pagoda::kernels {

/// Of a format that the layout supports.
float_gemm::Kind fp8_kind(const quant::Format& format);
std::int64_t fp8_tile_bytes(const quant::Format& format, std::int64_t k);

}  // namespace pagoda::kernels
