#include "runtime/cuda_graphs.h"

#include <algorithm>

namespace pagoda::runtime {
namespace {

constexpr std::int64_t kMostCapturedRows = 256;
constexpr std::int64_t kAllUpTo = 16;

}  // namespace

std::vector<std::int64_t> CudaGraphs::buckets(std::int64_t max_rows) {
  const std::int64_t most = std::min(max_rows, kMostCapturedRows);
  std::vector<std::int64_t> buckets;
  for (std::int64_t rows = 1; rows < most; rows += rows < kAllUpTo ? 1 : rows < 64 ? 8 : 32) buckets.push_back(rows);
  if (most > 0) buckets.push_back(most);
  return buckets;
}

CudaGraphs::CudaGraphs(const model::Decoder& decoder, DeviceInputs& inputs, std::int64_t max_rows,
                       device::cuda::CudaStream& stream)
    : buckets_(buckets(max_rows)) {
  for (const std::int64_t rows : buckets_) {
    device::cuda::GraphCapture capture(stream);
    const model::DecoderInputs decode = inputs.decode_inputs(rows);
    decoder.forward(decode, stream);
    decoder.head(decode, 0, rows, stream);
    graphs_.push_back(capture.finish());
  }
}

std::int64_t CudaGraphs::bucket(std::int64_t rows) const {
  const auto at = std::ranges::lower_bound(buckets_, rows);
  return at == buckets_.end() ? 0 : *at;
}

void CudaGraphs::launch(std::int64_t bucket, device::cuda::CudaStream& stream) const {
  const auto at = std::ranges::lower_bound(buckets_, bucket);
  graphs_[static_cast<std::size_t>(at - buckets_.begin())].launch(stream);
}

}  // namespace pagoda::runtime
