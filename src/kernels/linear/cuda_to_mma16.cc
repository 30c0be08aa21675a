#include "kernels/linear/cuda_to_mma16.h"

#include "kernels/cuda/launch.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 128;  // of eight columns each

}  // namespace

device::CompileUnit ToMma16::unit(const quant::Format& format, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "linear/cuda_to_bf16.cu",
                   {format_define(format), "FROM_MMA16=0", "TO_MMA16=1", define("THREADS", kThreads)});
}

Result<ToMma16> ToMma16::load(const quant::Format& format, device::cuda::CudaDevice& device) {
  ToMma16 loaded;
  loaded.format_ = &format;
  loaded.kernel_ = PAGODA_TRY(device.kernel<ToBf16Params>(unit(format, device.caps()), "to_bf16_rows"));
  return loaded;
}

void ToMma16::launch(const void* rows, WeightShape shape, const std::int32_t* place, void* packed, bool programmatic,
                     device::cuda::CudaStream& stream) const {
  kernel_.launch(stream,
                 {.grid = {.x = grid_size(ceil_div<std::int64_t>(round_up<std::int64_t>(shape.k, 32), 8 * kThreads)),
                           .y = grid_rows(round_up<std::int64_t>(shape.n, 16))},
                  .block = {.x = kThreads},
                  .programmatic = programmatic},
                 {rows, packed, format_->row_bytes(shape.k), shape.n, shape.k, place});
}

}  // namespace pagoda::kernels
