// Parameters of cuda_mma_bulk_codes.cu, shared by host and device.
#pragma once

#include "kernels/linear/cuda_mma_codes.h"

namespace pagoda::kernels {

struct MmaCodesWeight {
  const void* codes;   ///< (n, k) in the layout mma_codes
  const void* scales;  ///< their scales
  const float* bias;   ///< (n), or null
  void* output;        ///< (m, n): bf16 or float, as the unit's epilogue says
  std::int64_t n;
  std::int64_t output_stride;  ///< elements from one row of the output to the next
};

struct MmaBulkCodesParams {
  MmaCodesWeight weights[3];
  const void* input;          ///< (m, k) as the unit says, or float if it norms it; rows begin at multiples of 16 bytes
  const float* norm;          ///< (k) weights of the norm, if the unit norms
  std::int64_t input_stride;  ///< elements
  std::int64_t k;             ///< a multiple of 8
  std::int64_t split_stride;  ///< elements from one slice's output to the next slice's, if splits > 1
  std::int32_t num_weights;   ///< 1 to 3; 2 (gate, up) for a gated unit
  std::int32_t m;             ///< rows of the input: at most 8 · TOKEN_TILES
  std::int32_t stages;        ///< of the ring: 1 to 32
  std::int32_t window;        ///< stages under way at once: at most `stages`
  std::int32_t long_blocks;   ///< so many blocks (of a slice), the first ones, have a tile more than the others
  std::int32_t long_window;   ///< stages under way at once in these
  std::int32_t splits;  ///< slices of k: block b takes slice b % splits; above 1 only for float output without norm
  float epsilon;
  float norm_shift;                   ///< added to each weight of the norm
  float scale;                        ///< of what a residual unit adds
  float input_factor, output_factor;  ///< of f16: what x, where the unit norms it to that, and sums are multiplied with
};

/// Units of 64 columns of a slice of k: a multiple of four, so that slices begin where scales do.
PAGODA_SHARED std::int64_t mma_bulk_codes_slice(std::int64_t k, std::int64_t splits) {
  const std::int64_t quads = (num_units(k) + 3) / 4;
  return (quads + splits - 1) / splits * 4;
}

/// Bytes of a row of x in shared memory: a slice of k, padded so that 16 bytes of each of eight rows touch all banks.
PAGODA_SHARED std::int64_t mma_bulk_codes_stride(std::int64_t k, std::int64_t splits) {
  return mma_bulk_codes_slice(k, splits) * 128 + 16;
}

/// Sums of x over a unit's groups: how many there are.
PAGODA_SHARED constexpr int mma_bulk_codes_sums(const Coding& coding) {
  return coding.group < kUnitColumns ? kUnitColumns / coding.group : 1;
}

/// Bytes of dynamic shared memory besides the ring: the warps' sums, twice, x, and the sums of x over groups.
PAGODA_SHARED std::int64_t mma_bulk_codes_fixed_bytes(const Coding& coding, std::int64_t k, std::int64_t m,
                                                      std::int64_t splits, int warps, int sets, int token_tiles) {
  const std::int64_t x = m * mma_bulk_codes_stride(k, splits);
  const std::int64_t sums = coding.table == quant::CodeTable::kInteger
                                ? mma_bulk_codes_slice(k, splits) * mma_bulk_codes_sums(coding) * token_tiles * 32
                                : 128;  // what rows past the last may read
  return std::int64_t{2} * warps * sets * 16 * (token_tiles * 8 + 1) * 4 + x + sums;
}

/// cuda_whole_bulk_codes.cu: bytes of a unit's columns of all rows of x, padded so that units begin in other banks.
PAGODA_SHARED std::int64_t whole_bulk_codes_unit_bytes(std::int64_t m) { return m * 128 + 16; }

/// Words of a unit of one row of x: a sum for each group, and a scale; none where x stays in floats.
PAGODA_SHARED constexpr int whole_bulk_codes_unit_words(const Coding& coding) {
  if (coding.table != quant::CodeTable::kInteger) return 0;
  const int groups = mma_bulk_codes_sums(coding);
  return groups == 1 ? 2 : groups == 2 ? 4 : 8;
}

/// Bytes of dynamic shared memory besides the ring: the warps' sums, twice, x in bytes, and its units' words.
PAGODA_SHARED std::int64_t whole_bulk_codes_fixed_bytes(const Coding& coding, std::int64_t k, std::int64_t m,
                                                        std::int64_t splits, int warps, int sets) {
  const std::int64_t units = mma_bulk_codes_slice(k, splits);
  return std::int64_t{2} * warps * sets * 16 * 5 * 4 + units * whole_bulk_codes_unit_bytes(m) +
         units * m * whole_bulk_codes_unit_words(coding) * 4;
}

/// Bytes of a stage of the ring: of each set its codes, then its scales.
PAGODA_SHARED constexpr int mma_bulk_codes_set_bytes(const Coding& coding, int stage_units) {
  return stage_units * unit_bytes(coding) + stage_units * kUnitColumns / span_columns(coding) * span_bytes(coding);
}

}  // namespace pagoda::kernels
