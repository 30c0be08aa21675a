#include "runtime/decode_graphs.h"

namespace pagoda::runtime {

DecodeGraphs::DecodeGraphs(const model::Decoder& decoder, const StepInputs& inputs, std::int64_t max_rows,
                           device::HostStream& stream)
    : graphs_(static_cast<std::size_t>(max_rows)) {
  for (std::int64_t rows = 1; rows <= max_rows; ++rows) {
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
