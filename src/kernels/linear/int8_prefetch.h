// Written once, compiled for each set of instructions; internal linkage, as int8_scales.h says.
#pragma once

#include "kernels/linear/int8_rows16.h"

namespace pagoda::kernels::int8_gemm {
namespace {

/// Of the group whose codes lie at `codes`, prefetches the group after it, line by line, if upper bits lie apart. They
/// lie last and are read first, and a CPU runs ahead by itself only of what is read in order: Zen 4 has 20 GB/s of q5_k
/// without, 27 with, by AVX2 (25 and 29 by AVX-512). Farther ahead, or of codes in one part, it takes the buffers that
/// the CPU's own prefetching would use (decision 0090).
template <int8_rows16::Encoding kEncoding>
[[gnu::always_inline]] inline void prefetch_next_group(const std::uint8_t* codes) {
  if constexpr (kEncoding.code_bits == 5 || kEncoding.code_bits == 6) {
    const std::uint8_t* next = codes + code_bytes(kEncoding);
#pragma GCC unroll 6
    for (int line = 0; line < kEncoding.code_bits; ++line) __builtin_prefetch(next + 64 * line);
  }
}

}  // namespace
}  // namespace pagoda::kernels::int8_gemm
