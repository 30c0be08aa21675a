#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/graph.h"
#include "model/decoder.h"
#include "runtime/device_inputs.h"

namespace pagoda::runtime {

/// Steps of one token a row, forward pass and head, captured for some numbers of rows and replayed. A replay computes
/// what the fixed buffers say: other sequences, lengths and pages need no new capture.
class CudaGraphs {
 public:
  CudaGraphs() = default;

  /// Captures every bucket up to `max_rows`. Throws DeviceError.
  CudaGraphs(const model::Decoder& decoder, DeviceInputs& inputs, std::int64_t max_rows,
             device::cuda::CudaStream& stream);

  /// The numbers of rows that are captured, ascending: all small ones, then steps of an eighth or so.
  static std::vector<std::int64_t> buckets(std::int64_t max_rows);

  /// The buckets that there are.
  std::span<const std::int64_t> captured() const { return buckets_; }

  /// Rows of the smallest bucket that holds `rows`; 0 if none does.
  std::int64_t bucket(std::int64_t rows) const;
  void launch(std::int64_t bucket, device::cuda::CudaStream& stream) const;

 private:
  std::vector<std::int64_t> buckets_;
  std::vector<device::cuda::Graph> graphs_;
};

}  // namespace pagoda::runtime
