// output = (input · 1/sqrt(mean(input²) + epsilon)) · (weight + shift).
// A unit is a row, a lane an element of it. Reads 4 bytes an element twice (the second time from the first-level cache)
// and writes 4. The statistic's order is in lanes_norm.h; body and tail are one function. Chosen on every CPU.
#pragma once

#include "kernels/cpu/lanes_norm.h"
#include "kernels/rms_norm/cpu_params.h"

namespace pagoda::kernels {
namespace {

inline void rms_norm_rows(const RmsNormParams& p, device::HostRange range) {
  const Lanes shift = broadcast(p.weight_shift);
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* in = p.input + row * p.input_stride;
    float* out = p.output + row * p.output_stride;
    const Lanes inverse = inverse_rms(in, p.hidden, p.epsilon);
    for (std::int64_t i = 0; i < p.hidden; i += 16) {
      const std::int64_t left = p.hidden - i;
      const Lanes weight = add(load_first(p.weight + i, left), shift);
      store_first(out + i, mul(mul(load_first(in + i, left), inverse), weight), left);
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
