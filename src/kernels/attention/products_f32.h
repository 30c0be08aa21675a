// How attention multiplies in float: one key or dimension a step, fused. After one lanes_*.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/lanes_math.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kDepth = 1;  // terms of a sum that one step adds
using Factor = float;               // what is multiplied with a whole vector: kDepth query elements or weights
using Wide = float;                 // an element of a widened tile: kDepth key or value elements
using Column = Lanes;               // sixteen of them

[[gnu::always_inline]] inline Column columns_of(Lanes even, Lanes) { return even; }
template <class Element>
[[gnu::always_inline]] inline Column load_column(const Element* p, std::int64_t) {
  return load(p);
}
[[gnu::always_inline]] inline void store_column(Wide* p, Column c) { store(p, c); }
/// Only keeps what all of a step's terms belong to; with one term a step nothing is ever cut.
[[gnu::always_inline]] inline Column keep_term(Column c, std::int64_t) { return c; }

[[gnu::always_inline]] inline Lanes multiply_add(Column factor, Column c, Lanes sums) { return fma(factor, c, sums); }
[[gnu::always_inline]] inline Column broadcast_factor(const Factor* p) { return broadcast(*p); }
/// 2^x for x ≤ 0.
[[gnu::always_inline]] inline Lanes weight_of(Lanes x) { return exp2_nonpositive(x); }
/// Sixteen numbers as 16 / kDepth factors.
[[gnu::always_inline]] inline void store_factors(Factor* p, Lanes x) { store(p, x); }
/// The same for two neighbouring sixteens; adds the values that the factors keep to `total`.
[[gnu::always_inline]] inline Lanes store_weights(Factor* p, Lanes first, Lanes second, Lanes total) {
  store(p, first);
  store(p + 16, second);
  return add(add(total, first), second);
}

}  // namespace
}  // namespace pagoda::kernels
