// What host code and kernel sources (compiled without any standard header) have in common: fixed-width integers and
// the mark of a function that both sides call. Headers that kernels include, include only this and each other.
#pragma once

#ifdef __CUDACC_RTC__
#define PAGODA_SHARED __host__ __device__ inline
namespace std {
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
}  // namespace std
#else
#include <cstdint>
#define PAGODA_SHARED inline
#endif
