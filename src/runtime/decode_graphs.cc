#include "runtime/decode_graphs.h"

#include <algorithm>

namespace pagoda::runtime {

namespace {

/// A graph takes some 100 KiB, and recording saves microseconds: little beside a step of many rows.
constexpr std::int64_t kMostRecordedRows = 16;

}  // namespace

DecodeGraphs::DecodeGraphs(const model::Decoder& decoder, const StepInputs& inputs, std::int64_t max_rows,
                           device::HostStream& stream)
    : graphs_(static_cast<std::size_t>(std::min(max_rows, kMostRecordedRows))) {
  for (std::int64_t rows = 1; rows <= std::ssize(graphs_); ++rows) {
    stream.begin_capture(graphs_[static_cast<std::size_t>(rows - 1)]);
    decoder.forward(inputs.decode_inputs(rows), stream);
    stream.end_capture();
  }
}

bool DecodeGraphs::replay(std::int64_t rows, device::HostStream& stream) const {
  if (rows < 1 || rows > std::ssize(graphs_)) return false;
  stream.replay(graphs_[static_cast<std::size_t>(rows - 1)]);
  return true;
}

}  // namespace pagoda::runtime
