// The passes over a whole row of logits, once for each set of instructions. All of them give the same bits: sums have a
// fixed number of chains, and nothing is fused.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/caps.h"
#include "kernels/sample/weight_units.h"

namespace pagoda::kernels {

/// A signed integer that orders as the numbers of T do, NaN aside: integer maxima vectorise, floating ones do not.
template <class T>
using OrderKey = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
[[gnu::always_inline]] inline OrderKey<T> order_key(T value) {
  using Key = OrderKey<T>;
  const Key bits = __builtin_bit_cast(Key, value + T{0});  // -0 becomes +0
  constexpr Key kMagnitude = static_cast<Key>(~(Key{1} << (8 * sizeof(Key) - 1)));
  return bits ^ ((bits >> (8 * sizeof(Key) - 1)) & kMagnitude);
}

/// Elements whose weights are summed together, so that a draw need not walk through every one.
inline constexpr std::int64_t kWeightBlock = 256;

template <class T>
struct RowKernels {
  /// The largest key, and the largest bit pattern without its sign.
  void (*extremes)(const T* row, std::int64_t count, OrderKey<T>* best, OrderKey<T>* magnitude);

  /// Σ e^(row[i] - max).
  double (*sum_exp)(const T* row, std::int64_t count, double max);

  /// weights[i] = weight_units(row[i]), or 0 where that is below `floor`; block_sums[b] is the sum of block b.
  void (*weights)(const T* row, std::int64_t count, const Weighing<T>& how, std::uint64_t floor, std::uint64_t* weights,
                  std::uint64_t* block_sums);
};

struct RowKernelSet {
  RowKernels<float> f32;
  RowKernels<double> f64;
};

extern const RowKernelSet kRowKernelsPortable;
extern const RowKernelSet kRowKernelsAvx2;
extern const RowKernelSet kRowKernelsAvx512;

/// T is float or double.
template <class T>
const RowKernels<T>& row_kernels(device::CpuIsa isa) {
  const RowKernelSet& set = isa >= device::CpuIsa::kAvx512 ? kRowKernelsAvx512
                            : isa >= device::CpuIsa::kAvx2 ? kRowKernelsAvx2
                                                           : kRowKernelsPortable;
  if constexpr (sizeof(T) == 4) {
    return set.f32;
  } else {
    return set.f64;
  }
}

}  // namespace pagoda::kernels
