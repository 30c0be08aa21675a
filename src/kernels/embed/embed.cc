#include "kernels/embed/embed.h"

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/embed/cuda_embed.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 256;

/// As the unit's LAYOUT.
int device_layout(const Layout& layout) {
  if (&layout == &kMma16Layout) return 1;
  if (&layout == &kMmaCodesLayout) return 2;
  PAGODA_CHECK(&layout == &kRowsLayout, "layout {}", layout.name);
  return 0;
}

struct Params {
  LinearWeight table;
  EmbedArgs args;
};

void embed_rows(const Params& params, device::HostRange range) {
  const auto& [table, args] = params;
  const float scale = static_cast<float>(args.scale);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const std::int64_t id = args.ids[i];
    PAGODA_CHECK(id >= 0 && id < table.shape.n, "id {} of {} rows", id, table.shape.n);
    float* row = args.output.row<float>(i);
    table.layout->decode_row(*table.format, table.shape, table.data, id, row);
    if (scale == 1.0f) continue;
    for (std::int64_t column = 0; column < table.shape.k; ++column) row[column] *= scale;
  }
}

void embed_rows_exact(const Params& params, device::HostRange range) {
  const auto& [table, args] = params;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const std::int64_t id = args.ids[i];
    PAGODA_CHECK(id >= 0 && id < table.shape.n, "id {} of {} rows", id, table.shape.n);
    double* row = args.output.row<double>(i);
    // The floats go into the upper half of the row they are widened into, from the front: no one is overwritten unread.
    float* values = reinterpret_cast<float*>(row) + table.shape.k;
    table.layout->decode_row(*table.format, table.shape, table.data, id, values);
    for (std::int64_t column = 0; column < table.shape.k; ++column) {
      float value;
      std::memcpy(&value, values + column, sizeof value);
      const double scaled = args.scale * static_cast<double>(value);
      std::memcpy(row + column, &scaled, sizeof scaled);
    }
  }
}

}  // namespace

void embed(const LinearWeight& table, const EmbedArgs& args, device::Stream& stream) {
  const tensor::MatrixView& out = args.output;
  PAGODA_CHECK(out.cols == table.shape.k, "{} columns for a table of {}", out.cols, table.shape.k);
  const bool exact = out.dtype == tensor::DType::kF64;
  device::host(stream).launch(exact ? &embed_rows_exact : &embed_rows, Params{table, args}, out.rows, 8);
}

std::vector<CompileUnit> embed_units(const quant::Format& format, const Layout& layout,
                                     const device::DeviceCaps& caps) {
  if (!on_cuda(caps)) return {};
  return {cuda_unit(caps, "embed/cuda_embed.cu",
                    {format_define(format), define("LAYOUT", device_layout(layout)), define("THREADS", kThreads)})};
}

Result<EmbedStep> prepare_embed(const LinearWeight& table, device::Device& device) {
  if (!on_cuda(device.caps())) {
    return EmbedStep([table](const EmbedArgs& args, device::Stream& stream) { embed(table, args, stream); });
  }
  auto kernel = PAGODA_TRY(device::cuda::cuda(device).kernel<CudaEmbedParams>(
      embed_units(*table.format, *table.layout, device.caps())[0], "embed"));
  return EmbedStep([=, early = programmatic(device.caps())](const EmbedArgs& args, device::Stream& stream) {
    kernel.launch(device::cuda::cuda(stream),
                  {.grid = {.x = grid_size(args.output.rows)}, .block = {.x = kThreads}, .programmatic = early},
                  {.table = table.data,
                   .ids = args.ids,
                   .last_ids = args.last_ids,
                   .output = static_cast<float*>(args.output.data),
                   .row_bytes = table.format->row_bytes(table.shape.k),
                   .output_stride = args.output.stride,
                   .n = table.shape.n,
                   .k = table.shape.k,
                   .scale = static_cast<float>(args.scale)});
  });
}

}  // namespace pagoda::kernels
