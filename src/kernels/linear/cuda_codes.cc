#include "kernels/linear/cuda_codes.h"

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_mma_codes.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 128;  // four units of 64 columns

device::cuda::LaunchConfig config_of(std::int64_t k, std::int64_t rows, bool programmatic) {
  return {
      .grid = {.x = grid_size(ceil_div<std::int64_t>(num_units(k), kThreads / 32)), .y = grid_rows(num_tiles16(rows))},
      .block = {.x = kThreads},
      .programmatic = programmatic};
}

}  // namespace

const quant::Format& format_of_coding(const quant::Format& format) {
  for (const quant::Format* other : quant::all_formats()) {
    if (other->coding != nullptr && *other->coding == *format.coding) return *other;
  }
  return format;
}

device::CompileUnit PackCodes::unit(const quant::Format& format, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "linear/cuda_pack_codes.cu", {format_define(format), define("THREADS", kThreads)});
}

Result<PackCodes> PackCodes::load(const quant::Format& format, device::cuda::CudaDevice& device) {
  PackCodes loaded;
  loaded.format_ = &format;
  loaded.kernel_ = PAGODA_TRY(device.kernel<PackCodesParams>(unit(format, device.caps()), "pack_codes"));
  return loaded;
}

void PackCodes::launch(const void* rows, WeightShape shape, std::int64_t first_row, std::int64_t num_rows, void* packed,
                       device::cuda::CudaStream& stream) const {
  kernel_.launch(stream, config_of(shape.k, num_rows, false),
                 {.rows = rows,
                  .packed = packed,
                  .row_bytes = format_->row_bytes(shape.k),
                  .first_row = first_row,
                  .num_rows = num_rows,
                  .n = shape.n,
                  .k = shape.k});
}

device::CompileUnit UnpackCodes::unit(const quant::Format& format, tensor::DType type, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "linear/cuda_unpack_codes.cu",
                   {format_define(format_of_coding(format)), define("ELEMENT", type == tensor::DType::kF16),
                    define("THREADS", kThreads)});
}

Result<UnpackCodes> UnpackCodes::load(const quant::Format& format, tensor::DType type,
                                      device::cuda::CudaDevice& device) {
  UnpackCodes loaded;
  loaded.kernel_ = PAGODA_TRY(device.kernel<UnpackCodesParams>(unit(format, type, device.caps()), "unpack_codes"));
  return loaded;
}

void UnpackCodes::launch(const void* packed, WeightShape shape, void* target, bool programmatic,
                         device::cuda::CudaStream& stream) const {
  kernel_.launch(stream, config_of(shape.k, shape.n, programmatic), {packed, target, shape.n, shape.k});
}

}  // namespace pagoda::kernels
