// out[r] += Σ_c w[r][c]·x[c] in float: two registers of 16 lanes, merged in halves; four rows at a time share x.
#include <immintrin.h>

#include "kernels/linear/cpu_generic.h"

namespace pagoda::kernels {
namespace {

/// Lanes l and l + 8, l + 4, l + 2, l + 1 in turn, as cpu_generic.cc does it.
float merge(__m512 a, __m512 b) {
  const __m512 sum16 = _mm512_add_ps(a, b);
  const __m256 sum8 = _mm256_add_ps(_mm512_castps512_ps256(sum16), _mm512_extractf32x8_ps(sum16, 1));
  const __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
  const __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
  return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_shuffle_ps(sum2, sum2, 1)));
}

template <int kRows>
void dots(const float* w, long stride, const float* x, long cols, float* out) {
  __m512 a[kRows];
  __m512 b[kRows];
  for (int r = 0; r < kRows; ++r) a[r] = b[r] = _mm512_setzero_ps();
  for (long c = 0; c < cols; c += 32) {
    const __m512 x0 = _mm512_loadu_ps(x + c);
    const __m512 x1 = _mm512_loadu_ps(x + c + 16);
    for (int r = 0; r < kRows; ++r) {
      a[r] = _mm512_fmadd_ps(_mm512_loadu_ps(w + r * stride + c), x0, a[r]);
      b[r] = _mm512_fmadd_ps(_mm512_loadu_ps(w + r * stride + c + 16), x1, b[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) out[r] += merge(a[r], b[r]);
}

}  // namespace

void generic_dot_avx512(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                        std::int64_t cols, float* out) {
  std::int64_t row = 0;
  for (; row + 4 <= num_rows; row += 4) dots<4>(weights + row * row_stride, row_stride, x, cols, out + row);
  for (; row < num_rows; ++row) dots<1>(weights + row * row_stride, row_stride, x, cols, out + row);
}

}  // namespace pagoda::kernels
