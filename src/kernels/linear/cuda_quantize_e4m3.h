// Parameters of cuda_quantize_e4m3.cu, shared by host and device, and the order of its columns.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct QuantizeE4m3Params {
  const void* input;          ///< (rows, k) bf16
  void* output;               ///< (rows, e4m3_columns(k)) bytes, columns as e4m3_place says, one row after the other
  float* scales;              ///< (rows): what the output's rows are to be multiplied by
  std::int64_t k;             ///< a multiple of 8
  std::int64_t input_stride;  ///< elements, a multiple of 8
};

/// Columns of the output: zeros from k on.
PAGODA_SHARED constexpr std::int64_t e4m3_columns(std::int64_t k) { return (k + 31) / 32 * 32; }

/// Where a column lies in a row of the output: sixteen columns are four words, in the order in which the layout
/// mma_codes has e4m3, whose lanes' words are the registers of one product of 32 columns.
PAGODA_SHARED constexpr std::int64_t e4m3_place(std::int64_t column) {
  const std::int64_t within = column % 16;
  return column / 16 * 16 + within % 8 / 2 * 4 + within % 2 * 2 + (within < 8 ? 1 : 0);
}

}  // namespace pagoda::kernels
