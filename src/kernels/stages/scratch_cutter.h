// Cuts a stage's scratch into the buffers between its operations; run once without memory, it tells how much is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace pagoda::kernels {

class ScratchCutter {
 public:
  explicit ScratchCutter(std::byte* memory) : memory_(memory) {}

  std::byte* bytes(std::size_t size) {
    std::byte* out = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (size + 255) / 256 * 256;
    return out;
  }

  /// Room for `max_rows`, a view of `rows` of them.
  tensor::MatrixView matrix(tensor::DType dtype, std::int64_t max_rows, std::int64_t rows, std::int64_t cols) {
    void* data = bytes(static_cast<std::size_t>(max_rows * cols * tensor::size_of(dtype)));
    return {.data = data, .dtype = dtype, .rows = rows, .cols = cols, .stride = cols};
  }

  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

}  // namespace pagoda::kernels
