#pragma once

#include <cstdint>
#include <vector>

#include "device/stream.h"
#include "model/decoder.h"
#include "runtime/step_inputs.h"

namespace pagoda::runtime {

/// The forward pass of a step of n rows of one token each, recorded once for each small n, and replayed.
/// What a replay computes follows from the fixed buffers alone.
class DecodeGraphs {
 public:
  DecodeGraphs(const model::Decoder& decoder, const StepInputs& inputs, std::int64_t max_rows,
               device::HostStream& stream);

  /// Replays the step of `rows` rows; false if none was recorded for it.
  bool replay(std::int64_t rows, device::HostStream& stream) const;

 private:
  std::vector<device::HostGraph> graphs_;  // of rows 1, 2, …
};

}  // namespace pagoda::runtime
