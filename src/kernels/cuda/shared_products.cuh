// Products of a warpgroup with both operands in shared memory along k (sm_90a).
#pragma once

#include "kernels/cuda/product_operands.cuh"
#include "kernels/cuda/register_products.cuh"

namespace pagoda {

/// As `operand`, of rows along k whose groups of 8 are `kBytes` apart.
template <int kBytes>
__device__ __forceinline__ std::uint64_t spaced_operand(std::uint32_t shared) {
  constexpr std::uint64_t kGroups = std::uint64_t{(kBytes - 1024) / 16} << 32;
  return operand(shared, 16) + kGroups;
}

/// Starts d += a · bᵀ for bf16 or f16: a (64, 16) and b (kColumns, 16) in shared memory, rows along k; d (64, kColumns)
/// as in multiply_add of register operands. d is overwritten if not `accumulate`.
template <int kColumns>
__device__ __forceinline__ void multiply_add(float* d, std::uint64_t a, std::uint64_t b, int accumulate);

// Of `sums` registers; a, b and accumulate are the three operands after them.
#define PAGODA_SHARED_PRODUCT(columns, sums, name_a, name_b, name_accumulate)                                        \
  template <>                                                                                                        \
  __device__ __forceinline__ void multiply_add<columns>(float* d, std::uint64_t a, std::uint64_t b, int accumulate) { \
    asm volatile(                                                                                                    \
        "{\n.reg .pred more;\nsetp.ne.b32 more, " name_accumulate                                                    \
        ", 0;\n"                                                                                                     \
        "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32" PAGODA_OPERANDS " {" PAGODA_NAMES_##sums              \
        "}, " name_a ", " name_b ", more, 1, 1, 0, 0;\n}\n"                                                          \
        : PAGODA_SUMS_##sums                                                                                         \
        : "l"(a), "l"(b), "r"(accumulate)                                                                            \
        : "memory");                                                                                                 \
  }
PAGODA_SHARED_PRODUCT(48, 24, "%24", "%25", "%26")
PAGODA_SHARED_PRODUCT(64, 32, "%32", "%33", "%34")
PAGODA_SHARED_PRODUCT(80, 40, "%40", "%41", "%42")
PAGODA_SHARED_PRODUCT(96, 48, "%48", "%49", "%50")
PAGODA_SHARED_PRODUCT(112, 56, "%56", "%57", "%58")
PAGODA_SHARED_PRODUCT(128, 64, "%64", "%65", "%66")
#undef PAGODA_SHARED_PRODUCT

}  // namespace pagoda
