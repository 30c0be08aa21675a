// Vectors of bfloat16 and float as kernels move them: 16 bytes at a time, widened to float for arithmetic.
#pragma once

#include "base/numbers.h"

namespace pagoda {

struct alignas(16) Vec16 {
  std::uint32_t word[4];
};

/// bf16 pairs: the element at the lower address is in the lower half.
__device__ __forceinline__ float bf16_low(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(pack_bf16(value, 0.0f) & 0xffffu);
}

__device__ __forceinline__ float from_f16(std::uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

__device__ __forceinline__ std::uint16_t to_f16(float value) {
  std::uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}

/// Data that is read once and never written by this grid: weights.
__device__ __forceinline__ Vec16 load_streaming(const void* address) {
  Vec16 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}

__device__ __forceinline__ Vec16 load_vec16(const void* address) { return *static_cast<const Vec16*>(address); }
__device__ __forceinline__ void store_vec16(void* address, Vec16 v) { *static_cast<Vec16*>(address) = v; }

}  // namespace pagoda
