// residual += scale · update, or scale · (update · 1/sqrt(mean(update²) + epsilon) · (weight + shift)).
// A unit is a row, a lane an element of it. Reads 8 bytes an element and writes 4; the product is rounded before the
// sum. Chosen on every CPU.
#pragma once

#include "kernels/cpu/lanes_norm.h"
#include "kernels/residual/cpu_params.h"

namespace pagoda::kernels {
namespace {

inline void residual_rows(const ResidualParams& p, device::HostRange range) {
  const Lanes scale = broadcast(p.scale);
  const Lanes shift = broadcast(p.weight_shift);
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* update = p.update + row * p.update_stride;
    float* residual = p.residual + row * p.residual_stride;
    const Lanes inverse = p.norm != nullptr ? inverse_rms(update, p.hidden, p.epsilon) : broadcast(1.0f);
    for (std::int64_t i = 0; i < p.hidden; i += 16) {
      const std::int64_t left = p.hidden - i;
      Lanes change = load_first(update + i, left);
      if (p.norm != nullptr) change = mul(mul(change, inverse), add(load_first(p.norm + i, left), shift));
      store_first(residual + i, add(load_first(residual + i, left), mul(change, scale)), left);
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
