// The host part of cuda_to_bf16.cu: rows of any format, as a file has them, into the layout mma16. How weights are
// packed, and how those of other formats are decoded before a product of many rows.
#pragma once

#include "device/cuda/cuda_device.h"
#include "kernels/linear/cuda_to_bf16.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {

class ToMma16 {
 public:
  static device::CompileUnit unit(const quant::Format& format, const device::DeviceCaps& caps);
  static Result<ToMma16> load(const quant::Format& format, device::cuda::CudaDevice& device);

  /// `packed` has room for mma16_elements(shape.n, shape.k). `place`: where the rows have each column, or null.
  void launch(const void* rows, WeightShape shape, const std::int32_t* place, void* packed, bool programmatic,
              device::cuda::CudaStream& stream) const;

 private:
  const quant::Format* format_ = nullptr;
  device::cuda::Kernel<ToBf16Params> kernel_;
};

}  // namespace pagoda::kernels
