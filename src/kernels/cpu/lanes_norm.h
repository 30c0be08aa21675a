// The statistic of an RMS norm on lanes, for bodies that have included one lanes_*.h.
#pragma once

#include <cstdint>

namespace pagoda::kernels {
namespace {

/// 1 / sqrt(mean(x²) + epsilon) in every lane. Vector i of the row is added to chain i mod 4; then (0 + 1) + (2 + 3),
/// and the lanes as `sum` does.
inline Lanes inverse_rms(const float* x, std::int64_t n, float epsilon) {
  const Lanes zero = broadcast(0.0f);
  Lanes chain[4] = {zero, zero, zero, zero};
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const Lanes v = load(x + i + 16 * part);
      chain[part] = fma(v, v, chain[part]);
    }
  }
  for (int part = 0; i < n; i += 16, ++part) {
    const Lanes v = load_first(x + i, n - i);
    chain[part] = fma(v, v, chain[part]);
  }
  const float total = sum(add(add(chain[0], chain[1]), add(chain[2], chain[3])));
  const Lanes mean = div(broadcast(total), broadcast(static_cast<float>(n)));
  return div(broadcast(1.0f), square_root(add(mean, broadcast(epsilon))));
}

}  // namespace
}  // namespace pagoda::kernels
