// Instructions that CUDA C++ has no name for without NVIDIA's headers.
#pragma once

#include "base/shared.h"

namespace pagoda {

/// Programmatic launch: until here a kernel may only have touched weights and constants; after it, everything the
/// kernels before it wrote is visible. A no-op in an ordinary launch.
__device__ __forceinline__ void wait_for_producers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel of a programmatic launch start; it still waits for our results in wait_for_producers().
__device__ __forceinline__ void release_consumers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Starts a copy of 16 bytes from global to shared memory; `bytes` of them are read, the rest become zero.
__device__ __forceinline__ void copy_async16(void* shared, const void* global, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `kPending` groups of this thread's copies are under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8×8 tiles of 16-bit elements from shared memory, a tile a register.
__device__ __forceinline__ void load_matrix_x4(std::uint32_t (&tile)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
               : "r"(shared_address(shared))
               : "memory");
}
__device__ __forceinline__ void load_matrix_x4_transposed(std::uint32_t (&tile)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
               : "r"(shared_address(shared))
               : "memory");
}

/// c += a · b for bf16 tiles: a 16×16 (rows), b 16×8 (columns), c 16×8 in float.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// 2^x, and 0 for −∞.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace pagoda
