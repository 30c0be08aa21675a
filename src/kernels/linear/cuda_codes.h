// The host parts of cuda_pack_codes.cu and cuda_unpack_codes.cu: rows of any format with a coding, as a file has them,
// into the layout mma_codes, and from there into mma16 before a product of many rows.
#pragma once

#include "device/cuda/cuda_device.h"
#include "kernels/linear/cuda_pack_codes.h"
#include "kernels/linear/layout.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

/// The first format of the list that has the same coding: what device code is compiled for, once for all of these.
const quant::Format& format_of_coding(const quant::Format& format);

class PackCodes {
 public:
  static device::CompileUnit unit(const quant::Format& format, const device::DeviceCaps& caps);
  static Result<PackCodes> load(const quant::Format& format, device::cuda::CudaDevice& device);

  /// Rows [first_row, first_row + num_rows) into the matrix at `packed`; the range is one that Layout::pack takes.
  void launch(const void* rows, WeightShape shape, std::int64_t first_row, std::int64_t num_rows, void* packed,
              device::cuda::CudaStream& stream) const;

 private:
  const quant::Format* format_ = nullptr;
  device::cuda::Kernel<PackCodesParams> kernel_;
};

class UnpackCodes {
 public:
  /// `type`: of the weights that it makes, bf16 or f16.
  static device::CompileUnit unit(const quant::Format& format, tensor::DType type, const device::DeviceCaps& caps);
  static Result<UnpackCodes> load(const quant::Format& format, tensor::DType type, device::cuda::CudaDevice& device);

  /// `target` has room for mma16_elements(shape.n, shape.k).
  void launch(const void* packed, WeightShape shape, void* target, bool programmatic,
              device::cuda::CudaStream& stream) const;

 private:
  device::cuda::Kernel<UnpackCodesParams> kernel_;
};

}  // namespace pagoda::kernels
