// The register-blocked product that attention is made of, on products_f32.h or products_bf16.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/kv_store/kv_layout.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kG = KvLayout::kGroup;

// What is fetched ahead is up to 32 KiB, all of a first-level cache; and a core has more reads under way to the second.
constexpr int kFetchIntoSecondLevel = 2;

/// Rows of memory that one step of a sum takes: a widened tile's rows are whole steps.
template <class Element>
constexpr std::int64_t kStepRows = std::is_same_v<Element, Wide> ? 1 : kDepth;

/// C (rows, vectors · 16) += A (rows, steps) · B (steps, vectors · 16), in order over the steps.
template <class Element>
struct Product {
  const Factor* a;
  const Element* b[kMaxTileVectors];      // one pointer a vector of columns
  const Element* ahead[kMaxTileVectors];  // what to fetch meanwhile, walked like b
  float* c;
  std::int64_t a_stride, b_stride, c_stride, steps;
  bool fresh;  // C begins at zero
};

template <int rows, int vectors, class Element>
[[gnu::noinline]] void multiply(const Product<Element>& x) {
  Lanes sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = x.fresh ? broadcast(0.0f) : load(x.c + r * x.c_stride + v * kG);
  }
  const Element* b[vectors];
  const char* ahead[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    b[v] = x.b[v];
    ahead[v] = reinterpret_cast<const char*>(x.ahead[v]);
  }
  const Factor* a = x.a;
  const std::int64_t step_elements = kStepRows<Element> * x.b_stride;
  for (std::int64_t step = 0; step < x.steps; ++step, ++a) {
    Column column[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      column[v] = load_column(b[v], x.b_stride);
      b[v] += step_elements;
      if constexpr (!std::is_same_v<Element, Wide>) {
#pragma GCC unroll 2
        for (std::int64_t row = 0; row < kStepRows<Element>; ++row) {
          __builtin_prefetch(ahead[v] + row * x.b_stride * static_cast<std::int64_t>(sizeof(Element)), 0,
                             kFetchIntoSecondLevel);
        }
        ahead[v] += step_elements * static_cast<std::int64_t>(sizeof(Element));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const Column factor = broadcast_factor(a + r * x.a_stride);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = multiply_add(factor, column[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(x.c + r * x.c_stride + v * kG, sums[r][v]);
  }
}

template <class Element, int rows = kMaxTileRows, int vectors = kMaxTileVectors>
[[gnu::always_inline]] inline void multiply_block(std::int64_t num_rows, std::int64_t num_vectors,
                                                  const Product<Element>& x) {
  if constexpr (rows > 1) {
    if (num_rows < rows) return multiply_block<Element, rows - 1, vectors>(num_rows, num_vectors, x);
  }
  if constexpr (vectors > 1) {
    if (num_vectors < vectors) return multiply_block<Element, rows, vectors - 1>(num_rows, num_vectors, x);
  }
  multiply<rows, vectors>(x);
}

}  // namespace
}  // namespace pagoda::kernels
