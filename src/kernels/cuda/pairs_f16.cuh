// Arithmetic of pairs of binary16, rounded to nearest.
#pragma once

#include "base/shared.h"

namespace pagoda {

__device__ __forceinline__ std::uint32_t add_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ std::uint32_t multiply_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

}  // namespace pagoda
