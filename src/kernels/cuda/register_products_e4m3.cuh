// As register_products.cuh, with both operands e4m3: a product takes 32 columns, 32 bytes of a row as with bf16.
#pragma once

#include "kernels/cuda/product_operands.cuh"
#include "kernels/cuda/register_products.cuh"

namespace pagoda {

/// Starts d += a · bᵀ: a (64, 32) in the warpgroup's registers, b (kColumns, 32) in shared memory. A lane (g, t) of
/// warp w has of a columns 4t … 4t + 3 (the first in the low byte) of rows 16w + g (a[0]) and 16w + g + 8 (a[1]), then
/// columns 16 further of both (a[2], a[3]); d as in multiply_add. Sums keep about 14 bits while they add up in a
/// product.
template <int kColumns>
__device__ __forceinline__ void multiply_add_e4m3(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                                  int accumulate);

// As in register_products.cuh.
#define PAGODA_E4M3_PRODUCT(columns, sums, names_a, name_b, name_accumulate)                                           \
  template <>                                                                                                          \
  __device__ __forceinline__ void multiply_add_e4m3<columns>(float* d, const std::uint32_t (&a)[4], std::uint64_t b,   \
                                                        int accumulate) {                                              \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " name_accumulate                                             \
                 ", 0;\n"                                                                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k32.f32.e4m3.e4m3 {" PAGODA_NAMES_##sums                \
                 "}, {" names_a "}, " name_b ", more, 1, 1;\n}\n"                                                      \
                 : PAGODA_SUMS_##sums                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)                                 \
                 : "memory");                                                                                          \
  }
PAGODA_E4M3_PRODUCT(16, 8, "%8, %9, %10, %11", "%12", "%13")
PAGODA_E4M3_PRODUCT(32, 16, "%16, %17, %18, %19", "%20", "%21")
PAGODA_E4M3_PRODUCT(48, 24, "%24, %25, %26, %27", "%28", "%29")
PAGODA_E4M3_PRODUCT(64, 32, "%32, %33, %34, %35", "%36", "%37")
PAGODA_E4M3_PRODUCT(96, 48, "%48, %49, %50, %51", "%52", "%53")
PAGODA_E4M3_PRODUCT(128, 64, "%64, %65, %66, %67", "%68", "%69")
PAGODA_E4M3_PRODUCT(192, 96, "%96, %97, %98, %99", "%100", "%101")
PAGODA_E4M3_PRODUCT(256, 128, "%128, %129, %130, %131", "%132", "%133")
#undef PAGODA_E4M3_PRODUCT

}  // namespace pagoda
