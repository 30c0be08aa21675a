// Thread block clusters (sm_90 and later): the cluster's barrier in two halves, and reading a neighbour's shared
// memory. A block may end, or overwrite what others of its cluster read, only after a barrier on which they arrived
// after it.
#pragma once

#include "kernels/cuda/ptx.cuh"

namespace pagoda {

/// Arrives on the barrier of all the cluster's threads: what this thread wrote before can be read by those that have
/// waited. Every thread arrives and waits in turn; whole warps at once.
__device__ __forceinline__ void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// The same for a thread that has nothing to show: its reads are done, no write is published.
__device__ __forceinline__ void arrive_cluster_done() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// Where the cluster's block `rank` has what `pointer` is in this one.
__device__ __forceinline__ std::uint32_t address_in_cluster(const void* pointer, int rank) {
  std::uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

__device__ __forceinline__ float2 read_in_cluster2(const float2* pointer, int rank) {
  float2 v;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "r"(address_in_cluster(pointer, rank))
               : "memory");
  return v;
}

__device__ __forceinline__ float4 read_in_cluster4(const float4* pointer, int rank) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address_in_cluster(pointer, rank))
               : "memory");
  return v;
}

}  // namespace pagoda
