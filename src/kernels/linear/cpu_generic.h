#pragma once

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

/// Any format, straight from the file's rows. The first wants AVX-512, the second AVX2, the last nothing; the first
/// two have one arithmetic.
extern const LinearKernel kGenericAvx512Linear;
extern const LinearKernel kGenericAvx2Linear;
extern const LinearKernel kGenericLinear;

/// Dot products of `num_rows` rows of decoded weights, `row_stride` floats apart, with one activation row, over `cols`
/// columns (a multiple of 32: both sides end in zeros): out[r] += dot(r). 32 lanes, lane c mod 32, merged in halves.
using GenericDot = void (*)(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                            std::int64_t cols, float* out);
void generic_dot_avx512(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                        std::int64_t cols, float* out);
void generic_dot_avx2(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                      std::int64_t cols, float* out);

}  // namespace pagoda::kernels
