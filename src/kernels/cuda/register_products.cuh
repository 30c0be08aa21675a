// Products of a warpgroup with A from its registers and B from shared memory along k, and what feeds and
// empties them (sm_90a).
#pragma once

#include "kernels/cuda/product_operands.cuh"
#include "kernels/cuda/warpgroup.cuh"

namespace pagoda {

/// Start copies of a map's box at these coordinates; the whole box's bytes arrive on `barrier`.
__device__ __forceinline__ void copy_box(std::uint32_t shared, const void* map, int x, int y, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void copy_box(std::uint32_t shared, const void* map, int x, int y, int z, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
}

/// As copy_box, into every block of the cluster at the same place, and onto the barrier there.
template <int kBlocks>
__device__ __forceinline__ void copy_box_to_all(std::uint32_t shared, const void* map, int x, int y, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%2, %3}], [%4], %5;" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(static_cast<std::uint16_t>((1 << kBlocks) - 1))
      : "memory");
}

/// As of ptx.cuh, by the address in shared memory.
__device__ __forceinline__ void load_matrix_x4(std::uint32_t (&tile)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
               : "r"(shared)
               : "memory");
}

__device__ __forceinline__ void load_shared_vec16(std::uint32_t (&words)[4], std::uint32_t shared) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

/// Four 8×8 tiles of 16-bit elements transposed into shared memory, a tile a register.
__device__ __forceinline__ void store_matrix_x4_transposed(void* shared, const std::uint32_t (&tile)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared)),
               "r"(tile[0]), "r"(tile[1]), "r"(tile[2]), "r"(tile[3])
               : "memory");
}

__device__ __forceinline__ void store_matrix_x2_transposed(void* shared, std::uint32_t first, std::uint32_t second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(shared)),
               "r"(first), "r"(second)
               : "memory");
}

// What the 16 bits of operands are. A unit that multiplies f16 says ELEMENT=1.
#if ELEMENT == 1
#define PAGODA_OPERANDS ".f16.f16"
#else
#define PAGODA_OPERANDS ".bf16.bf16"
#endif

/// Starts d += a · bᵀ for bf16 or f16: a (64, 16) in the warpgroup's registers, 16 rows a warp as in mma_bf16; b
/// (kColumns, 16) in shared memory, rows along k, described by `operand`; d (64, kColumns), 8 columns after the other
/// as in mma_bf16. d is overwritten if not `accumulate`.
template <int kColumns>
__device__ __forceinline__ void multiply_add(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int accumulate);

// Of `sums` registers; a's, b and accumulate are the operands after them.
#define PAGODA_REGISTER_PRODUCT(columns, sums, names_a, name_b, name_accumulate)                                       \
  template <>                                                                                                          \
  __device__ __forceinline__ void multiply_add<columns>(float* d, const std::uint32_t (&a)[4], std::uint64_t b,        \
                                                        int accumulate) {                                              \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " name_accumulate                                             \
                 ", 0;\n"                                                                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32" PAGODA_OPERANDS " {" PAGODA_NAMES_##sums       \
                 "}, {" names_a "}, " name_b ", more, 1, 1, 0;\n}\n"                                                   \
                 : PAGODA_SUMS_##sums                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)                                 \
                 : "memory");                                                                                          \
  }
PAGODA_REGISTER_PRODUCT(16, 8, "%8, %9, %10, %11", "%12", "%13")
PAGODA_REGISTER_PRODUCT(32, 16, "%16, %17, %18, %19", "%20", "%21")
PAGODA_REGISTER_PRODUCT(48, 24, "%24, %25, %26, %27", "%28", "%29")
PAGODA_REGISTER_PRODUCT(64, 32, "%32, %33, %34, %35", "%36", "%37")
PAGODA_REGISTER_PRODUCT(96, 48, "%48, %49, %50, %51", "%52", "%53")
PAGODA_REGISTER_PRODUCT(128, 64, "%64, %65, %66, %67", "%68", "%69")
PAGODA_REGISTER_PRODUCT(192, 96, "%96, %97, %98, %99", "%100", "%101")
PAGODA_REGISTER_PRODUCT(256, 128, "%128, %129, %130, %131", "%132", "%133")
#undef PAGODA_REGISTER_PRODUCT

}  // namespace pagoda
