// Warpgroups (sm_90a): their matrix products, the tensor copies that feed them, and how registers are shared out.
// A product's numbers move past the compiler: between issue and wait neither sums nor register operands may be touched,
// which `hold` tells it.
#pragma once

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/product_operands.cuh"

namespace pagoda {

/// A tensor map, made by the driver; only its address is used.
struct alignas(64) TensorMapBytes {
  std::uint64_t opaque[16];
};

__device__ __forceinline__ void prefetch_map(const TensorMapBytes* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Starts a copy of the map's box at these coordinates; the whole box's bytes arrive on `barrier`.
__device__ __forceinline__ void copy_box(std::uint32_t shared, const TensorMapBytes* map, int x, int y, int z, int w,
                                         Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier))
      : "memory");
}

/// Makes this thread's ordinary writes to shared memory visible to tensor cores and the copy engine.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int kRegisters>
__device__ __forceinline__ void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void drop_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// As sync_threads, by a number known at run time only; `arrive_threads` does not wait.
__device__ __forceinline__ void sync_threads(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_threads(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Before products that follow ordinary use of their registers.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes a group of issued products.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `kPending` groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int kCount>
__device__ __forceinline__ void hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

/// Of an operand in shared memory whose rows of 128 bytes are swizzled in groups of 8 (1,024 bytes, aligned).
/// `slice_bytes`: from 64 columns to the next 64, for operands whose columns are the product's outer dimension; ignored
/// for the others.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t shared, std::uint32_t slice_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kGroup = std::uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kGroup | static_cast<std::uint64_t>(slice_bytes / 16) << 16 | (shared & 0x3ffffu) / 16;
}

/// d (64, N) = or += a (64, 16) · b (N, 16)ᵀ, both in shared memory with rows along k. A lane (g, t) of warp w has rows
/// 16w + g and 16w + g + 8, columns 8j + 2t and 8j + 2t + 1: d[4j … 4j + 3].
template <int kColumns>
struct Scored;

/// d (64, N) = (unless `add`) or += a (64, 16) · b (16, N), b in shared memory with rows along N; a's registers as in
/// mma_bf16.
template <int kColumns>
struct Weighted;

// Of `sums` registers; what is multiplied and `add` are the operands after them.
#define PAGODA_SCORED(columns, sums, name_a, name_b, name_add)                                                         \
  template <>                                                                                                          \
  struct Scored<columns> {                                                                                             \
    template <bool kAdd>                                                                                               \
    static __device__ __forceinline__ void issue(float (&d)[sums], std::uint64_t a, std::uint64_t b) {                 \
      asm volatile("{.reg .pred add; setp.ne.b32 add, " name_add                                                       \
                   ", 0;\n"                                                                                            \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" PAGODA_NAMES_##sums              \
                   "}, " name_a ", " name_b ", add, 1, 1, 0, 0;}"                                                      \
                   : PAGODA_SUMS_##sums                                                                                \
                   : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));                                                               \
    }                                                                                                                  \
  };
PAGODA_SCORED(64, 32, "%32", "%33", "%34")
PAGODA_SCORED(80, 40, "%40", "%41", "%42")
PAGODA_SCORED(96, 48, "%48", "%49", "%50")
PAGODA_SCORED(128, 64, "%64", "%65", "%66")
PAGODA_SCORED(160, 80, "%80", "%81", "%82")
PAGODA_SCORED(176, 88, "%88", "%89", "%90")
#undef PAGODA_SCORED

#define PAGODA_WEIGHTED(columns, sums, names_a, name_b, name_add)                                                      \
  template <>                                                                                                          \
  struct Weighted<columns> {                                                                                           \
    static __device__ __forceinline__ void issue(float (&d)[sums], const std::uint32_t (&a)[4], std::uint64_t b,       \
                                                 int add) {                                                            \
      asm volatile("{.reg .pred add; setp.ne.b32 add, " name_add                                                       \
                   ", 0;\n"                                                                                            \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" PAGODA_NAMES_##sums              \
                   "}, {" names_a "}, " name_b ", add, 1, 1, 1;}"                                                      \
                   : PAGODA_SUMS_##sums                                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                    \
    }                                                                                                                  \
  };
PAGODA_WEIGHTED(64, 32, "%32, %33, %34, %35", "%36", "%37")
PAGODA_WEIGHTED(80, 40, "%40, %41, %42, %43", "%44", "%45")
PAGODA_WEIGHTED(96, 48, "%48, %49, %50, %51", "%52", "%53")
PAGODA_WEIGHTED(128, 64, "%64, %65, %66, %67", "%68", "%69")
#undef PAGODA_WEIGHTED

}  // namespace pagoda
