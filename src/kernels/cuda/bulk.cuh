// Bulk copies from global to shared memory and the barriers on which they complete (sm_90 and later).
#pragma once

#include "kernels/cuda/ptx.cuh"

namespace pagoda {

/// A barrier in shared memory. Its phases are told apart by parity: the first completes with parity 0.
using Barrier = std::uint64_t;

__device__ __forceinline__ void init_barrier(Barrier* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/// Makes initialised barriers known to the copy engine; before the block's first __syncthreads.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// By the address in shared memory here and below: a barrier's number in a ring is then one addition.
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive(Barrier* barrier) { arrive(shared_address(barrier)); }

/// The same number in a register of its own: the compiler would work out an address anew wherever it is wanted.
__device__ __forceinline__ std::uint32_t kept(std::uint32_t address) {
  asm volatile("" : "+r"(address));
  return address;
}

/// Arrives on the barrier that lies in the cluster's block `rank` where `barrier` lies in this one. What it says is that
/// reads are done: an order for writes (release at the cluster's scope) would cost a fence of the whole device.
__device__ __forceinline__ void arrive_in_cluster(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// __syncthreads of a cluster of kBlocks blocks; of one block that itself.
template <int kBlocks>
__device__ __forceinline__ void sync_cluster() {
  if constexpr (kBlocks > 1) {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
  } else {
    __syncthreads();
  }
}

/// Arrives, and lets the phase also wait for so many bytes of bulk copies.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// Waits until the phase of this parity is complete, of the barrier at this address in shared memory.
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void wait_barrier(Barrier* barrier, std::uint32_t parity) {
  wait_barrier(shared_address(barrier), parity);
}

/// Starts a copy; both addresses and `bytes` are multiples of 16. Its bytes arrive on `barrier`.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, std::uint32_t bytes, Barrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/// Where the ring stands, for one who fills or empties it.
struct Cursor {
  int slot;
  std::uint32_t parity;
  __device__ __forceinline__ void advance(int stages) {
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// A barrier of `threads` threads of the block, by number 1 … 15 (0 is __syncthreads).
template <int kNumber>
__device__ __forceinline__ void sync_threads(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "r"(threads) : "memory");
}

}  // namespace pagoda
