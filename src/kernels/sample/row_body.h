// What row_kernels.h declares, for the instructions that the including file is compiled for.
#pragma once

#include "kernels/sample/exp_nonpositive.h"
#include "kernels/sample/row_kernels.h"

namespace pagoda::kernels {
namespace {

template <class T>
void extremes(const T* row, std::int64_t count, OrderKey<T>* best, OrderKey<T>* magnitude) {
  using Key = OrderKey<T>;
  constexpr Key kMagnitude = static_cast<Key>(~(Key{1} << (8 * sizeof(Key) - 1)));
  Key most = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  Key largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Key key = order_key(row[i]);
    const Key bits = __builtin_bit_cast(Key, row[i]) & kMagnitude;
    most = key > most ? key : most;
    largest = bits > largest ? bits : largest;
  }
  *best = most;
  *magnitude = largest;
}

constexpr std::int64_t kChains = 16;

/// The chains in a fixed tree.
[[gnu::always_inline]] inline double merge(double (&chains)[kChains]) {
  for (std::int64_t width = kChains / 2; width > 0; width /= 2) {
    for (std::int64_t c = 0; c < width; ++c) chains[c] += chains[c + width];
  }
  return chains[0];
}

template <class T>
double sum_exp(const T* row, std::int64_t count, double max) {
  double chains[kChains] = {};
  std::int64_t i = 0;
  for (; i + kChains <= count; i += kChains) {
    for (std::int64_t c = 0; c < kChains; ++c) chains[c] += exp_nonpositive(static_cast<double>(row[i + c]) - max);
  }
  for (std::int64_t c = 0; i < count; ++i, ++c) chains[c] += exp_nonpositive(static_cast<double>(row[i]) - max);
  return merge(chains);
}

template <class T>
void weights(const T* row, std::int64_t count, double max, double inverse, double floor, double* out,
             double* block_sums) {
  for (std::int64_t begin = 0; begin < count; begin += kWeightBlock) {
    const std::int64_t end = begin + kWeightBlock < count ? begin + kWeightBlock : count;
    double chains[kChains] = {};
    std::int64_t i = begin;
    for (; i + kChains <= end; i += kChains) {
      for (std::int64_t c = 0; c < kChains; ++c) {
        const double weight = exp_nonpositive((static_cast<double>(row[i + c]) - max) * inverse);
        const double kept = weight < floor ? 0.0 : weight;
        out[i + c] = kept;
        chains[c] += kept;
      }
    }
    for (std::int64_t c = 0; i < end; ++i, ++c) {
      const double weight = exp_nonpositive((static_cast<double>(row[i]) - max) * inverse);
      const double kept = weight < floor ? 0.0 : weight;
      out[i] = kept;
      chains[c] += kept;
    }
    block_sums[begin / kWeightBlock] = merge(chains);
  }
}

constexpr RowKernelSet kRowKernelsHere = {
    .f32 = {.extremes = extremes<float>, .sum_exp = sum_exp<float>, .weights = weights<float>},
    .f64 = {.extremes = extremes<double>, .sum_exp = sum_exp<double>, .weights = weights<double>}};

}  // namespace
}  // namespace pagoda::kernels
