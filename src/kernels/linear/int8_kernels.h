// What the int8 products of every set of instructions share beside int8_scales.h, with internal linkage as there.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "kernels/linear/int8_gemm.h"

namespace pagoda::kernels::int8_gemm {
namespace {

/// kKind with what is known at run time only.
template <int8_rows16::Encoding kKind>
constexpr int8_rows16::Encoding encoding_of(const Product& product) {
  int8_rows16::Encoding encoding = kKind;
  encoding.group_log2 = product.group_log2;
  return encoding;
}

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

template <class Kernels, std::size_t... kIndex>
ProductKernel find_kernel(const int8_rows16::Encoding& encoding, int terms, std::index_sequence<kIndex...>) {
  using int8_rows16::kKinds;
  struct Entry {
    int8_rows16::Encoding kind;
    ProductKernel kernels[2];
  };
  constexpr Entry kEntries[] = {
      {kKinds[kIndex], {&Kernels::template run<kKinds[kIndex], 1>, &Kernels::template run<kKinds[kIndex], 2>}}...};
  for (const Entry& entry : kEntries) {
    if (entry.kind == encoding.kind()) return entry.kernels[terms - 1];
  }
  return nullptr;
}

/// Kernels::run<kEncoding, kTerms> for an encoding; null if kKinds has none of its kind.
template <class Kernels>
ProductKernel find_kernel(const int8_rows16::Encoding& encoding, int terms) {
  return find_kernel<Kernels>(encoding, terms, std::make_index_sequence<std::size(int8_rows16::kKinds)>());
}

}  // namespace
}  // namespace pagoda::kernels::int8_gemm
