// out[r] += Σ_c w[r][c]·x[c] in float: four registers of 8 lanes, merged in halves; two rows at a time share x.
#include <immintrin.h>

#include "kernels/linear/cpu_generic.h"

namespace pagoda::kernels {
namespace {

/// Lanes l and l + 16, l + 8, l + 4, l + 2, l + 1 in turn, as cpu_generic.cc does it.
float merge(const __m256* a) {
  const __m256 sum8 = _mm256_add_ps(_mm256_add_ps(a[0], a[2]), _mm256_add_ps(a[1], a[3]));
  const __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
  const __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
  return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_shuffle_ps(sum2, sum2, 1)));
}

template <int kRows>
void dots(const float* w, long stride, const float* x, long cols, float* out) {
  __m256 sum[kRows][4];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < 4; ++i) sum[r][i] = _mm256_setzero_ps();
  }
  for (long c = 0; c < cols; c += 32) {
    for (int i = 0; i < 4; ++i) {
      const __m256 xi = _mm256_loadu_ps(x + c + 8 * i);
      for (int r = 0; r < kRows; ++r) {
        sum[r][i] = _mm256_fmadd_ps(_mm256_loadu_ps(w + r * stride + c + 8 * i), xi, sum[r][i]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) out[r] += merge(sum[r]);
}

}  // namespace

void generic_dot_avx2(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                      std::int64_t cols, float* out) {
  std::int64_t row = 0;
  for (; row + 2 <= num_rows; row += 2) dots<2>(weights + row * row_stride, row_stride, x, cols, out + row);
  for (; row < num_rows; ++row) dots<1>(weights + row * row_stride, row_stride, x, cols, out + row);
}

}  // namespace pagoda::kernels
