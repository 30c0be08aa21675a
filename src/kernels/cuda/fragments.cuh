// Fragments of tensor-core products beyond those of ptx.cuh: halves, transposed tiles, 8-bit floats.
#pragma once

#include "kernels/cuda/ptx.cuh"

namespace pagoda {

/// c += a · b for binary16 tiles, shaped as in mma_bf16.
__device__ __forceinline__ void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// An 8×8 tile of 16-bit elements that the warp holds row by row, transposed.
__device__ __forceinline__ std::uint32_t transpose_tile(std::uint32_t rows) {
  std::uint32_t columns;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(columns) : "r"(rows));
  return columns;
}

__device__ __forceinline__ std::uint32_t pack_f16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// The lower half of a word and the upper one: as operands they cost no instruction.
struct Halves {
  std::uint16_t low, high;
  __device__ __forceinline__ std::uint16_t operator[](int half) const { return half == 0 ? low : high; }
};
__device__ __forceinline__ Halves halves(std::uint32_t word) {
  Halves h;
  asm("mov.b32 {%0, %1}, %2;" : "=h"(h.low), "=h"(h.high) : "r"(word));
  return h;
}
/// One half of a pair, twice.
__device__ __forceinline__ std::uint32_t spread(std::uint32_t pair, int half) {
  std::uint32_t both;
  asm("mov.b32 %0, {%1, %1};" : "=r"(both) : "h"(halves(pair)[half]));
  return both;
}

/// Arithmetic of pairs of bf16, rounded to nearest (sm_90).
__device__ __forceinline__ std::uint32_t add_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ std::uint32_t multiply_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

/// Two e4m3 bytes as binary16, exactly; the lower byte becomes the lower half.
__device__ __forceinline__ std::uint32_t f16_of_e4m3(std::uint16_t bytes) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(bytes));
  return pair;
}

/// Starts a copy of 4 bytes from global to shared memory.
__device__ __forceinline__ void copy_async4(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

/// cap · tanh(x / cap) to about 1e-7 of cap; the hardware's tanh is good to 5e-4 only.
__device__ __forceinline__ float soft_cap(float x, float cap) {
  const float e = exp2_fast(2.885390082f * (x / cap));
  return cap * (1.0f - 2.0f / (1.0f + e));
}

}  // namespace pagoda
