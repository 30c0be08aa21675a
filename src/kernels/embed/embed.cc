#include "kernels/embed/embed.h"

#include <algorithm>

namespace pagoda::kernels {
namespace {

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

}  // namespace pagoda::kernels
