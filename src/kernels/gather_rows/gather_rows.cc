#include "kernels/gather_rows/gather_rows.h"

#include <cstring>

#include "kernels/cuda/launch.h"
#include "kernels/gather_rows/cuda_gather_rows.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPieceBytes = 16;
constexpr std::int64_t kRowsOfAWorker = 64;

/// Units are rows of the output.
void copy_rows(const GatherRowsArgs& args, device::HostRange range) {
  const std::int64_t element = tensor::size_of(args.input.dtype);
  const auto* const from = static_cast<const std::byte*>(args.input.data);
  auto* const to = static_cast<std::byte*>(args.output.data);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    std::memcpy(to + i * args.output.stride * element, from + args.rows[i] * args.input.stride * element,
                static_cast<std::size_t>(args.input.cols * element));
  }
}

std::int64_t pieces(std::int64_t elements, tensor::DType dtype) {
  return elements * tensor::size_of(dtype) / kPieceBytes;
}

}  // namespace

void gather_rows(const GatherRowsArgs& args, device::Stream& stream) {
  device::host(stream).launch(copy_rows, args, args.output.rows, kRowsOfAWorker);
}

std::vector<CompileUnit> gather_rows_units(const device::DeviceCaps& caps) {
  if (!on_cuda(caps)) return {};
  return {cuda_unit(caps, "gather_rows/cuda_gather_rows.cu", {define("THREADS", kThreads)})};
}

Result<GatherRowsStep> prepare_gather_rows(device::Device& device) {
  if (!on_cuda(device.caps())) return GatherRowsStep(gather_rows);
  auto kernel = PAGODA_TRY(
      device::cuda::cuda(device).kernel<CudaGatherRowsParams>(gather_rows_units(device.caps())[0], "gather_rows"));
  return GatherRowsStep([=, early = programmatic(device.caps())](const GatherRowsArgs& args, device::Stream& stream) {
    const tensor::DType dtype = args.input.dtype;
    kernel.launch(device::cuda::cuda(stream),
                  {.grid = {.x = grid_size(args.output.rows)}, .block = {.x = kThreads}, .programmatic = early},
                  {.input = args.input.data,
                   .output = args.output.data,
                   .rows = args.rows,
                   .input_stride = pieces(args.input.stride, dtype),
                   .output_stride = pieces(args.output.stride, dtype),
                   .pieces = pieces(args.input.cols, dtype)});
  });
}

}  // namespace pagoda::kernels
