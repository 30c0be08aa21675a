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

constexpr std::int64_t kWeighed = 16;

/// Weights of a few logits at once; most such groups have no token above kTailBelow.
template <class T>
[[gnu::always_inline]] inline std::uint64_t weigh(const T* row, const Weighing<T>& how, std::uint64_t floor,
                                                  std::uint64_t* out) {
  std::uint32_t tails[kWeighed];
  std::uint32_t heads = 0;
  for (std::int64_t i = 0; i < kWeighed; ++i) {
    const float scaled = scaled_logit(row[i], how);
    tails[i] = tail_units(scaled, how.bits);
    heads |= scaled > kTailBelow ? 1u : 0u;
  }
  std::uint64_t sum = 0;
  if (heads == 0) {
    for (std::int64_t i = 0; i < kWeighed; ++i) {
      const std::uint64_t units = tails[i];
      out[i] = units < floor ? 0 : units;
      sum += out[i];
    }
    return sum;
  }
  for (std::int64_t i = 0; i < kWeighed; ++i) {
    const std::uint64_t units = scaled_logit(row[i], how) > kTailBelow ? head_units(row[i], how) : tails[i];
    out[i] = units < floor ? 0 : units;
    sum += out[i];
  }
  return sum;
}

template <class T>
void weights(const T* row, std::int64_t count, const Weighing<T>& how, std::uint64_t floor, std::uint64_t* out,
             std::uint64_t* block_sums) {
  for (std::int64_t begin = 0; begin < count; begin += kWeightBlock) {
    const std::int64_t end = begin + kWeightBlock < count ? begin + kWeightBlock : count;
    std::uint64_t sum = 0;
    std::int64_t i = begin;
    for (; i + kWeighed <= end; i += kWeighed) sum += weigh(row + i, how, floor, out + i);
    for (; i < end; ++i) {
      const std::uint64_t units = weight_units(row[i], how);
      out[i] = units < floor ? 0 : units;
      sum += out[i];
    }
    block_sums[begin / kWeightBlock] = sum;
  }
}

constexpr RowKernelSet kRowKernelsHere = {
    .f32 = {.extremes = extremes<float>, .sum_exp = sum_exp<float>, .weights = weights<float>},
    .f64 = {.extremes = extremes<double>, .sum_exp = sum_exp<double>, .weights = weights<double>}};

}  // namespace
}  // namespace pagoda::kernels
