#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace pagoda::tensor {

/// Element types of activations, caches and indices. Weights have a quant::Format instead.
enum class DType : std::uint8_t { kF64, kF32, kF16, kBf16, kFp8E4m3, kI32, kI64 };

constexpr std::int64_t size_of(DType dtype) {
  constexpr std::int64_t sizes[] = {8, 4, 2, 2, 1, 4, 8};
  return sizes[static_cast<std::uint8_t>(dtype)];
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f64", "f32", "f16", "bf16", "fp8_e4m3", "i32", "i64"};
  return names[static_cast<std::uint8_t>(dtype)];
}

template <class T>
constexpr DType dtype_of() = delete;
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}

/// A matrix somewhere in a device's memory: rows of `cols` elements, `stride` elements apart. Owns nothing.
struct MatrixView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next; at least `cols`

  /// The elements of one row, as the type that `dtype` says.
  template <class T>
  T* row(std::int64_t index) const {
    PAGODA_CHECK(dtype == dtype_of<T>(), "{} is not the type asked for", name_of(dtype));
    return static_cast<T*>(data) + index * stride;
  }
};

template <class T>
MatrixView matrix(T* data, std::int64_t rows, std::int64_t cols) {
  return {.data = data, .dtype = dtype_of<T>(), .rows = rows, .cols = cols, .stride = cols};
}

}  // namespace pagoda::tensor
